/* file.h: files, read whole or mapped, and written so that a crash at any moment leaves the old file or the new one.
 *
 * The story of an atomic write (after git's lockfile and Redis' rdbSave):
 *   a new temporary beside the target -> fallocate (a full disk fails early) -> write, every return checked -> fsync ->
 *   close -> rename over the target -> fsync the folder.
 * The old file is never removed first. On any failure the temporary is removed and the target is as it was. A target
 * that is a link is replaced, not followed. The umask decides who may read what is made. dir.h has the same below a
 * folder that is held open, for folders that others might tamper with.
 *
 * What is no file of its own is never replaced but written into: a device, a fifo somebody reads from, and the system's
 * links to what is open, such as /dev/stdout and the /dev/fd/63 of a shell's >(command).
 */
#ifndef LS_BASE_FILE_H
#define LS_BASE_FILE_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whole file into memory, plus a '\0' not counted in *len. Refused with LS_IO if longer than max_bytes. free() it. */
enum ls_status ls__file_read(const char *path, size_t max_bytes, char **data, size_t *len) LS_MUST_CHECK;

/* The same of a regular file that is open; closes it. */
enum ls_status ls__file_read_fd(int fd, const char *path, size_t max_bytes, char **data, size_t *len) LS_MUST_CHECK;

struct ls_map {
    const uint8_t *data; /* [len], read-only; NULL if len is 0 */
    size_t len;
};
enum ls_status ls__map_open(const char *path, struct ls_map *map) LS_MUST_CHECK;
void ls__map_close(struct ls_map *map);

/* One piece of what is to be written. */
struct ls_piece {
    const void *data;
    size_t len;
};
/* Atomic as told above. Failure is `on_fail` (LS_IO or LS_CHECKPOINT); the message has the path, and on ENOSPC the
 * bytes. */
enum ls_status ls__file_write_atomic(const char *path, const struct ls_piece *pieces, size_t n_pieces,
                                     enum ls_status on_fail) LS_MUST_CHECK;

/* The same rules for a file that grows while others look at it, such as a log: *fd writes into a new or emptied file,
 * or into what is no file of its own. Opening never waits. *fd is -1 on failure. */
enum ls_status ls__file_open_log(const char *path, int *fd, enum ls_status on_fail) LS_MUST_CHECK;

/* Every byte, or LS_IO with the system's reason alone. */
enum ls_status ls__write_all(int fd, const struct ls_piece *piece) LS_MUST_CHECK;

bool ls__file_exists(const char *path);
bool ls__dir_exists(const char *path);
enum ls_status ls__mkdirs(const char *path) LS_MUST_CHECK; /* like mkdir -p */

/* "a/b" joined into out (size bytes); LS_ERROR if it does not fit. */
enum ls_status ls__path_join(char *out, size_t size, const char *a, const char *b) LS_MUST_CHECK;
enum { LS_PATH_BYTES = 4096 };

#endif
