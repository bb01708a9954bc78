/* file.c: see file.h. */
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static enum ls_status open_regular(const char *path, int *fd, size_t *len)
{
    struct stat st;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: a fifo must not hang us */
    if (*fd < 0) return ls_fail(LS_IO, "open %s: %s", path, strerror(errno));
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        *fd = -1;
        return ls_fail(LS_IO, "%s is not a regular file", path);
    }
    *len = (size_t)st.st_size;
    return LS_OK;
}

enum ls_status ls__file_read(const char *path, size_t max_bytes, char **data, size_t *len)
{
    int fd;
    *data = NULL;
    TRY(open_regular(path, &fd, len));
    enum ls_status status = LS_OK;
    if (*len > max_bytes)
        status = ls_fail(LS_IO, "%s has %zu bytes, more than the %zu allowed here", path, *len, max_bytes);
    if (status == LS_OK) status = ls__calloc(data, *len + 1, 1);
    for (size_t at = 0; status == LS_OK && at < *len;) {
        ssize_t n = read(fd, *data + at, *len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) status = ls_fail(LS_IO, "read %s: %s", path, strerror(errno));
        if (n == 0) status = ls_fail(LS_IO, "read %s: file shrank while being read", path);
        if (n > 0) at += (size_t)n;
    }
    close(fd);
    if (status != LS_OK) {
        free(*data);
        *data = NULL;
    }
    return status;
}

enum ls_status ls__map_open(const char *path, struct ls_map *map)
{
    int fd;
    *map = (struct ls_map){0};
    TRY(open_regular(path, &fd, &map->len));
    void *p = NULL;
    if (map->len) p = mmap(NULL, map->len, PROT_READ, MAP_PRIVATE, fd, 0);
    int error = errno;
    close(fd);
    if (p == MAP_FAILED) {
        map->len = 0;
        return ls_fail(LS_IO, "map %s: %s", path, strerror(error));
    }
    map->data = p;
    return LS_OK;
}

void ls__map_close(struct ls_map *map)
{
    if (map->data) munmap((void *)map->data, map->len);
    *map = (struct ls_map){0};
}

static enum ls_status write_all(int fd, const char *path, const struct ls_piece *piece, enum ls_status on_fail)
{
    const char *p = piece->data;
    for (size_t left = piece->len; left > 0;) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ls_fail(on_fail, "write %s: %s", path, strerror(errno));
        p += n;
        left -= (size_t)n;
    }
    return LS_OK;
}

static enum ls_status fsync_folder_of(const char *path, enum ls_status on_fail)
{
    char folder[LS_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 1;
    memcpy(folder, slash ? path : ".", n);
    if (n == 0) folder[n++] = '/';
    folder[n] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ls_fail(on_fail, "open folder %s: %s", folder, strerror(errno));
    int rc = fsync(fd), error = errno;
    close(fd);
    return rc == 0 ? LS_OK : ls_fail(on_fail, "fsync folder %s: %s", folder, strerror(error));
}

/* Everything up to and including close; the caller renames or unlinks. fd is always closed. */
static enum ls_status fill(int fd, const char *path, const struct ls_piece *pieces, size_t n_pieces,
                           enum ls_status on_fail)
{
    size_t total = 0;
    for (size_t i = 0; i < n_pieces; i++) total += pieces[i].len;
    enum ls_status status = LS_OK;
    int error = total ? posix_fallocate(fd, 0, (off_t)total) : 0;
    if (error == ENOSPC || error == EFBIG || error == EDQUOT)
        status = ls_fail(on_fail, "write %s: %s (%zu bytes needed)", path, strerror(error), total);
    for (size_t i = 0; status == LS_OK && i < n_pieces; i++) status = write_all(fd, path, &pieces[i], on_fail);
    if (status == LS_OK && fchmod(fd, 0644) != 0) status = ls_fail(on_fail, "chmod %s: %s", path, strerror(errno));
    if (status == LS_OK && fsync(fd) != 0) status = ls_fail(on_fail, "fsync %s: %s", path, strerror(errno));
    if (close(fd) != 0 && status == LS_OK) status = ls_fail(on_fail, "close %s: %s", path, strerror(errno));
    return status;
}

enum ls_status ls__file_write_atomic(const char *path, const struct ls_piece *pieces, size_t n_pieces,
                                     enum ls_status on_fail)
{
    char temp[LS_PATH_BYTES];
    int n = snprintf(temp, sizeof temp, "%s.tmp.XXXXXX", path);
    if (n < 0 || (size_t)n >= sizeof temp) return ls_fail(on_fail, "path too long: %s", path);
    int fd = mkostemp(temp, O_CLOEXEC);
    if (fd < 0) return ls_fail(on_fail, "create %s: %s", temp, strerror(errno));
    enum ls_status status = fill(fd, path, pieces, n_pieces, on_fail);
    if (status == LS_OK && rename(temp, path) != 0) status = ls_fail(on_fail, "rename %s: %s", path, strerror(errno));
    if (status != LS_OK) {
        unlink(temp);
        return status;
    }
    return fsync_folder_of(path, on_fail);
}

bool ls__file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool ls__dir_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

enum ls_status ls__mkdirs(const char *path)
{
    char part[LS_PATH_BYTES];
    size_t len = strlen(path);
    if (len == 0 || len >= sizeof part) return ls_fail(LS_IO, "bad folder name '%s'", path);
    for (size_t i = 1; i <= len; i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0755) != 0 && errno != EEXIST)
            return ls_fail(LS_IO, "make folder %s: %s", part, strerror(errno));
    }
    return ls__dir_exists(path) ? LS_OK : ls_fail(LS_IO, "%s is not a folder", path);
}

enum ls_status ls__path_join(char *out, size_t size, const char *a, const char *b)
{
    size_t n = strlen(a);
    const char *slash = n == 0 || a[n - 1] == '/' ? "" : "/";
    int made = snprintf(out, size, "%s%s%s", a, slash, b);
    if (made < 0 || (size_t)made >= size) return ls_fail(LS_ERROR, "path too long: %s/%s", a, b);
    return LS_OK;
}
