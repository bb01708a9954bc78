/* folder.c: names, links and leftovers in a folder of checkpoints.
 *
 * In: a folder. Out: which steps it has; latest.safetensors and best.safetensors as relative links, so that the folder
 * can be moved. A link is replaced by making a new one beside it and renaming: there is always an old or a new one.
 */
#include "base/mem.h"
#include "base/parse.h"
#include "checkpoint/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = "step-", suffix[] = ".safetensors", temp_mark[] = ".safetensors.tmp.";

const char *ls__ckpt_step_name(int64_t step, char out[LS_CKPT_NAME_BYTES])
{
    snprintf(out, LS_CKPT_NAME_BYTES, "%s%08" PRId64 "%s", prefix, step, suffix);
    return out;
}

bool ls__ckpt_name_is_step(const char *name, int64_t *step)
{
    char digits[LS_CKPT_NAME_BYTES], again[LS_CKPT_NAME_BYTES];
    size_t n = strlen(name), n_fixed = sizeof prefix + sizeof suffix - 2;
    if (n <= n_fixed || n >= sizeof digits || strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    memcpy(digits, name + sizeof prefix - 1, n - n_fixed);
    digits[n - n_fixed] = '\0';
    return ls__parse_i64(digits, 0, INT64_MAX, step) && strcmp(ls__ckpt_step_name(*step, again), name) == 0;
}

static int compare_steps(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static enum ls_status append(int64_t **steps, int *n, int *cap, int64_t step)
{
    if (*n == *cap) {
        int grown = *cap ? 2 * *cap : 16;
        TRY(ls__grow(steps, (size_t)*cap, (size_t)grown, sizeof **steps));
        *cap = grown;
    }
    (*steps)[(*n)++] = step;
    return LS_OK;
}

enum ls_status ls__ckpt_list(const char *folder, int64_t **steps, int *n_steps)
{
    int cap = 0;
    *steps = NULL;
    *n_steps = 0;
    DIR *dir = opendir(folder);
    if (!dir) return ls_fail(LS_CHECKPOINT, "open checkpoint folder %s: %s", folder, strerror(errno));
    enum ls_status status = LS_OK;
    for (struct dirent *entry; status == LS_OK && (errno = 0, entry = readdir(dir)) != NULL;) {
        int64_t step;
        if (ls__ckpt_name_is_step(entry->d_name, &step)) status = append(steps, n_steps, &cap, step);
    }
    if (status == LS_OK && errno != 0)
        status = ls_fail(LS_CHECKPOINT, "read checkpoint folder %s: %s", folder, strerror(errno));
    closedir(dir);
    if (status == LS_OK && *n_steps) qsort(*steps, (size_t)*n_steps, sizeof **steps, compare_steps);
    if (status != LS_OK) {
        free(*steps);
        *steps = NULL;
        *n_steps = 0;
    }
    return status;
}

enum ls_status ls__ckpt_link(const char *folder, const char *link, const char *name, bool *is_missing)
{
    char path[LS_PATH_BYTES], temp[LS_PATH_BYTES];
    *is_missing = false;
    TRY(ls__path_join(path, sizeof path, folder, link));
    int n = snprintf(temp, sizeof temp, "%s.tmp.%ld", path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof temp) return ls_fail(LS_CHECKPOINT, "path too long: %s", path);
    unlink(temp); /* of a dead process that had our id */
    if (symlink(name, temp) != 0) {
        *is_missing = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
        return *is_missing ? LS_OK : ls_fail(LS_CHECKPOINT, "link %s: %s", path, strerror(errno));
    }
    if (rename(temp, path) != 0) {
        int error = errno;
        unlink(temp);
        return ls_fail(LS_CHECKPOINT, "rename link %s: %s", path, strerror(error));
    }
    return LS_OK;
}

bool ls__ckpt_read_link(const char *folder, const char *link, int64_t *step)
{
    char path[LS_PATH_BYTES], name[LS_CKPT_NAME_BYTES];
    if (ls__path_join(path, sizeof path, folder, link) != LS_OK) return false;
    ssize_t n = readlink(path, name, sizeof name - 1);
    if (n < 0) return false;
    name[n] = '\0';
    return ls__ckpt_name_is_step(name, step);
}

/* "step-...", "latest" or "best", then ".safetensors.tmp.": what ls__file_write_atomic and ls__ckpt_link make here. */
static bool is_temporary(const char *name)
{
    return strstr(name, temp_mark) != NULL && (strncmp(name, prefix, sizeof prefix - 1) == 0 ||
                                               strncmp(name, "latest.", 7) == 0 || strncmp(name, "best.", 5) == 0);
}

void ls__ckpt_remove_stale(const char *folder)
{
    char path[LS_PATH_BYTES];
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (is_temporary(entry->d_name) && ls__path_join(path, sizeof path, folder, entry->d_name) == LS_OK)
            unlink(path); /* what cannot be removed does no harm */
    closedir(dir);
}

enum ls_status ls__ckpt_fsync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return ls_fail(LS_CHECKPOINT, "open checkpoint folder %s: %s", folder, strerror(errno));
    int rc = fsync(fd), error = errno;
    close(fd);
    return rc == 0 ? LS_OK : ls_fail(LS_CHECKPOINT, "fsync checkpoint folder %s: %s", folder, strerror(error));
}
