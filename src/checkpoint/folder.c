/* folder.c: names, links and leftovers in a folder of checkpoints.
 *
 * In: a folder, held open. Out: which steps it has; latest.safetensors and best.safetensors as relative links, so that
 * the folder can be moved. A link is replaced by making a new one beside it and renaming: there is always an old or a
 * new one.
 */
#include "base/mem.h"
#include "base/parse.h"
#include "checkpoint/internal.h"

#include <errno.h>
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

struct list {
    int64_t *steps;
    int n, cap;
    enum ls_status status;
};

static bool add_step(void *arg, const char *name)
{
    struct list *l = arg;
    int64_t step;
    if (!ls__ckpt_name_is_step(name, &step)) return true;
    if (l->n == l->cap) {
        int cap = l->cap ? 2 * l->cap : 16;
        l->status = ls__grow(&l->steps, (size_t)l->cap, (size_t)cap, sizeof *l->steps);
        if (l->status != LS_OK) return false;
        l->cap = cap;
    }
    l->steps[l->n++] = step;
    return true;
}

enum ls_status ls__ckpt_list(const struct ls_dir *folder, int64_t **steps, int *n_steps)
{
    struct list l = {.status = LS_OK};
    *steps = NULL;
    *n_steps = 0;
    if (!ls__dir_each(folder, add_step, &l) && l.status == LS_OK)
        l.status = ls_fail(LS_CHECKPOINT, "read checkpoint folder %s: %s", folder->path, strerror(errno));
    if (l.status != LS_OK) {
        free(l.steps);
        return l.status;
    }
    if (l.n) qsort(l.steps, (size_t)l.n, sizeof *l.steps, compare_steps);
    *steps = l.steps;
    *n_steps = l.n;
    return LS_OK;
}

enum ls_status ls__ckpt_link(const struct ls_dir *folder, const char *link, const char *name, bool *is_missing)
{
    char temp[LS_CKPT_NAME_BYTES + 16];
    *is_missing = false;
    snprintf(temp, sizeof temp, "%s.tmp.%ld", link, (long)getpid());
    unlinkat(folder->fd, temp, 0); /* of a dead process that had our id */
    if (symlinkat(name, folder->fd, temp) != 0) {
        *is_missing = errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS;
        return *is_missing ? LS_OK : ls_fail(LS_CHECKPOINT, "link %s/%s: %s", folder->path, link, strerror(errno));
    }
    if (renameat(folder->fd, temp, folder->fd, link) != 0) {
        int error = errno;
        unlinkat(folder->fd, temp, 0);
        return ls_fail(LS_CHECKPOINT, "rename link %s/%s: %s", folder->path, link, strerror(error));
    }
    return LS_OK;
}

bool ls__ckpt_read_link(const struct ls_dir *folder, const char *link, int64_t *step)
{
    char name[LS_CKPT_NAME_BYTES];
    ssize_t n = readlinkat(folder->fd, link, name, sizeof name - 1);
    if (n < 0) return false;
    name[n] = '\0';
    return ls__ckpt_name_is_step(name, step);
}

/* "step-...", "latest" or "best", then ".safetensors.tmp.": what ls__dir_write_atomic and ls__ckpt_link make here. */
static bool is_temporary(const char *name)
{
    return strstr(name, temp_mark) != NULL && (strncmp(name, prefix, sizeof prefix - 1) == 0 ||
                                               strncmp(name, "latest.", 7) == 0 || strncmp(name, "best.", 5) == 0);
}

static bool remove_temporary(void *arg, const char *name)
{
    const struct ls_dir *folder = arg;
    if (is_temporary(name)) unlinkat(folder->fd, name, 0); /* what cannot be removed does no harm */
    return true;
}

void ls__ckpt_remove_stale(const struct ls_dir *folder)
{
    ls__dir_each(folder, remove_temporary, (void *)folder);
}
