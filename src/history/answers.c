/* answers.c: what a history knows, for those who ask; see history.h. */
#include "history/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *ls_history_dir(const struct ls_history *h)
{
    return h->dir;
}

const char *ls_history_name(const struct ls_history *h)
{
    return h->name;
}

enum ls_run_state ls_history_state(const struct ls_history *h)
{
    return h->state;
}

const char *ls_history_state_word(const struct ls_history *h)
{
    static const char *const words[] = {[LS_RUN_RUNNING] = "running",
                                        [LS_RUN_DONE] = "finished",
                                        [LS_RUN_STOPPED] = "stopped",
                                        [LS_RUN_FAILED] = "failed",
                                        [LS_RUN_DIED] = "died"};
    return words[h->state];
}

const char *ls_history_why(const struct ls_history *h)
{
    bool is_told = h->state == LS_RUN_STOPPED || h->state == LS_RUN_FAILED;
    return is_told ? json_string_value(json_object_get(h->ended.object, "why")) : NULL;
}

const struct ls_curve *ls_history_curve(const struct ls_history *h, const char *split)
{
    for (int i = 0; i < h->n_curves; i++)
        if (strcmp(h->curves[i].name, split) == 0 && h->curves[i].n > 0) return &h->curves[i];
    return NULL;
}

const struct ls_curve *ls_history_curve_at(const struct ls_history *h, int i)
{
    return i >= 0 && i < h->n_curves ? &h->curves[i] : NULL;
}

size_t ls_history_bad_lines(const struct ls_history *h)
{
    return h->n_bad + h->metrics.n_bad;
}

/* The largest last value of any split. */
static double latest(const struct ls_history *h, const char *name)
{
    double most = 0;
    for (int i = 0; i < h->n_curves; i++) {
        double v = ls_curve_last(&h->curves[i], name);
        if (v > most) most = v;
    }
    return most;
}

double ls__history_last_step(const struct ls_history *h)
{
    return latest(h, "step");
}

double ls_history_steps(const struct ls_history *h)
{
    const double result = json_number_value(json_object_get((json_t *)ls_history_result(h), "steps")),
                 ended = json_number_value(json_object_get(h->ended.object, "step"));
    return fmax(fmax(result, ended), latest(h, "step"));
}

double ls_history_seconds(const struct ls_history *h)
{
    return latest(h, "seconds");
}

const struct json_t *ls_history_manifest(const struct ls_history *h)
{
    return h->manifest.object;
}

const struct json_t *ls_history_result(const struct ls_history *h)
{
    return h->has_result ? h->result.object : NULL;
}

static json_t *walk(json_t *object, const char *path)
{
    while (object && *path) {
        char key[LS_NAME_BYTES];
        size_t n = strcspn(path, ".");
        if (n >= sizeof key) return NULL;
        memcpy(key, path, n);
        key[n] = '\0';
        object = json_object_get(object, key);
        path += n + (path[n] == '.');
    }
    return object;
}

static json_t *find(const struct ls_history *h, const char *path)
{
    json_t *found = walk((json_t *)ls_history_result(h), path);
    return found && !json_is_null(found) ? found : walk(h->manifest.object, path);
}

double ls_history_number(const struct ls_history *h, const char *path)
{
    json_t *found = find(h, path);
    return json_is_number(found) ? json_number_value(found) : NAN;
}

const char *ls_history_text(const struct ls_history *h, const char *path)
{
    return json_string_value(find(h, path));
}

void ls_history_value(const struct ls_history *h, const char *path, char *out, size_t size)
{
    json_t *found = find(h, path);
    if (json_is_string(found))
        snprintf(out, size, "%s", json_string_value(found));
    else if (json_is_integer(found))
        snprintf(out, size, "%lld", (long long)json_integer_value(found));
    else if (json_is_real(found))
        snprintf(out, size, "%.9g", json_real_value(found));
    else
        snprintf(out, size, "%s", json_is_boolean(found) ? json_is_true(found) ? "true" : "false" : "");
}

const struct ls_curve *ls_history_resources(const struct ls_history *h, int rank)
{
    if (rank < 0 || rank >= LS_MAX_RANKS || !h->ranks[rank] || h->ranks[rank]->table.n == 0) return NULL;
    return &h->ranks[rank]->table;
}

int ls_history_n_ranks(const struct ls_history *h)
{
    int n = 0;
    while (n < LS_MAX_RANKS && ls_history_resources(h, n)) n++;
    return n;
}

const struct ls_curve *ls_history_rank_rows(const struct ls_history *h)
{
    return h->rank_rows.table.n > 0 ? &h->rank_rows.table : NULL;
}

size_t ls_history_checkpoints(const struct ls_history *h, const int64_t **steps)
{
    *steps = h->checkpoints;
    return h->n_checkpoints;
}

size_t ls_history_events(const struct ls_history *h, const struct ls_event **events)
{
    *events = h->ranks[0] ? h->ranks[0]->events : NULL;
    return h->ranks[0] ? h->ranks[0]->n_events : 0;
}
