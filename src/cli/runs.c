/* runs.c: opens the runs that the arguments name, folders of runs and RUN=LABEL among them. See runs.h. */
#include "cli/runs.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

static enum ls_status open_one(struct ls_runs *r, const char *path, const char *label)
{
    if (r->n == LS_MAX_ARGS) return ls_fail(LS_USAGE, "more than %d runs; name fewer", LS_MAX_ARGS);
    TRY(ls__strdup(&r->paths[r->n], path));
    r->labels[r->n] = label;
    r->n++;
    return ls_history_open(&r->all[r->n - 1], path);
}

/* A folder that is no run but holds some. */
static enum ls_status open_folder(struct ls_runs *r, const char *path)
{
    char **names;
    size_t n;
    enum ls_status status = ls_history_find(path, &names, &n, LS_MAX_ARGS);
    if (status == LS_OK && n == 0) status = ls_fail(LS_CHECKPOINT, "%s is not a run directory, and holds none", path);
    for (size_t i = 0; i < n; i++) {
        if (status == LS_OK) status = open_one(r, names[i], NULL);
        free(names[i]);
    }
    free(names);
    return status;
}

enum ls_status ls__runs_open(struct ls_runs *r, const struct ls_options *o)
{
    memset(r, 0, sizeof *r);
    for (int i = 0; i < o->n_args; i++) {
        char path[LS_PATH_BYTES];
        const char *equals = strrchr(o->args[i], '=');
        bool is_labelled = equals && !ls__dir_exists(o->args[i]) && (size_t)(equals - o->args[i]) < sizeof path;
        size_t len = is_labelled ? (size_t)(equals - o->args[i]) : strlen(o->args[i]);
        if (len >= sizeof path) return ls_fail(LS_USAGE, "a name of %zu bytes is too long", len);
        memcpy(path, o->args[i], len);
        path[len] = '\0';
        if (!ls__dir_exists(path))
            return ls_fail(LS_CHECKPOINT, "%s: no such run directory; `lockstep train` prints its name", path);
        if (is_labelled)
            TRY(open_one(r, path, equals + 1));
        else
            TRY(open_folder(r, path));
    }
    return LS_OK;
}

void ls__runs_close(struct ls_runs *r)
{
    for (int i = 0; i < r->n; i++) {
        ls_history_close(&r->all[i]);
        free(r->paths[i]);
    }
    r->n = 0;
}
