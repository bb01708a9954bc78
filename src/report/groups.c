/* groups.c: finds what differs between runs, and puts those that differ in nothing but the seed together. See groups.h.
 */
#include "report/groups.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- what was measured --- */

double ls__measure_of(const struct ls_history *h, enum ls_measure m)
{
    double v = NAN;
    switch (m) {
    case LS_MEASURE_ACCURACY:
        v = ls_history_number(h, "test_accuracy");
        return isfinite(v) ? v : ls_curve_last(ls_history_curve(h, "test"), "accuracy");
    case LS_MEASURE_RATE:
        return ls_history_number(h, "images_per_second");
    case LS_MEASURE_SECONDS:
        return ls_history_number(h, "train_seconds");
    case LS_MEASURE_EXPOSED:
        return ls_history_number(h, "seconds.communicate") / ls_history_number(h, "total_seconds");
    case LS_MEASURE_MEMORY:
        return ls_history_number(h, "peak_rss_bytes");
    case LS_N_MEASURES:
        break;
    }
    return v;
}

struct ls_stats ls__stats(const double *values, int n)
{
    struct ls_stats s = {.low = INFINITY, .high = -INFINITY};
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(values[i])) continue;
        s.n++;
        sum += values[i];
        s.low = fmin(s.low, values[i]);
        s.high = fmax(s.high, values[i]);
    }
    if (s.n == 0) return (struct ls_stats){0, NAN, NAN, NAN, NAN};
    s.mean = sum / s.n;
    for (int i = 0; i < n; i++)
        if (isfinite(values[i])) squares += (values[i] - s.mean) * (values[i] - s.mean);
    s.sd = s.n > 1 ? sqrt(squares / (s.n - 1)) : 0;
    return s;
}

/* The 97.5 % point of Student's t. */
static double student(double freedom)
{
    static const double table[] = {12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23};
    if (freedom < 1) return table[0];
    return freedom < 11 ? table[(int)freedom - 1] : freedom < 30 ? 2.1 : 2.0;
}

bool ls__differ(const struct ls_stats *a, const struct ls_stats *b, enum ls_measure m, double n_test)
{
    double difference = fabs(a->mean - b->mean);
    if (!isfinite(difference) || difference == 0) return false;
    if (a->n > 1 || b->n > 1) { /* a single run is taken to spread as the repeats of the other do */
        double va = (a->n > 1 ? a->sd * a->sd : b->sd * b->sd) / a->n,
               vb = (b->n > 1 ? b->sd * b->sd : a->sd * a->sd) / b->n;
        double freedom = a->n + b->n - 2;
        return difference > student(freedom) * sqrt(va + vb);
    }
    if (m == LS_MEASURE_ACCURACY && n_test > 0) {
        double mean = (a->mean + b->mean) / 2;
        return difference > 2 * sqrt(2 * mean * (1 - mean) / n_test);
    }
    return difference > 0.05 * fabs(b->mean);
}

/* --- what differs --- */

/* In the order of interest; the first that differs is drawn along x. */
static const struct {
    const char *path, *name;
} known[] = {
    {"workers", "workers"},
    {"threads", "threads"},
    {"batch_size", "batch size"},
    {"options.sync", "sync"},
    {"options.device", "device"},
    {"options.checkpoint_every", "checkpoint every"},
    {"options.compress", "compress"},
    {"model", "model"},
    {"options.data", "data"},
    {"options.optimizer", "optimizer"},
    {"options.lr", "lr"},
    {"options.epochs", "epochs"},
    {"options.iterations", "iterations"},
    {"lockstep_version", "version"},
    {"machine.host", "host"},
    {"machine.library", "library"},
    {"machine.isa", "isa"},
};

/* Options that say nothing of what was trained, and those that are above under another name. */
static bool is_ignored(const char *key)
{
    static const char *const keys[] = {"run_dir",      "quiet",     "json",       "resume",         "accept_other_bits",
                                       "log_every",    "keep",      "data_dir",   "timeout",        "seed",
                                       "workers",      "threads",   "batch_size", "loader_threads", "shards",
                                       "rescue_every", "no_record", "record",     "hosts",          "model"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(key, keys[i]) == 0) return true;
    return false;
}

static void value_of(const struct ls_history *h, const char *path, char out[LS_VALUE_BYTES])
{
    ls_history_value(h, path, out, LS_VALUE_BYTES);
    if (strcmp(path, "workers") == 0 && (out[0] == '\0' || strcmp(out, "0") == 0)) snprintf(out, LS_VALUE_BYTES, "1");
}

static bool is_number(const char *text)
{
    char *end;
    double v = strtod(text, &end);
    return *text && *end == '\0' && isfinite(v);
}

static bool differs(const struct ls_groups *g, const char *path, bool *is_numeric)
{
    char first[LS_VALUE_BYTES], other[LS_VALUE_BYTES];
    bool is_different = false;
    value_of(g->runs[0], path, first);
    *is_numeric = is_number(first);
    for (int i = 1; i < g->n_runs; i++) {
        value_of(g->runs[i], path, other);
        is_different |= strcmp(first, other) != 0;
        *is_numeric &= is_number(other);
    }
    return is_different;
}

static bool is_listed(const struct ls_groups *g, const char *path)
{
    for (int i = 0; i < g->n_factors; i++)
        if (strcmp(g->factors[i].path, path) == 0) return true;
    return false;
}

static void add_factor(struct ls_groups *g, const char *path, const char *name)
{
    bool is_numeric;
    if (g->n_factors == LS_MAX_FACTORS || strlen(path) >= sizeof g->factors[0].path || is_listed(g, path) ||
        !differs(g, path, &is_numeric))
        return;
    struct ls_factor *f = &g->factors[g->n_factors++];
    snprintf(f->path, sizeof f->path, "%s", path);
    f->name = name;
    f->is_numeric = is_numeric;
}

/* Workers of a machine share its cores: threads that change only where workers change are no difference of their own.
 */
static bool follows_workers(const struct ls_groups *g, const char *path)
{
    char workers[2][LS_VALUE_BYTES], value[2][LS_VALUE_BYTES];
    if (strcmp(path, "threads") != 0 || !is_listed(g, "workers")) return false;
    for (int i = 0; i < g->n_runs; i++) {
        for (int k = 0; k < i; k++) {
            value_of(g->runs[i], "workers", workers[0]);
            value_of(g->runs[k], "workers", workers[1]);
            value_of(g->runs[i], path, value[0]);
            value_of(g->runs[k], path, value[1]);
            if (strcmp(workers[0], workers[1]) == 0 && strcmp(value[0], value[1]) != 0) return false;
        }
    }
    return true;
}

static void find_factors(struct ls_page *p, struct ls_groups *g)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (!follows_workers(g, known[i].path)) add_factor(g, known[i].path, known[i].name);
    for (int r = 0; r < g->n_runs; r++) {
        const char *key;
        json_t *value;
        json_object_foreach(json_object_get((json_t *)ls_history_manifest(g->runs[r]), "options"), key, value)
        {
            char path[64];
            if (is_ignored(key) || snprintf(path, sizeof path, "options.%s", key) >= (int)sizeof path) continue;
            add_factor(g, path, ls__page_format(p, "%s", key));
        }
    }
    g->main = g->n_factors ? 0 : -1;
    for (int i = g->n_factors - 1; i >= 0; i--) /* the first numeric one, if there is any */
        if (g->factors[i].is_numeric) g->main = i;
}

/* --- groups --- */

static const char *label_of(struct ls_page *p, const struct ls_groups *g, const struct ls_group *group)
{
    const char *label = "";
    for (int i = 0; i < g->n_factors && i < 3; i++) {
        const char *name = g->factors[i].name, *value = group->values[i][0] ? group->values[i] : "none";
        bool is_count = strcmp(name, "workers") == 0 || strcmp(name, "threads") == 0;
        const char *part =
            is_count ? ls__page_format(p, "%s %.*s", value, (int)strlen(name) - (strcmp(value, "1") == 0), name)
                     : ls__page_format(p, "%s %.40s", name, value);
        label = *label ? ls__page_format(p, "%s, %s", label, part) : part;
    }
    return *label ? label : "all runs";
}

static int group_of(struct ls_page *p, struct ls_groups *g, int run)
{
    char values[LS_MAX_FACTORS][LS_VALUE_BYTES];
    for (int f = 0; f < g->n_factors; f++) value_of(g->runs[run], g->factors[f].path, values[f]);
    for (int k = 0; k < g->n_groups; k++) {
        bool is_same = true;
        for (int f = 0; f < g->n_factors; f++) is_same &= strcmp(values[f], g->groups[k].values[f]) == 0;
        if (is_same) return k;
    }
    struct ls_group *new_one = &g->groups[g->n_groups];
    for (int f = 0; f < g->n_factors; f++) {
        new_one->values[f] = ls__page_format(p, "%s", values[f]);
        new_one->numbers[f] = g->factors[f].is_numeric ? strtod(values[f], NULL) : NAN;
    }
    new_one->label = label_of(p, g, new_one);
    return g->n_groups++;
}

/* By the main factor; stable, so that others stay as they came. */
static void sort(struct ls_groups *g)
{
    if (g->main < 0 || !g->factors[g->main].is_numeric) return;
    for (int i = 1; i < g->n_groups; i++) {
        struct ls_group moved = g->groups[i];
        int k = i;
        for (; k > 0 && g->groups[k - 1].numbers[g->main] > moved.numbers[g->main]; k--)
            g->groups[k] = g->groups[k - 1];
        g->groups[k] = moved;
    }
}

static void measure(struct ls_groups *g)
{
    double values[LS_MAX_RUNS];
    for (int k = 0; k < g->n_groups; k++)
        for (int m = 0; m < LS_N_MEASURES; m++) {
            for (int i = 0; i < g->groups[k].n_runs; i++)
                values[i] = ls__measure_of(g->runs[g->groups[k].runs[i]], (enum ls_measure)m);
            g->groups[k].measures[m] = ls__stats(values, g->groups[k].n_runs);
        }
}

void ls__groups_make(struct ls_page *p, struct ls_groups *g, struct ls_history *const *runs, int n)
{
    memset(g, 0, sizeof *g);
    g->runs = runs;
    g->n_runs = n;
    g->is_same_work = true;
    find_factors(p, g);
    g->groups = ls__page_alloc(p, (size_t)n, sizeof *g->groups);
    for (int i = 0; g->groups && i < n; i++) {
        struct ls_group *group = &g->groups[group_of(p, g, i)];
        group->runs[group->n_runs++] = i;
        g->is_same_work &= ls_history_number(runs[i], "images") == ls_history_number(runs[0], "images");
    }
    if (!g->groups) return;
    sort(g);
    measure(g);
}
