/* figures.c: curves, bars and timelines of runs, described as pictures for the drawing module. See figures.h. */
#include "report/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const ls__split_names[LS_N_SPLIT] = {"compute",  "update",     "communicate", "wait", "load",
                                                 "evaluate", "checkpoint", "setup",       "other"};

double ls__split_seconds(const struct ls_history *h, int part)
{
    char path[64];
    snprintf(path, sizeof path, "seconds.%s", ls__split_names[part]);
    if (ls_history_state(h) == LS_RUN_DONE) return ls_history_number(h, path);
    return ls_curve_last(ls_history_resources(h, 0), ls__split_names[part]);
}

/* --- curves --- */

static double steps_per_epoch(const struct ls_history *h)
{
    const struct ls_curve *c = ls_history_curve(h, "epoch");
    double steps = ls_curve_last(c, "step"), epochs = ls_curve_last(c, "epoch");
    if (steps > 0 && epochs > 0) return steps / epochs;
    double images = ls_history_number(h, "train_data.images"), batch = ls_history_number(h, "batch_size");
    return images > 0 && batch > 0 ? ceil(images / batch) : NAN;
}

const double *ls__figure_x(struct ls_page *p, const struct ls_history *h, const struct ls_curve *c, enum ls_over over)
{
    const double *steps = ls_curve_values(c, "step");
    if (over == LS_OVER_STEPS) return steps;
    if (over == LS_OVER_SECONDS) return ls_curve_values(c, "seconds");
    double per = steps_per_epoch(h), *epochs = ls__page_alloc(p, c->n, sizeof *epochs);
    if (!epochs || !steps || !(per > 0)) return NULL;
    for (size_t i = 0; i < c->n; i++) epochs[i] = steps[i] / per;
    return epochs;
}

static struct ls_draw_axis axis_over(enum ls_over over)
{
    static const char *const names[] = {"step", "epoch", "time in training"};
    return (struct ls_draw_axis){.label = names[over],
                                 .unit = over == LS_OVER_SECONDS ? LS_DRAW_SECONDS : LS_DRAW_NUMBER};
}

static bool has_finite(const double *values, size_t n)
{
    for (size_t i = 0; values && i < n; i++)
        if (isfinite(values[i])) return true;
    return false;
}

/* A curve of `split`, if it has values. */
static bool add_curve(struct ls_page *p, const struct ls_history *h, const char *split, const char *value,
                      const char *label, enum ls_over over, struct ls_draw_series *out)
{
    const struct ls_curve *c = ls_history_curve(h, split);
    const double *y = ls_curve_values(c, value), *x = y ? ls__figure_x(p, h, c, over) : NULL;
    if (!x || !has_finite(y, c->n)) return false;
    *out = (struct ls_draw_series){
        .label = label, .n = c->n, .x = x, .y = y, .has_points = c->n <= 60 && strcmp(split, "train") != 0};
    return true;
}

/* Epochs as marks, thinned when they are many. An accuracy near 100 % leaves no room for texts. */
static int epoch_marks(struct ls_page *p, const struct ls_history *h, enum ls_over over, bool has_text,
                       const struct ls_draw_mark **out)
{
    const struct ls_curve *c = ls_history_curve(h, "epoch");
    const double *x = c && over != LS_OVER_EPOCHS ? ls__figure_x(p, h, c, over) : NULL,
                 *epochs = ls_curve_values(c, "epoch");
    size_t every = c ? c->n / 40 + 1 : 1;
    struct ls_draw_mark *marks = x && epochs ? ls__page_alloc(p, c->n, sizeof *marks) : NULL;
    int n = 0;
    for (size_t i = 0; marks && i < c->n; i += every)
        marks[n++] =
            (struct ls_draw_mark){.kind = LS_DRAW_MARK_EPOCH,
                                  .x = x[i],
                                  .text = has_text && c->n <= 40 ? ls__page_format(p, "epoch %.0f", epochs[i]) : NULL};
    *out = marks;
    return n;
}

static struct ls_draw_picture *picture_of(struct ls_page *p, struct ls_draw_panel *panels, int n, int n_columns)
{
    struct ls_draw_picture *picture = ls__page_alloc(p, 1, sizeof *picture);
    if (!picture) return NULL;
    *picture = (struct ls_draw_picture){.panels = panels, .n_panels = n, .n_columns = n_columns};
    return picture;
}

const struct ls_draw_picture *ls__figure_curves(struct ls_page *p, const struct ls_history *h, enum ls_over over)
{
    static const char *const splits[] = {"train", "test", "validation"};
    static const char *const labels[] = {"training", "test", "validation"};
    static const char *const values[] = {"loss", "accuracy"};
    struct ls_draw_panel *panels = ls__page_alloc(p, 2, sizeof *panels);
    struct ls_draw_series *series = ls__page_alloc(p, 6, sizeof *series);
    if (!panels || !series) return NULL;
    int n_panels = 0;
    for (int v = 0; v < 2; v++, series += 3) {
        struct ls_draw_panel *panel = &panels[n_panels];
        int n = 0;
        for (int s = 0; s < 3; s++) {
            bool is_there = add_curve(p, h, splits[s], values[v], labels[s], over, &series[n]);
            if (!is_there && s == 0) is_there = add_curve(p, h, "epoch", values[v], labels[s], over, &series[n]);
            if (is_there) series[n++].colour = s + 1;
        }
        if (n == 0) continue;
        *panel = (struct ls_draw_panel){
            .title = v ? "Accuracy" : "Loss", .x = axis_over(over), .series = series, .n_series = n};
        if (v)
            panel->y = (struct ls_draw_axis){.unit = LS_DRAW_PERCENT};
        else
            panel->y = (struct ls_draw_axis){.scale = LS_DRAW_LOG10, .label = "cross entropy"};
        panel->n_marks = epoch_marks(p, h, over, v == 0, &panel->marks);
        n_panels++;
    }
    return n_panels ? picture_of(p, panels, n_panels, 2) : NULL;
}

const struct ls_draw_picture *ls__figure_pace(struct ls_page *p, const struct ls_history *h)
{
    struct ls_draw_panel *panels = ls__page_alloc(p, 2, sizeof *panels);
    struct ls_draw_series *series = ls__page_alloc(p, 2, sizeof *series);
    int n = 0;
    if (!panels || !series) return NULL;
    if (add_curve(p, h, "train", "images_per_second", NULL, LS_OVER_STEPS, &series[n])) {
        panels[n] = (struct ls_draw_panel){.title = "Speed",
                                           .x = axis_over(LS_OVER_STEPS),
                                           .y = {.suffix = "images/s", .has_zero = true},
                                           .series = &series[n],
                                           .n_series = 1};
        series[n++].colour = 3;
    }
    if (add_curve(p, h, "train", "lr", NULL, LS_OVER_STEPS, &series[n])) {
        panels[n] = (struct ls_draw_panel){.title = "Learning rate",
                                           .x = axis_over(LS_OVER_STEPS),
                                           .y = {.has_zero = true},
                                           .series = &series[n],
                                           .n_series = 1};
        series[n++].colour = 4;
    }
    for (int i = 0; i < n; i++) panels[i].height = 200;
    return n ? picture_of(p, panels, n, 2) : NULL;
}

/* --- resources --- */

static int event_marks(struct ls_page *p, const struct ls_history *h, const struct ls_draw_mark **out)
{
    const struct ls_event *events;
    size_t n_events = ls_history_events(h, &events);
    struct ls_draw_mark *marks = ls__page_alloc(p, n_events, sizeof *marks);
    int n = 0;
    for (size_t i = 0; marks && i < n_events && n < 400; i++) {
        const struct ls_event *e = &events[i];
        if (e->kind == LS_EVENT_EVALUATE) continue;
        marks[n++] = (struct ls_draw_mark){.kind = e->kind == LS_EVENT_EPOCH        ? LS_DRAW_MARK_EPOCH
                                                   : e->kind == LS_EVENT_CHECKPOINT ? LS_DRAW_MARK_CHECKPOINT
                                                                                    : LS_DRAW_MARK_NOTE,
                                           .x = e->seconds,
                                           .text = e->kind == LS_EVENT_RESUME ? "resumed" : NULL};
    }
    *out = marks;
    return n;
}

/* A column of every rank's table, times `factor`. */
static int rank_series(struct ls_page *p, const struct ls_history *h, const char *column, double factor,
                       struct ls_draw_series *out)
{
    int n = 0, n_ranks = ls_history_n_ranks(h);
    for (int rank = 0; rank < n_ranks && n < 16; rank++) {
        const struct ls_curve *c = ls_history_resources(h, rank);
        const double *from = ls_curve_values(c, column);
        double *values = from && has_finite(from, c->n) ? ls__page_alloc(p, c->n, sizeof *values) : NULL;
        if (!values) continue;
        for (size_t i = 0; i < c->n; i++) values[i] = from[i] * factor;
        out[n++] = (struct ls_draw_series){.label = n_ranks > 1 ? ls__page_format(p, "rank %d", rank) : NULL,
                                           .n = c->n,
                                           .x = c->values[0],
                                           .y = values,
                                           .colour = rank + 1};
    }
    return n;
}

const struct ls_draw_picture *ls__figure_resources(struct ls_page *p, const struct ls_history *h)
{
    static const struct {
        const char *title, *column, *suffix;
        double factor;
        enum ls_draw_unit unit;
    } kinds[] = {{"CPU", "cpu", "% of a core", 1, LS_DRAW_NUMBER},
                 {"Memory", "mem_real", NULL, 1048576, LS_DRAW_BYTES},
                 {"GPU", "gpu", "%", 1, LS_DRAW_NUMBER},
                 {"GPU memory", "gpu_mem", NULL, 1048576, LS_DRAW_BYTES},
                 {"GPU power", "gpu_watts", "W", 1, LS_DRAW_NUMBER},
                 {"GPU clock", "gpu_mhz", "MHz", 1, LS_DRAW_NUMBER}};
    enum { N = sizeof kinds / sizeof kinds[0] };
    struct ls_draw_panel *panels = ls__page_alloc(p, N, sizeof *panels);
    const struct ls_draw_mark *marks;
    int n = 0, n_marks = event_marks(p, h, &marks);
    for (int i = 0; panels && i < N; i++) {
        struct ls_draw_series *series = ls__page_alloc(p, 16, sizeof *series);
        int n_series = series ? rank_series(p, h, kinds[i].column, kinds[i].factor, series) : 0;
        if (n_series == 0) continue;
        panels[n++] = (struct ls_draw_panel){.title = kinds[i].title,
                                             .x = {.label = "time", .unit = LS_DRAW_SECONDS, .has_zero = true},
                                             .y = {.suffix = kinds[i].suffix, .unit = kinds[i].unit, .has_zero = true},
                                             .series = series,
                                             .n_series = n_series,
                                             .marks = marks,
                                             .n_marks = n_marks,
                                             .height = 220};
    }
    struct ls_draw_picture *picture = n ? picture_of(p, panels, n, 1) : NULL;
    if (picture && n_marks) panels[n - 1].note = "Dashed: ends of epochs. Triangles: checkpoints.";
    return picture;
}

/* --- where the time went --- */

const struct ls_draw_picture *ls__figure_split(struct ls_page *p, const struct ls_history *h)
{
    struct ls_draw_panel *panel = ls__page_alloc(p, 1, sizeof *panel);
    struct ls_draw_series *series = ls__page_alloc(p, 1, sizeof *series);
    const char **names = ls__page_alloc(p, LS_N_SPLIT, sizeof *names),
               **texts = ls__page_alloc(p, LS_N_SPLIT, sizeof *texts);
    double *seconds = ls__page_alloc(p, LS_N_SPLIT, sizeof *seconds), sum = 0;
    size_t n = 0;
    if (!panel || !series || !names || !texts || !seconds) return NULL;
    for (int i = 0; i < LS_N_SPLIT; i++)
        if (ls__split_seconds(h, i) > 0) sum += ls__split_seconds(h, i);
    for (int i = 0; i < LS_N_SPLIT; i++) {
        double s = ls__split_seconds(h, i);
        if (!(s > 0)) continue;
        names[n] = ls__split_names[i];
        texts[n] = ls__page_format(p, s >= 100 ? "%.0f s, %.1f %%" : "%.3g s, %.1f %%", s, 100 * s / sum);
        seconds[n++] = s;
    }
    if (n == 0) return NULL;
    *series = (struct ls_draw_series){.n = n, .y = seconds, .texts = texts};
    *panel = (struct ls_draw_panel){.kind = LS_DRAW_BARS,
                                    .y = {.label = "time", .unit = LS_DRAW_SECONDS},
                                    .series = series,
                                    .n_series = 1,
                                    .names = names};
    return picture_of(p, panel, 1, 1);
}

/* --- several runs --- */

const struct ls_draw_picture *ls__figure_together(struct ls_page *p, struct ls_history *const *runs, int n,
                                                  const char *const *labels, enum ls_over over)
{
    struct ls_draw_panel *panels = ls__page_alloc(p, 2, sizeof *panels);
    int n_panels = 0;
    for (int v = 0; panels && v < 2; v++) {
        struct ls_draw_series *series = ls__page_alloc(p, (size_t)n, sizeof *series);
        int n_series = 0;
        for (int i = 0; series && i < n && n_series < 24; i++) {
            bool is_there = v ? add_curve(p, runs[i], "test", "accuracy", labels[i], over, &series[n_series])
                              : add_curve(p, runs[i], "train", "loss", labels[i], over, &series[n_series]);
            if (!is_there && v == 0)
                is_there = add_curve(p, runs[i], "epoch", "loss", labels[i], over, &series[n_series]);
            if (is_there) series[n_series++].colour = i + 1;
        }
        if (n_series == 0) continue;
        panels[n_panels++] = (struct ls_draw_panel){
            .title = v ? "Accuracy on test data" : "Training loss",
            .x = axis_over(over),
            .y = {.unit = v ? LS_DRAW_PERCENT : LS_DRAW_NUMBER, .scale = v ? LS_DRAW_LINEAR : LS_DRAW_LOG10},
            .series = series,
            .n_series = n_series,
            .has_legend = n_series > 3,
            .height = n_series > 3 ? 300 : 0};
    }
    return n_panels ? picture_of(p, panels, n_panels, 2) : NULL;
}
