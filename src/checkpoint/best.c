/* best.c: the checkpoint to use a network from: of a run the best, else the newest; a file is itself. */
#include "base/log.h"
#include "checkpoint/internal.h"

#include <stdio.h>
#include <string.h>

static enum ls_status fail_missing(const char *what)
{
    const char *slash = strrchr(what, '/');
    if (strcmp(slash ? slash + 1 : what, "best.safetensors") == 0)
        return ls_fail(
            LS_CHECKPOINT,
            "%s: there is none: the best weights are chosen by validation data (train with --validation 0.1), "
            "never by the test data; latest.safetensors are the last ones",
            what);
    return ls_fail(LS_CHECKPOINT, "%s: no such run directory or checkpoint file", what);
}

enum ls_status ls_ckpt_open_best(struct ls_ckpt **out, const char *what, char *path)
{
    char folder[LS_PATH_BYTES];
    int n_seen = 0;
    *out = NULL;
    if (ls__file_exists(what)) {
        snprintf(path, LS_PATH_BYTES, "%s", what);
        return ls_ckpt_open(out, path);
    }
    if (!ls__dir_exists(what)) return fail_missing(what);
    TRY(ls__path_join(folder, sizeof folder, what, "checkpoints"));
    TRY(ls__path_join(path, LS_PATH_BYTES, folder, "best.safetensors"));
    if (ls__file_exists(path)) {
        enum ls_status status = ls_ckpt_open(out, path);
        if (status == LS_OK && !ls_ckpt_meta(*out, "best"))
            ls__log(LS_LOG_WARN, "an earlier version chose %s by the test data: its accuracy there flatters it", path);
        if (status != LS_CHECKPOINT) return status;
        ls__log(LS_LOG_WARN, "the best checkpoint is skipped, the newest taken: %s", ls_error_message());
    }
    if (!ls__dir_exists(folder)) return ls_fail(LS_CHECKPOINT, "%s holds no checkpoints", what);
    return ls_ckpt_open_newest(out, folder, path, &n_seen);
}
