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

enum { PAGE = 4096 };

/* Pieces: the first page, tubes by slot, sums by slot, parameters by version. */
enum {
    FIRST_TUBE = 1,
    FIRST_SUMS = FIRST_TUBE + LS_BOX_SLOTS,
    FIRST_PARAMETERS = FIRST_SUMS + LS_BOX_SLOTS,
    N_PIECES = FIRST_PARAMETERS + LS_BOX_VERSIONS
};

struct first_page {
    struct ls_box_size size;
    _Alignas(64) _Atomic uint32_t is_server_asleep;
};

struct ls_box {
    struct ls_box_size size;
    int fd;
    void *pieces[N_PIECES]; /* mapped so far */
};

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static size_t piece_bytes(const struct ls_box *b, int piece)
{
    if (piece < FIRST_TUBE) return PAGE;
    if (piece < FIRST_SUMS) return whole_pages(sizeof(struct ls_tube_memory));
    if (piece < FIRST_PARAMETERS) return whole_pages((size_t)b->size.n_sums * sizeof(int64_t));
    return whole_pages((size_t)b->size.parameters_bytes);
}

static size_t piece_begin(const struct ls_box *b, int piece)
{
    size_t at = 0;
    for (int i = 0; i < piece; i++) at += piece_bytes(b, i);
    return at;
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

static bool is_slot(int slot)
{
    return slot >= 0 && slot < LS_BOX_SLOTS;
}

_Atomic uint32_t *ls__box_server_flag(struct ls_box *box)
{
    struct first_page *page = map_piece(box, 0);
    return page ? &page->is_server_asleep : NULL;
}

struct ls_tube_memory *ls__box_tube(struct ls_box *box, int slot)
{
    return is_slot(slot) ? map_piece(box, FIRST_TUBE + slot) : NULL;
}

int64_t *ls__box_sums(struct ls_box *box, int slot)
{
    return is_slot(slot) ? map_piece(box, FIRST_SUMS + slot) : NULL;
}

uint8_t *ls__box_parameters(struct ls_box *box, int version)
{
    return version >= 0 && version < LS_BOX_VERSIONS ? map_piece(box, FIRST_PARAMETERS + version) : NULL;
}
