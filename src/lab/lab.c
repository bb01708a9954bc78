/* lab.c: what is asked of a lab once it is read. */
#include "lab/lab.h"

#include <stdlib.h>
#include <string.h>

const char *const ls__lab_show_words[LS_N_SHOWS] = {
    [LS_SHOW_TIME] = "time",           [LS_SHOW_SPEEDUP] = "speed-up",    [LS_SHOW_ACCURACY] = "accuracy",
    [LS_SHOW_CURVES] = "curves",       [LS_SHOW_RESOURCES] = "resources", [LS_SHOW_COMMUNICATION] = "communication",
    [LS_SHOW_BANDWIDTH] = "bandwidth", [LS_SHOW_HASH] = "hash",           [LS_SHOW_TARGET] = "target",
    [LS_SHOW_PREDICTED] = "predicted", [LS_SHOW_NODES] = "nodes",
};

void ls__lab_destroy(struct ls_lab **lab)
{
    if (*lab) ls__arena_release(&(*lab)->memory);
    free(*lab);
    *lab = NULL;
}

bool ls__lab_shows(const struct ls_lab_question *q, enum ls_lab_show show)
{
    for (int i = 0; i < q->n_shows; i++)
        if (q->shows[i] == show) return true;
    return false;
}

const char *ls__lab_setting(const struct ls_lab_run *run, const char *key)
{
    for (int i = 0; i < run->n_settings; i++)
        if (strcmp(run->settings[i].key, key) == 0) return run->settings[i].value;
    return NULL;
}

int ls__lab_find_run(const struct ls_lab *lab, const char *name)
{
    for (int i = 0; i < lab->n_runs; i++)
        if (strcmp(lab->runs[i].name, name) == 0) return i;
    return -1;
}

bool ls__lab_compares(const struct ls_lab_question *q, const char *key)
{
    for (int i = 0; i < q->n_compares; i++)
        if (strcmp(q->compares[i], key) == 0) return true;
    return false;
}

bool ls__lab_is_beside(const struct ls_lab_question *q, const struct ls_lab_run *a, const struct ls_lab_run *b)
{
    for (int i = 0; i < q->n_axes; i++) {
        const char *mine = ls__lab_setting(a, q->axes[i].key), *its = ls__lab_setting(b, q->axes[i].key);
        if (ls__lab_compares(q, q->axes[i].key)) continue;
        if (mine && its ? strcmp(mine, its) != 0 : mine != its) return false;
    }
    return true;
}
