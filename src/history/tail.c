/* tail.c: files that grow while they are read; see internal.h. */
#include "history/internal.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 18, LONGEST_LINE = 1 << 16 };
#define LARGEST_FILE ((off_t)1 << 32)

/* -1: not there, or not a plain file. Opening never waits. */
static int open_plain(int folder_fd, const char *name, struct stat *st)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return -1;
    if (fstat(fd, st) == 0 && S_ISREG(st->st_mode)) return fd;
    close(fd);
    return -1;
}

static bool is_same_file(const struct ls_tail *t, const struct stat *st, int fd)
{
    char before[sizeof t->before];
    if (t->device != st->st_dev || t->inode != st->st_ino || st->st_size < t->offset) return false;
    if (t->n_before == 0) return true;
    return pread(fd, before, t->n_before, t->offset - (off_t)t->n_before) == (ssize_t)t->n_before &&
           memcmp(before, t->before, t->n_before) == 0;
}

static void remember(struct ls_tail *t, const char *end_of_lines, size_t len)
{
    size_t n = len < sizeof t->before ? len : sizeof t->before;
    memcpy(t->before, end_of_lines - n, n);
    t->n_before = n;
}

/* The whole lines of buffer[0..len): how many bytes they are. */
static enum ls_status give_lines(struct ls_tail *t, const char *buffer, size_t len, ls_line_fn *line, void *arg,
                                 size_t *taken)
{
    size_t at = 0;
    for (const char *newline; (newline = memchr(buffer + at, '\n', len - at)); at = (size_t)(newline - buffer) + 1) {
        size_t n = (size_t)(newline - buffer) - at;
        if (n > LONGEST_LINE)
            t->n_bad++;
        else
            TRY(line(arg, buffer + at, n));
    }
    *taken = at;
    return LS_OK;
}

static enum ls_status read_on(struct ls_tail *t, int fd, char *buffer, ls_line_fn *line, void *arg, bool *has_new)
{
    while (t->offset < LARGEST_FILE) {
        size_t taken = 0;
        ssize_t n = pread(fd, buffer, CHUNK, t->offset);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return LS_OK; /* a disk that cannot be read tells nothing new */
        TRY(give_lines(t, buffer, (size_t)n, line, arg, &taken));
        if (taken == 0 && n < CHUNK) return LS_OK; /* half a line: later */
        if (taken == 0) {                          /* a chunk without end of line: it is dropped, and the rest of it */
            t->n_bad++;
            taken = (size_t)n;
        }
        remember(t, buffer + taken, taken);
        t->offset += (off_t)taken;
        *has_new = true;
    }
    return LS_OK;
}

enum ls_status ls__tail_read(struct ls_tail *t, int folder_fd, const char *name, void (*start)(void *arg),
                             ls_line_fn *line, void *arg, bool *has_new)
{
    struct stat st;
    char *buffer = NULL;
    int fd = open_plain(folder_fd, name, &st);
    if (fd < 0) {
        if (t->offset > 0) {
            *t = (struct ls_tail){0};
            start(arg);
            *has_new = true;
        }
        return LS_OK;
    }
    if (t->offset > 0 && !is_same_file(t, &st, fd)) {
        *t = (struct ls_tail){0};
        start(arg);
        *has_new = true;
    }
    t->device = st.st_dev;
    t->inode = st.st_ino;
    enum ls_status status = LS_OK;
    if (st.st_size > t->offset) {
        status = ls__calloc(&buffer, CHUNK, 1);
        if (status == LS_OK) status = read_on(t, fd, buffer, line, arg, has_new);
    }
    free(buffer);
    close(fd);
    return status;
}
