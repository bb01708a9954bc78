/* dir.c: files below one open directory, which stays the same when it is renamed. */
#include "base/dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NAME_BYTES = 256, FILE_MODE = 0666, DIR_MODE = 0777, PRIVATE_MODE = 0700, MAX_TRIES = 100 };

/* --- folders --- */

static enum ls_status open_at(struct ls_dir *d, int at, const char *name, int flags, enum ls_status on_fail)
{
    d->fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (d->fd >= 0) return LS_OK;
    /* Linux says ENOTDIR of a link that may not be followed. */
    if (errno == ELOOP || errno == ENOTDIR)
        return ls_fail(on_fail, "%s is not a folder%s", d->path, flags & O_NOFOLLOW ? ", or is a link to one" : "");
    return ls_fail(on_fail, "open folder %s: %s", d->path, strerror(errno));
}

static enum ls_status set_path(struct ls_dir *d, const char *path, enum ls_status on_fail)
{
    size_t len = strlen(path);
    *d = (struct ls_dir){.fd = -1};
    if (len >= sizeof d->path) return ls_fail(on_fail, "path too long: %s", path);
    memcpy(d->path, path, len + 1);
    return LS_OK;
}

enum ls_status ls__dir_open(struct ls_dir *d, const char *path, enum ls_status on_fail)
{
    TRY(set_path(d, path, on_fail));
    return open_at(d, AT_FDCWD, d->path, 0, on_fail);
}

enum ls_status ls__dir_open_below(struct ls_dir *d, const struct ls_dir *in, const char *name, enum ls_status on_fail)
{
    *d = (struct ls_dir){.fd = -1};
    if (ls__path_join(d->path, sizeof d->path, in->path, name) != LS_OK) return ls_fail_in(on_fail, "%s", name);
    if (mkdirat(in->fd, name, DIR_MODE) != 0 && errno != EEXIST)
        return ls_fail(on_fail, "make folder %s: %s", d->path, strerror(errno));
    return open_at(d, in->fd, name, O_NOFOLLOW, on_fail);
}

enum ls_status ls__dir_open_private(struct ls_dir *d, const char *path, enum ls_status on_fail)
{
    struct stat st;
    TRY(set_path(d, path, on_fail));
    if (mkdir(path, PRIVATE_MODE) != 0 && errno != EEXIST)
        return ls_fail(on_fail, "make folder %s: %s", path, strerror(errno));
    TRY(open_at(d, AT_FDCWD, path, O_NOFOLLOW, on_fail));
    if (fstat(d->fd, &st) == 0 && st.st_uid == geteuid() && (st.st_mode & 0777) == PRIVATE_MODE) return LS_OK;
    ls__dir_close(d);
    return ls_fail(on_fail, "folder %s was not made by us: it must be this user's, with mode 0700", path);
}

void ls__dir_close(struct ls_dir *d)
{
    if (d->fd >= 0) close(d->fd);
    d->fd = -1;
}

enum ls_status ls__dir_fsync(const struct ls_dir *d, enum ls_status on_fail)
{
    return fsync(d->fd) == 0 ? LS_OK : ls_fail(on_fail, "fsync folder %s: %s", d->path, strerror(errno));
}

bool ls__dir_each(const struct ls_dir *d, bool (*visit)(void *arg, const char *name), void *arg)
{
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* a position of its own */
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir) {
        if (fd >= 0) close(fd);
        return false;
    }
    errno = 0;
    for (struct dirent *e; (e = readdir(dir)) != NULL; errno = 0)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && !visit(arg, e->d_name)) break;
    int error = errno;
    closedir(dir);
    errno = error;
    return error == 0;
}

/* --- files --- */

static enum ls_status refuse(const struct ls_dir *d, const char *name, enum ls_status on_fail)
{
    return ls_fail(on_fail, "%s/%s is not a regular file; a link, fifo or folder in its place is not used", d->path,
                   name);
}

enum ls_status ls__dir_open_file(const struct ls_dir *d, const char *name, int flags, int *fd, enum ls_status on_fail)
{
    struct stat st;
    /* NONBLOCK: a fifo must not hang us. Regular files do not care. */
    *fd = openat(d->fd, name, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, FILE_MODE);
    if (*fd < 0 && (errno == ELOOP || errno == ENXIO || errno == EISDIR)) return refuse(d, name, on_fail);
    if (*fd < 0) return ls_fail(on_fail, "open %s/%s: %s", d->path, name, strerror(errno));
    if (fstat(*fd, &st) == 0 && S_ISREG(st.st_mode)) return LS_OK;
    close(*fd);
    *fd = -1;
    return refuse(d, name, on_fail);
}

enum ls_status ls__dir_read(const struct ls_dir *d, const char *name, size_t max_bytes, char **data, size_t *len,
                            enum ls_status on_fail)
{
    char path[LS_PATH_BYTES];
    int fd;
    *data = NULL;
    TRY(ls__path_join(path, sizeof path, d->path, name));
    TRY(ls__dir_open_file(d, name, O_RDONLY, &fd, on_fail));
    enum ls_status status = ls__file_read_fd(fd, path, max_bytes, data, len);
    return status == LS_OK ? LS_OK : ls_fail_in(status == LS_NOMEM ? status : on_fail, "%s", d->path);
}

/* A full disk is noticed here. Where the file system cannot reserve, writing will tell. */
static enum ls_status reserve(int fd, size_t bytes)
{
    int error = bytes ? posix_fallocate(fd, 0, (off_t)bytes) : 0;
    if (error == ENOSPC || error == EFBIG || error == EDQUOT)
        return ls_fail(LS_IO, "%s (%zu bytes needed)", strerror(error), bytes);
    return LS_OK;
}

/* Everything up to and including close; the caller renames or unlinks. fd is always closed. */
static enum ls_status fill(int fd, const struct ls_piece *pieces, size_t n_pieces)
{
    size_t total = 0;
    for (size_t i = 0; i < n_pieces; i++) total += pieces[i].len;
    enum ls_status status = reserve(fd, total);
    for (size_t i = 0; status == LS_OK && i < n_pieces; i++) status = ls__write_all(fd, &pieces[i]);
    if (status == LS_OK && fsync(fd) != 0) status = ls_fail(LS_IO, "fsync: %s", strerror(errno));
    if (close(fd) != 0 && status == LS_OK) status = ls_fail(LS_IO, "close: %s", strerror(errno));
    return status;
}

/* "NAME.tmp.XXXXXX" beside the target, as mkstemp names it, but with the mode that the umask leaves. */
static enum ls_status make_temporary(const struct ls_dir *d, const char *name, char temp[NAME_BYTES], int *fd,
                                     enum ls_status on_fail)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    int len = snprintf(temp, NAME_BYTES, "%s.tmp.XXXXXX", name);
    if (len < 0 || len >= NAME_BYTES)
        return ls_fail(on_fail, "create %s/%s: %s", d->path, name, strerror(ENAMETOOLONG));
    for (int i = 0; i < MAX_TRIES; i++) {
        unsigned char random[6];
        if (getrandom(random, sizeof random, 0) != sizeof random)
            return ls_fail(on_fail, "create %s/%s: no random number: %s", d->path, temp, strerror(errno));
        for (int k = 0; k < 6; k++) temp[len - 6 + k] = letters[random[k] % (sizeof letters - 1)];
        *fd = openat(d->fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, FILE_MODE);
        if (*fd >= 0) return LS_OK;
        if (errno != EEXIST) break;
    }
    return ls_fail(on_fail, "write %s/%s: %s", d->path, name,
                   strerror(errno)); /* the user's name, not the temporary's */
}

enum ls_status ls__dir_write_atomic(const struct ls_dir *d, const char *name, const struct ls_piece *pieces,
                                    size_t n_pieces, enum ls_status on_fail)
{
    char temp[NAME_BYTES];
    int fd = -1;
    TRY(make_temporary(d, name, temp, &fd, on_fail));
    enum ls_status status = fill(fd, pieces, n_pieces);
    if (status == LS_OK && renameat(d->fd, temp, d->fd, name) != 0)
        status = ls_fail(LS_IO, "rename: %s", strerror(errno));
    if (status == LS_OK) return ls__dir_fsync(d, on_fail);
    unlinkat(d->fd, temp, 0);
    return ls_fail_in(on_fail, "write %s/%s", d->path, name);
}

enum ls_status ls__dir_try_write(const struct ls_dir *d, const char *name, const struct ls_piece *head, size_t bytes,
                                 enum ls_status on_fail)
{
    char temp[NAME_BYTES];
    int fd = -1;
    TRY(make_temporary(d, name, temp, &fd, on_fail));
    enum ls_status status = reserve(fd, bytes);
    if (status == LS_OK) status = ls__write_all(fd, head);
    unlinkat(d->fd, temp, 0);
    close(fd);
    return status == LS_OK ? LS_OK : ls_fail_in(on_fail, "write %s/%s", d->path, name);
}
