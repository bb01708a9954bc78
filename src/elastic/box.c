/* box.c: see box.h. */
#include "elastic/box.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, N_PIECES = LS_BOX_SLOTS + LS_BOX_VERSIONS };

struct ls_box {
    struct ls_box_size size;
    int fd;
    void *pieces[N_PIECES]; /* mapped so far: sums by slot, then parameters by version */
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t sums_bytes(const struct ls_box *b)
{
    return whole_pages((size_t)b->size.n_sums * sizeof(int64_t));
}

static size_t piece_bytes(const struct ls_box *b, int piece)
{
    return piece < LS_BOX_SLOTS ? sums_bytes(b) : whole_pages((size_t)b->size.parameters_bytes);
}

static size_t piece_begin(const struct ls_box *b, int piece)
{
    const size_t n_before = (size_t)(piece < LS_BOX_SLOTS ? piece : LS_BOX_SLOTS);
    return PAGE + n_before * sums_bytes(b) + ((size_t)piece - n_before) * whole_pages((size_t)b->size.parameters_bytes);
}

static void *map_piece(struct ls_box *b, int piece)
{
    if (b->pieces[piece]) return b->pieces[piece];
    void *p =
        mmap(NULL, piece_bytes(b, piece), PROT_READ | PROT_WRITE, MAP_SHARED, b->fd, (off_t)piece_begin(b, piece));
    b->pieces[piece] = p == MAP_FAILED ? NULL : p;
    return b->pieces[piece];
}

static enum ls_status make(struct ls_box *b)
{
    b->fd = memfd_create("lockstep-box", MFD_CLOEXEC);
    if (b->fd < 0 || ftruncate(b->fd, (off_t)piece_begin(b, N_PIECES)) != 0 ||
        pwrite(b->fd, &b->size, sizeof b->size, 0) != (ssize_t)sizeof b->size)
        return ls_fail(LS_IO, "memory that workers share with their server: %s", strerror(errno));
    return LS_OK;
}

static enum ls_status find(struct ls_box *b, uint32_t pid, uint32_t fd)
{
    char path[64];
    struct ls_box_size there;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", pid, fd);
    b->fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (b->fd < 0) return ls_fail(LS_IO, "%s: %s", path, strerror(errno));
    if (pread(b->fd, &there, sizeof there, 0) != (ssize_t)sizeof there || memcmp(&there, &b->size, sizeof there) != 0)
        return ls_fail(LS_IO, "%s is not the memory of this server", path);
    return LS_OK;
}

enum ls_status ls__box_create(struct ls_box **out, const struct ls_box_size *size)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->size = *size;
    enum ls_status status = make(*out);
    if (status != LS_OK) ls__box_close(out);
    return status;
}

enum ls_status ls__box_open(struct ls_box **out, const struct ls_box_size *size, uint32_t pid, uint32_t fd)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->size = *size;
    enum ls_status status = find(*out, pid, fd);
    if (status != LS_OK) ls__box_close(out);
    return status;
}

void ls__box_close(struct ls_box **box)
{
    struct ls_box *b = *box;
    if (!b) return;
    for (int i = 0; i < N_PIECES; i++)
        if (b->pieces[i]) munmap(b->pieces[i], piece_bytes(b, i));
    if (b->fd >= 0) close(b->fd);
    free(b);
    *box = NULL;
}

uint32_t ls__box_fd(const struct ls_box *box)
{
    return (uint32_t)box->fd;
}

int64_t *ls__box_sums(struct ls_box *box, int slot)
{
    return slot >= 0 && slot < LS_BOX_SLOTS ? map_piece(box, slot) : NULL;
}

uint8_t *ls__box_parameters(struct ls_box *box, int version)
{
    return version >= 0 && version < LS_BOX_VERSIONS ? map_piece(box, LS_BOX_SLOTS + version) : NULL;
}
