/* merge_workers.c: the traces of a parameter server's workers on its machine, into its own (observe.h).
 *
 * They are written by processes that have ended when this runs, each a JSON array of one event per line in
 * ranks/N/trace.json, on the clock of the server's: lines move from one array to the other. A worker that was killed
 * left an array without its end.
 */
#include "base/dir.h"
#include "base/log.h"
#include "train/observe.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char file_name[] = "trace.json", end[] = "\n]\n";

/* What stands between the brackets, without a comma at its end. */
static size_t lines_of(const char *text, size_t len, const char **lines)
{
    const char *close;
    *lines = text;
    if (len < 2 || memcmp(text, "[\n", 2) != 0) return 0;
    *lines = text + 2;
    len -= 2;
    if (len >= 3 && memcmp(text + 2 + len - 3, end, 3) == 0)
        len -= 3;
    else /* killed: whole lines only */
        len = (close = memrchr(*lines, '\n', len)) ? (size_t)(close - *lines) : 0;
    while (len > 0 && ((*lines)[len - 1] == ',' || (*lines)[len - 1] == '\n')) len--;
    return len;
}

static bool put(int fd, const char *text, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, text, len);
        if (n <= 0) return false;
        text += n;
        len -= (size_t)n;
    }
    return true;
}

/* Appends, and takes the worker's file away. */
static enum ls_status move_lines(int fd, const struct ls_dir *from)
{
    const size_t most = (size_t)256 << 20;
    char *text;
    const char *lines;
    size_t len;
    TRY(ls__dir_read(from, file_name, most, &text, &len, LS_IO));
    const size_t n = lines_of(text, len, &lines);
    const bool is_good = n == 0 || (put(fd, ",\n", 2) && put(fd, lines, n));
    free(text);
    if (!is_good) return ls_fail(LS_IO, "%s: no room for the workers' events", file_name);
    unlinkat(from->fd, file_name, 0);
    return LS_OK;
}

static enum ls_status move_all(int fd, const struct ls_dir *ranks)
{
    enum ls_status status = LS_OK;
    for (int rank = 1; rank <= LS_ELASTIC_TOLD && status == LS_OK; rank++) {
        char name[16];
        struct ls_dir one;
        snprintf(name, sizeof name, "%d", rank);
        if (faccessat(ranks->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) != 0) continue;
        TRY(ls__dir_open_below(&one, ranks, name, LS_IO));
        if (faccessat(one.fd, file_name, F_OK, AT_SYMLINK_NOFOLLOW) == 0) status = move_lines(fd, &one);
        ls__dir_close(&one);
    }
    return status;
}

static enum ls_status merge(const struct ls_dir *run, const struct ls_dir *ranks)
{
    int fd;
    TRY(ls__dir_open_file(run, file_name, O_RDWR, &fd, LS_IO));
    char tail[sizeof end] = "";
    const off_t size = lseek(fd, 0, SEEK_END), keep = size - (off_t)(sizeof end - 1);
    enum ls_status status = LS_OK;
    if (keep > 0 && pread(fd, tail, sizeof end - 1, keep) == (ssize_t)sizeof end - 1 && strcmp(tail, end) == 0 &&
        ftruncate(fd, keep) == 0 && lseek(fd, keep, SEEK_SET) == keep) {
        status = move_all(fd, ranks);
        if (!put(fd, end, sizeof end - 1) && status == LS_OK) status = ls_fail(LS_IO, "%s: its end", file_name);
    }
    close(fd);
    return status;
}

void ls__observe_merge_workers(const struct trainer *t)
{
    struct ls_dir run, ranks;
    if (!t->o->trace || !t->sync.way || !t->sync.way->tell_workers || !t->run) return;
    if (ls__dir_open(&run, ls__run_dir(t->run), LS_IO) != LS_OK) return;
    if (faccessat(run.fd, "ranks", F_OK, AT_SYMLINK_NOFOLLOW) == 0 &&
        ls__dir_open_below(&ranks, &run, "ranks", LS_IO) == LS_OK) {
        if (merge(&run, &ranks) != LS_OK) ls__log(LS_LOG_WARN, "%s", ls_error_message());
        ls__dir_close(&ranks);
    }
    ls__dir_close(&run);
}
