/* newest.c: the checkpoint to go on from.
 *
 * In: a folder. Out: the one with the highest step that verifies; each newer one that does not is named in a warning,
 * and left where it is: a person may want to look at it.
 */
#include "base/log.h"
#include "checkpoint/internal.h"

#include <stdlib.h>

static enum ls_status try_each(struct ls_ckpt **out, const char *folder, char *path, const int64_t *steps, int n,
                               int *n_seen)
{
    char name[LS_CKPT_NAME_BYTES];
    for (int i = n - 1; i >= 0; i--) {
        TRY(ls__path_join(path, LS_PATH_BYTES, folder, ls__ckpt_step_name(steps[i], name)));
        ++*n_seen;
        enum ls_status status = ls_ckpt_open(out, path);
        if (status != LS_CHECKPOINT) return status; /* opened, or a trouble that an older file would share */
        ls__log(LS_LOG_WARN, "checkpoint skipped: %s", ls_error_message());
    }
    path[0] = '\0';
    if (n == 0) return ls_fail(LS_CHECKPOINT, "no checkpoint in %s (looked for step-*.safetensors)", folder);
    return ls_fail(LS_CHECKPOINT, "none of the %d checkpoints in %s can be used; the warnings above say why", n,
                   folder);
}

enum ls_status ls_ckpt_open_newest(struct ls_ckpt **out, const char *folder, char *path, int *n_seen)
{
    return ls_ckpt_open_before(out, folder, INT64_MAX, path, n_seen);
}

enum ls_status ls_ckpt_open_before(struct ls_ckpt **out, const char *folder, int64_t step, char *path, int *n_seen)
{
    struct ls_dir dir;
    int64_t *steps;
    int n;
    *out = NULL;
    *n_seen = 0;
    path[0] = '\0';
    TRY(ls__dir_open(&dir, folder, LS_CHECKPOINT));
    enum ls_status status = ls__ckpt_list(&dir, &steps, &n);
    ls__dir_close(&dir);
    TRY(status);
    while (n > 0 && steps[n - 1] >= step) n--;
    status = try_each(out, folder, path, steps, n, n_seen);
    free(steps);
    return status;
}
