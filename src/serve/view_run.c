/* view_run.c: the page of one run, most important first: how it goes, curves, what it uses, who takes part, what it
 * said last, its options.
 */
#include "serve/view.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_time_tile(struct ls_page *p, const struct ls_history *h)
{
    double seconds = ls_history_seconds(h), share = ls__view_progress(h);
    const char *note = ls__page_format(p, "%s steps", ls__say_count(p, ls_history_steps(h)));
    if (!(seconds > 0)) return;
    if (ls_history_state(h) == LS_RUN_RUNNING && share > 0.005 && share < 1)
        note = ls__page_format(p, "about %s to go", ls__say_seconds(p, seconds / share - seconds));
    ls__page_tile(p, "time in training", ls__say_seconds(p, seconds), note);
}

static void add_accuracy(struct ls_page *p, const struct ls_history *h, const char *split, const char *label)
{
    char accuracy[64], loss[64];
    const char *prefix = strcmp(split, "epoch") == 0 ? "train" : split;
    snprintf(accuracy, sizeof accuracy, "%.20s_accuracy", prefix);
    snprintf(loss, sizeof loss, "%.20s_loss", prefix);
    double value = ls__view_result_or_last(h, accuracy, split, "accuracy");
    if (!isfinite(value)) return;
    ls__page_tile(p, label, ls__say_percent(p, value, 2),
                  ls__page_format(p, "loss %.4g", ls__view_result_or_last(h, loss, split, "loss")));
}

static void add_tiles(struct ls_page *p, const struct ls_history *h)
{
    double of, epoch = ls__view_epoch(h, &of),
               rate = ls__view_result_or_last(h, "images_per_second", "train", "images_per_second");
    const struct ls_curve *usage = ls_history_resources(h, 0);
    double memory = ls_curve_last(usage, "mem_real"), cpu = ls_curve_last(usage, "cpu"),
           gpu = ls_curve_last(usage, "gpu");
    double loss = ls_curve_last(ls_history_curve(h, "train"), "loss"),
           lr = ls_curve_last(ls_history_curve(h, "train"), "lr");
    if (isfinite(epoch))
        ls__page_tile(p, "epoch", ls__page_format(p, isfinite(of) && of > 0 ? "%.0f of %.0f" : "%.0f", epoch, of),
                      ls__page_format(p, "step %s", ls__say_count(p, ls_history_steps(h))));
    if (isfinite(loss))
        ls__page_tile(p, "training loss", ls__page_format(p, "%.3g", loss),
                      isfinite(lr) ? ls__page_format(p, "learning rate %.4g", lr) : "");
    add_accuracy(p, h, "test", "test accuracy");
    add_accuracy(p, h, "validation", "validation accuracy");
    add_accuracy(p, h, "epoch", "training accuracy");
    if (isfinite(rate)) ls__page_tile(p, "speed", ls__say_count(p, rate), "images per second");
    add_time_tile(p, h);
    if (isfinite(memory))
        ls__page_tile(p, ls_history_n_ranks(h) > 1 ? "memory of rank 0" : "memory", ls__say_bytes(p, memory * 1048576),
                      isfinite(gpu) ? ls__page_format(p, "%.0f %% CPU, %.0f %% GPU", cpu, gpu)
                                    : ls__page_format(p, "%.0f %% CPU", cpu));
}

static void add_curves(struct ls_page *p, const struct ls_history *h)
{
    ls__page_heading(p, "Curves");
    int n = p->n_parts;
    ls__page_tab(p, "curves", "over steps", ls__figure_curves(p, h, LS_OVER_STEPS));
    ls__page_tab(p, "curves", "over epochs", ls__figure_curves(p, h, LS_OVER_EPOCHS));
    ls__page_tab(p, "curves", "over time", ls__figure_curves(p, h, LS_OVER_SECONDS));
    if (p->n_parts == n)
        ls__page_note(p, ls_history_state(h) == LS_RUN_RUNNING
                             ? "Nothing was measured yet; the first line comes after --log-every steps."
                             : "No metrics were recorded (metrics.jsonl).");
    ls__page_figure(p, "pace", ls__figure_pace(p, h));
}

/* Samples between which enough time passed that shares of it mean something: those at events come in quick succession.
 * rows[0] is the first; returns how many follow it. */
static size_t pick_rows(const struct ls_curve *c, size_t *rows)
{
    enum { LINES = 60 };
    const double least = 0.4, apart = fmax(least, (c->values[0][c->n - 1] - c->values[0][0]) / LINES);
    size_t n = 0;
    rows[0] = 0;
    for (size_t i = 1; i < c->n && n < 2 * LINES; i++)
        if (c->values[0][i] - c->values[0][rows[n]] >= apart) rows[++n] = i;
    return n;
}

/* The share that each part had of the time between two samples. */
static const struct ls_draw_picture *figure_shares(struct ls_page *p, const struct ls_history *h)
{
    const struct ls_curve *c = ls_history_resources(h, 0);
    struct ls_draw_series *series = ls__page_alloc(p, LS_N_SPLIT, sizeof *series);
    struct ls_draw_panel *panel = ls__page_alloc(p, 1, sizeof *panel);
    struct ls_draw_picture *picture = ls__page_alloc(p, 1, sizeof *picture);
    size_t *rows = c ? ls__page_alloc(p, c->n + 1, sizeof *rows) : NULL, n = rows ? pick_rows(c, rows) : 0;
    double *x = ls__page_alloc(p, n + 1, sizeof *x), *sums = ls__page_alloc(p, n + 1, sizeof *sums);
    int n_series = 0;
    if (n < 2 || !series || !panel || !picture || !x || !sums) return NULL;
    for (size_t k = 0; k < n; k++) x[k] = c->values[0][rows[k + 1]];
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < LS_N_SPLIT; i++) {
            const double *v = ls_curve_values(c, ls__split_names[i]);
            double *y = v && pass ? ls__page_alloc(p, n, sizeof *y) : NULL, sum = 0;
            for (size_t k = 0; v && k < n; k++) {
                double part = v[rows[k + 1]] - v[rows[k]];
                if (!pass) sums[k] += part > 0 ? part : 0;
                if (y) y[k] = sums[k] > 0 && part >= 0 ? part / sums[k] : NAN;
                if (y && y[k] > 0) sum += y[k];
            }
            if (y && sum > 0.02 * (double)n)
                series[n_series++] =
                    (struct ls_draw_series){.label = ls__split_names[i], .n = n, .x = x, .y = y, .colour = i + 1};
        }
    if (n_series == 0) return NULL;
    *panel = (struct ls_draw_panel){.title = "Shares of the time",
                                    .x = {.label = "time", .unit = LS_DRAW_SECONDS, .has_zero = true},
                                    .y = {.unit = LS_DRAW_PERCENT, .is_given = true, .from = 0, .to = 1},
                                    .series = series,
                                    .n_series = n_series,
                                    .height = 250};
    *picture = (struct ls_draw_picture){.panels = panel, .n_panels = 1};
    return picture;
}

static void add_usage(struct ls_page *p, const struct ls_history *h)
{
    const struct ls_draw_picture *used = ls__figure_resources(p, h), *split = ls__figure_split(p, h);
    ls__page_heading(p, "What it uses");
    if (!used) ls__page_note(p, "Not recorded (resources.csv).");
    ls__page_figure(p, "resources", used);
    if (!split) return;
    ls__page_heading(p, "Where the time goes");
    struct ls_draw_picture *titled = ls__page_alloc(p, 1, sizeof *titled);
    struct ls_draw_panel *panel = ls__page_alloc(p, 1, sizeof *panel);
    if (!titled || !panel) return;
    *titled = *split;
    *panel = split->panels[0];
    panel->title = "So far";
    titled->panels = panel;
    ls__page_figure(p, "time", titled);
    ls__page_figure(p, "shares", figure_shares(p, h));
}

/* A rank whose last sample is much older than the newest of all is silent. */
static void add_ranks(struct ls_page *p, const struct ls_history *h)
{
    static const char *const head[] = {"rank",   "state",   "step", "epoch",      "CPU %",
                                       "memory", "threads", "sent", "last sample"};
    enum { N = sizeof head / sizeof head[0], SILENT_SECONDS = 10 };
    int n = ls_history_n_ranks(h);
    double newest = 0;
    if (n < 2) return;
    for (int i = 0; i < n; i++) newest = fmax(newest, ls_curve_last(ls_history_resources(h, i), "elapsed_time"));
    ls__page_heading(p, "Ranks");
    ls__page_row(p, head, N);
    for (int i = 0; i < n; i++) {
        const struct ls_curve *c = ls_history_resources(h, i);
        double at = ls_curve_last(c, "elapsed_time"), behind = newest - at;
        const char *state = ls_history_state(h) != LS_RUN_RUNNING ? ls_history_state_word(h)
                            : behind > SILENT_SECONDS ? ls__page_format(p, "silent for %s", ls__say_seconds(p, behind))
                                                      : "running";
        const char *const cells[N] = {ls__page_format(p, "%d", i),
                                      state,
                                      ls__say_count(p, ls_curve_last(c, "step")),
                                      ls__say_count(p, ls_curve_last(c, "epoch")),
                                      ls__say_count(p, ls_curve_last(c, "cpu")),
                                      ls__say_bytes(p, ls_curve_last(c, "mem_real") * 1048576),
                                      ls__say_count(p, ls_curve_last(c, "threads")),
                                      ls__say_bytes(p, ls_curve_last(c, "net_sent")),
                                      ls__say_seconds(p, at)};
        ls__page_row(p, cells, N);
    }
}

/* --- the last lines --- */

struct line {
    const struct ls_curve *curve;
    size_t at;
    double step;
    int order;
};

static int newest_first(const void *a, const void *b)
{
    const struct line *l = a, *r = b;
    if (l->step != r->step) return l->step > r->step ? -1 : 1;
    return r->order != l->order ? r->order - l->order : l->at > r->at ? -1 : 1;
}

static const char *value_at(struct ls_page *p, const struct line *line, const char *name, double factor)
{
    const double *values = ls_curve_values(line->curve, name);
    if (!values || !isfinite(values[line->at])) return "";
    return factor == 100 ? ls__say_percent(p, values[line->at], 2) : ls__say_number(p, values[line->at]);
}

static void add_lines(struct ls_page *p, const struct ls_history *h)
{
    static const char *const head[] = {"step", "epoch", "of", "loss", "accuracy", "learning rate", "images/s", "time"};
    enum { N = sizeof head / sizeof head[0], OF_EACH = 12 };
    struct line lines[LS_MAX_CURVES * OF_EACH];
    size_t n = 0;
    const struct ls_curve *c;
    for (int i = 0; (c = ls_history_curve_at(h, i)); i++) {
        const double *steps = ls_curve_values(c, "step");
        for (size_t k = 0; steps && k < c->n && k < OF_EACH; k++)
            lines[n++] = (struct line){c, c->n - 1 - k, steps[c->n - 1 - k], i};
    }
    if (n == 0) return;
    qsort(lines, n, sizeof *lines, newest_first);
    ls__page_heading(p, "Last lines");
    ls__page_row(p, head, N);
    for (size_t i = 0; i < n && i < OF_EACH; i++) {
        const double *seconds = ls_curve_values(lines[i].curve, "seconds"),
                     *rates = ls_curve_values(lines[i].curve, "images_per_second");
        const char *const cells[N] = {ls__say_count(p, lines[i].step),
                                      value_at(p, &lines[i], "epoch", 1),
                                      lines[i].curve->name,
                                      value_at(p, &lines[i], "loss", 1),
                                      value_at(p, &lines[i], "accuracy", 100),
                                      value_at(p, &lines[i], "lr", 1),
                                      rates ? ls__say_count(p, rates[lines[i].at]) : "",
                                      seconds ? ls__say_seconds(p, seconds[lines[i].at]) : ""};
        ls__page_row(p, cells, N);
    }
    if (ls_history_bad_lines(h) > 0)
        ls__page_note(p, "%zu lines or files could not be understood and were left out.", ls_history_bad_lines(h));
}

/* Known when the run has ended. */
static void add_layers(struct ls_page *p, const struct ls_history *h)
{
    json_t *layers = json_object_get((json_t *)ls_history_result(h), "layers");
    if (json_array_size(layers) == 0) return;
    ls__page_heading(p, "Layers");
    if (!ls__table_layers(p, h)) ls__page_note(p, "What result.json says of them cannot be understood.");
}

/* --- options --- */

static void add_options(struct ls_page *p, const struct ls_history *h)
{
    json_t *options = json_object_get((json_t *)ls_history_manifest(h), "options"), *value;
    const char *key;
    int n = 0;
    if (json_object_size(options) == 0) return;
    ls__page_heading(p, LS_SECTION_FOLDED);
    json_object_foreach(options, key, value)
    {
        const char *text = json_is_string(value)    ? ls__page_format(p, "%.2000s", json_string_value(value))
                           : json_is_integer(value) ? ls__page_format(p, "%lld", (long long)json_integer_value(value))
                           : json_is_real(value)    ? ls__page_format(p, "%.9g", json_real_value(value))
                           : json_is_true(value)    ? "on"
                           : json_is_false(value)   ? "off"
                                                    : "";
        if (*text && n++ < 300) ls__page_pair(p, ls__page_format(p, "%.200s", key), text);
    }
}

static void add_facts(struct ls_page *p, const struct ls_site *site, const struct ls_history *h)
{
    static const char *const facts[][2] = {{"host", "machine.host"},
                                           {"CPUs", "machine.cpus"},
                                           {"library", "machine.library"},
                                           {"global batch", "batch_size"},
                                           {"shards", "shards"},
                                           {"workers", "workers"},
                                           {"threads", "threads"},
                                           {"synchronisation", "options.sync"},
                                           {"Lockstep", "lockstep_version"},
                                           {"weights hash", "weights_hash"}};
    const int64_t *steps;
    size_t n = ls_history_checkpoints(h, &steps);
    ls__page_heading(p, "Facts");
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        const char *value = ls__say_value(p, h, facts[i][1]);
        if (*value) ls__page_pair(p, facts[i][0], value);
    }
    if (n)
        ls__page_pair(p, "newest checkpoint",
                      ls__page_format(p, "step %s (%zu in all)", ls__say_count(p, (double)steps[n - 1]), n));
    char *command = site->command_of ? site->command_of(h) : NULL;
    if (command) {
        ls__page_text(p, "The same again:");
        ls__page_code(p, command);
    }
    free(command);
}

void ls__view_run_parts(struct ls_page *p, const struct ls_site *site, const struct ls_site_run *run)
{
    const struct ls_history *h = run->h;
    const char *started = ls_history_text(h, "started"), *host = ls_history_text(h, "machine.host");
    p->title = ls__say_run(p, h);
    p->note = ls__page_format(p, "%s%s%.40s%s%.100s", run->name, started ? ", started " : "", started ? started : "",
                              host ? " on " : "", host ? host : "");
    add_tiles(p, h);
    if (ls_history_state(h) != LS_RUN_RUNNING && ls__say_end(p, h)) ls__page_note(p, "%s", ls__say_end(p, h));
    add_curves(p, h);
    add_usage(p, h);
    add_ranks(p, h);
    add_lines(p, h);
    ls__table_ranks(p, h);
    add_layers(p, h);
    add_facts(p, site, h);
    add_options(p, h);
}
