/* file.c: whole files: read with a bound, written atomically (temporary file, fsync, rename, fsync of the folder). */
#include "base/file.h"

#include "base/dir.h"
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

enum ls_status ls__file_read_fd(int fd, const char *path, size_t max_bytes, char **data, size_t *len)
{
    struct stat st;
    enum ls_status status = LS_OK;
    *data = NULL;
    if (fstat(fd, &st) != 0) status = ls_fail(LS_IO, "read %s: %s", path, strerror(errno));
    *len = status == LS_OK ? (size_t)st.st_size : 0;
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

enum ls_status ls__file_read(const char *path, size_t max_bytes, char **data, size_t *len)
{
    int fd;
    *data = NULL;
    TRY(open_regular(path, &fd, len));
    return ls__file_read_fd(fd, path, max_bytes, data, len);
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

/* A device, a fifo, or a way to what is open already (/dev/stdout, /dev/fd/63): something that a name stands for and
 * that a rename would put out of its place. */
static bool is_stream(const char *path)
{
    struct stat own, target;
    if (lstat(path, &own) != 0 || stat(path, &target) != 0) return false;
    if (S_ISCHR(target.st_mode) || S_ISBLK(target.st_mode) || S_ISFIFO(target.st_mode)) return true;
    return S_ISLNK(own.st_mode) && (strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0);
}

static enum ls_status open_stream(const char *path, int *fd, enum ls_status on_fail)
{
    *fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK); /* a fifo must not hang us ... */
    if (*fd < 0)
        return ls_fail(on_fail, "write %s: %s", path,
                       errno == ENXIO ? "nobody reads from it; start the reader first" : strerror(errno));
    if (fcntl(*fd, F_SETFL, O_APPEND) == 0) return LS_OK; /* ... but a slow reader may */
    int error = errno;
    close(*fd);
    *fd = -1;
    return ls_fail(on_fail, "write %s: %s", path, strerror(error));
}

static enum ls_status write_stream(const char *path, const struct ls_piece *pieces, size_t n_pieces,
                                   enum ls_status on_fail)
{
    enum ls_status status = LS_OK;
    int fd;
    TRY(open_stream(path, &fd, on_fail));
    for (size_t i = 0; status == LS_OK && i < n_pieces; i++) status = ls__write_all(fd, &pieces[i]);
    if (close(fd) != 0 && status == LS_OK) status = ls_fail(LS_IO, "close: %s", strerror(errno));
    return status == LS_OK ? LS_OK : ls_fail_in(on_fail, "write %s", path);
}

enum ls_status ls__file_open_log(const char *path, int *fd, enum ls_status on_fail)
{
    struct stat st;
    if (is_stream(path)) return open_stream(path, fd, on_fail);
    if (lstat(path, &st) == 0 && S_ISLNK(st.st_mode)) unlink(path);
    *fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666);
    return *fd >= 0 ? LS_OK : ls_fail(on_fail, "write %s: %s", path, strerror(errno));
}

enum ls_status ls__file_write_atomic(const char *path, const struct ls_piece *pieces, size_t n_pieces,
                                     enum ls_status on_fail)
{
    if (is_stream(path)) return write_stream(path, pieces, n_pieces, on_fail);
    char folder[LS_PATH_BYTES];
    struct ls_dir dir;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = slash ? (size_t)(slash - path) : 1;
    if (n >= sizeof folder || strlen(path) >= LS_PATH_BYTES) return ls_fail(on_fail, "path too long: %s", path);
    memcpy(folder, slash ? path : ".", n);
    if (n == 0) folder[n++] = '/';
    folder[n] = '\0';
    if (ls__dir_open(&dir, folder, on_fail) != LS_OK) return ls_fail_in(on_fail, "write %s", path);
    enum ls_status status = ls__dir_write_atomic(&dir, name, pieces, n_pieces, on_fail);
    ls__dir_close(&dir);
    return status;
}

enum ls_status ls__write_all(int fd, const struct ls_piece *piece)
{
    const char *p = piece->data;
    for (size_t left = piece->len; left > 0;) {
        ssize_t n = write(fd, p, left);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return ls_fail(LS_IO, "%s", strerror(errno));
        p += n;
        left -= (size_t)n;
    }
    return LS_OK;
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
        if (mkdir(part, 0777) != 0 && errno != EEXIST)
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
