/* dir.h: a folder held open, and files below it that nobody can put somewhere else.
 *
 *     struct ls_dir d;
 *     TRY(ls__dir_open(&d, "runs/a", LS_CHECKPOINT));           a link to a folder is welcome here: it is the user's
 * word TRY(ls__dir_open_file(&d, "lock", O_RDWR | O_CREAT, &fd, LS_CHECKPOINT)); TRY(ls__dir_write_atomic(&d,
 * "manifest.json", pieces, 2, LS_CHECKPOINT)); ls__dir_close(&d);
 *
 * Everything below goes through the descriptor, with one name and no path. Invariants:
 *   1. Nothing is written through a link: O_NOFOLLOW, and temporaries are made with O_EXCL.
 *   2. Nothing but regular files is opened, and opening never waits: a FIFO or a device is refused.
 *   3. Files and folders are made with 0666 and 0777, so the umask alone decides who may read them.
 * Failure is `on_fail` (LS_IO or LS_CHECKPOINT), the message has the path.
 */
#ifndef LS_BASE_DIR_H
#define LS_BASE_DIR_H

#include "base/file.h"

struct ls_dir {
    int fd; /* -1: closed */
    char path[LS_PATH_BYTES];
};

/* The folder must exist. */
enum ls_status ls__dir_open(struct ls_dir *d, const char *path, enum ls_status on_fail) LS_MUST_CHECK;
/* The folder `name` in `in`, made if absent; a link is refused. */
enum ls_status ls__dir_open_below(struct ls_dir *d, const struct ls_dir *in, const char *name,
                                  enum ls_status on_fail) LS_MUST_CHECK;
/* A folder that only this user can enter, made if absent. Refused if it is a link, another's, or open to others. */
enum ls_status ls__dir_open_private(struct ls_dir *d, const char *path, enum ls_status on_fail) LS_MUST_CHECK;
void ls__dir_close(struct ls_dir *d);

/* flags: as open(2) takes them; O_CREAT makes it. *fd is -1 on failure. */
enum ls_status ls__dir_open_file(const struct ls_dir *d, const char *name, int flags, int *fd,
                                 enum ls_status on_fail) LS_MUST_CHECK;
/* Whole, as ls__file_read gives it. */
enum ls_status ls__dir_read(const struct ls_dir *d, const char *name, size_t max_bytes, char **data, size_t *len,
                            enum ls_status on_fail) LS_MUST_CHECK;
/* The story told in file.h. */
enum ls_status ls__dir_write_atomic(const struct ls_dir *d, const char *name, const struct ls_piece *pieces,
                                    size_t n_pieces, enum ls_status on_fail) LS_MUST_CHECK;
/* Whether a file of `bytes` could be written so: makes the temporary, asks for its space, writes `head`, and removes it
 * again. */
enum ls_status ls__dir_try_write(const struct ls_dir *d, const char *name, const struct ls_piece *head, size_t bytes,
                                 enum ls_status on_fail) LS_MUST_CHECK;
enum ls_status ls__dir_fsync(const struct ls_dir *d, enum ls_status on_fail) LS_MUST_CHECK;

/* Calls visit for every name but "." and "..", until it returns false. False if the folder cannot be read. */
bool ls__dir_each(const struct ls_dir *d, bool (*visit)(void *arg, const char *name), void *arg);

#endif
