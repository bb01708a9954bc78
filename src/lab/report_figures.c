/* report_figures.c: pictures of a question (report_impl.h). Bars are medians, whiskers the range over repeats; of bars
 * on top of each other that of all of them together. Curves of further repeats are thin. */
#include "lab/report_impl.h"

#include "report/figures.h"

#include <math.h>
#include <string.h>

static const char *name_of(const struct ls_lab_view *v, const struct ls_lab_question *q, const char *what)
{
    return ls__page_format(v->p, "%s-%s", q->id, what);
}

static void add_panels(const struct ls_lab_view *v, const char *name, struct ls_draw_panel *panels, int n,
                       int n_columns)
{
    struct ls_draw_picture *picture = ls__page_alloc(v->p, 1, sizeof *picture);
    if (!picture || n == 0) return;
    *picture = (struct ls_draw_picture){.panels = panels, .n_panels = n, .n_columns = n_columns};
    ls__page_figure(v->p, name, picture);
}

/* Curves that a picture has room for. */
enum { MOST_CURVES = 24 };

/* --- bars --- */

/* What a figure of bars shows. */
struct bar {
    enum ls_lab_measure measure;
    const char *label;
    double scale;
};

/* The ends of a whisker; NAN: there is none. */
static void set_whisker(const struct ls_spread *s, double scale, double *low, double *high)
{
    *low = s->low < s->high ? s->low * scale : NAN;
    *high = s->low < s->high ? s->high * scale : NAN;
}

/* One bar per run and measure, of the runs that have the first of them. Of a stack `whole` is what all bars are
 * together. */
static void add_bars(const struct ls_lab_view *v, const struct ls_lab_question *q, const char *name, const char *title,
                     const struct bar *bars, int n_bars, struct ls_draw_axis axis, const struct bar *whole)
{
    const bool is_stacked = whole;
    struct ls_draw_panel *panel = ls__page_alloc(v->p, 1, sizeof *panel);
    struct ls_draw_series *series = ls__page_alloc(v->p, (size_t)n_bars, sizeof *series);
    const char **names = ls__page_alloc(v->p, (size_t)q->n_runs, sizeof *names);
    if (!panel || !series || !names) return;
    for (int b = 0; b < n_bars; b++) {
        double *y = ls__page_alloc(v->p, (size_t)q->n_runs, sizeof *y),
               *low = ls__page_alloc(v->p, (size_t)q->n_runs, sizeof *low),
               *high = ls__page_alloc(v->p, (size_t)q->n_runs, sizeof *high);
        const char **texts = ls__page_alloc(v->p, (size_t)q->n_runs, sizeof *texts);
        size_t n = 0;
        if (!y || !low || !high || !texts) return;
        for (int i = 0; i < q->n_runs; i++) {
            struct ls_spread first = ls__lab_spread(v, q->runs[i], bars[0].measure),
                             s = ls__lab_spread(v, q->runs[i], bars[b].measure);
            if (first.n == 0) continue;
            names[n] = v->lab->runs[q->runs[i]].name;
            y[n] = s.n ? s.median * bars[b].scale : is_stacked ? 0 : NAN;
            set_whisker(&s, bars[b].scale, &low[n], &high[n]);
            if (is_stacked) s = ls__lab_spread(v, q->runs[i], whole->measure);
            if (is_stacked) set_whisker(&s, whole->scale, &low[n], &high[n]);
            texts[n] = ls__lab_say_as(v->p, s.digits, y[n]);
            n++;
        }
        series[b] = (struct ls_draw_series){.label = bars[b].label, .n = n, .y = y};
        if (!is_stacked) series[b].texts = texts;
        if (!is_stacked || b == 0) series[b].low = low, series[b].high = high;
    }
    *panel = (struct ls_draw_panel){.kind = LS_DRAW_BARS,
                                    .title = title,
                                    .y = axis,
                                    .series = series,
                                    .n_series = n_bars,
                                    .names = names,
                                    .is_stacked = is_stacked};
    if (series[0].n > 0) add_panels(v, name, panel, 1, 1);
}

/* --- curves and resources --- */

/* Whole epochs, where they are few. */
static void set_ticks(const struct ls_lab_view *v, struct ls_draw_panel *panel)
{
    enum { MOST = 12 };
    double top = 0, *ticks = ls__page_alloc(v->p, MOST + 1, sizeof *ticks);
    for (int i = 0; i < panel->n_series; i++)
        for (size_t k = 0; panel->series[i].x && k < panel->series[i].n; k++) top = fmax(top, panel->series[i].x[k]);
    if (!ticks || top > MOST || top < 1) return;
    panel->x.ticks = ticks;
    for (int i = 0; i <= (int)top; i++) ticks[panel->x.n_ticks++] = i;
}

/* What a picture of curves shows: runs with a repeat that is done. */
struct shown {
    const int *runs; /* [n] indices into lab->runs */
    const char **labels;
    int n, n_repeats; /* the most of any */
};

/* The k-th repeats, a panel for each value; NULL labels: nameless. */
static const struct ls_draw_picture *curves_of(const struct ls_lab_view *v, const struct shown *s, int k,
                                               enum ls_over over)
{
    struct ls_history **runs = ls__page_alloc(v->p, (size_t)s->n, sizeof *runs);
    const char **labels = ls__page_alloc(v->p, (size_t)s->n, sizeof *labels);
    if (!runs || !labels) return NULL;
    for (int i = 0; i < s->n; i++) {
        const struct ls_lab_seen *seen = &v->seen[s->runs[i]];
        runs[i] = seen->done[k < seen->n_done ? k : 0]; /* once more what is there: nobody sees it */
        labels[i] = k == 0 ? s->labels[i] : "";
    }
    return ls__figure_together(v->p, runs, s->n, labels, over);
}

/* The curves of the other repeats behind a panel's own. */
static void add_repeats(const struct ls_lab_view *v, const struct shown *s, enum ls_over over,
                        struct ls_draw_panel *panel)
{
    const size_t most = (size_t)panel->n_series * (size_t)s->n_repeats;
    struct ls_draw_series *series = ls__page_alloc(v->p, most, sizeof *series);
    if (!series) return;
    size_t n = (size_t)panel->n_series;
    memcpy(series, panel->series, n * sizeof *series);
    for (int k = 1; k < s->n_repeats; k++) {
        const struct ls_draw_picture *more = curves_of(v, s, k, over);
        for (int i = 0; more && i < more->n_panels; i++)
            for (int j = 0; strcmp(more->panels[i].title, panel->title) == 0 && j < more->panels[i].n_series; j++)
                if (n < most) {
                    series[n] = more->panels[i].series[j];
                    series[n++].mode = LS_DRAW_THIN;
                }
    }
    panel->series = series;
    panel->n_series = (int)n;
}

/* Without panels in which no run has two points. NULL: none is left. */
static const struct ls_draw_picture *curves_over(const struct ls_lab_view *v, const struct shown *s, enum ls_over over)
{
    const struct ls_draw_picture *all = curves_of(v, s, 0, over);
    struct ls_draw_picture *picture = ls__page_alloc(v->p, 1, sizeof *picture);
    struct ls_draw_panel *panels = ls__page_alloc(v->p, 2, sizeof *panels);
    int n_panels = 0;
    if (!all || !picture || !panels) return NULL;
    for (int i = 0; i < all->n_panels; i++) {
        bool has_line = false;
        for (int k = 0; k < all->panels[i].n_series; k++) has_line |= all->panels[i].series[k].n > 1;
        if (!has_line) continue;
        panels[n_panels] = all->panels[i];
        if (over == LS_OVER_EPOCHS) set_ticks(v, &panels[n_panels]);
        add_repeats(v, s, over, &panels[n_panels]);
        n_panels++;
    }
    *picture = *all;
    picture->panels = panels;
    picture->n_panels = n_panels;
    if (n_panels < picture->n_columns) picture->n_columns = n_panels;
    return n_panels ? picture : NULL;
}

/* Below a picture that has room for `most` runs of n. */
static void say_shown(const struct ls_lab_view *v, int most, int n, const char *first)
{
    if (n > most)
        ls__page_note(v->p, "%s%sThe picture has the first %d of %d runs.", first, *first ? " " : "", most, n);
    else if (*first)
        ls__page_note(v->p, "%s", first);
}

static void add_curves(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    int *runs = ls__page_alloc(v->p, (size_t)q->n_runs, sizeof *runs);
    struct shown s = {.runs = runs, .labels = ls__page_alloc(v->p, (size_t)q->n_runs, sizeof *s.labels)};
    const char *name = name_of(v, q, "curves");
    for (int i = 0; runs && s.labels && i < q->n_runs; i++) {
        const int n_done = v->seen[q->runs[i]].n_done;
        if (n_done == 0) continue;
        runs[s.n] = q->runs[i];
        s.labels[s.n++] = v->lab->runs[q->runs[i]].name;
        if (n_done > s.n_repeats) s.n_repeats = n_done;
    }
    if (s.n == 0) return;
    const struct ls_draw_picture *picture = curves_over(v, &s, LS_OVER_EPOCHS);
    if (!picture)
        ls__page_note(v->p, "No curves: nothing was logged twice. `log-every=1` logs the loss of every step.");
    ls__page_tab(v->p, name, "over epochs", picture);
    ls__page_tab(v->p, name, "over time", curves_over(v, &s, LS_OVER_SECONDS));
    say_shown(v, picture ? MOST_CURVES : s.n, s.n, s.n_repeats > 1 ? "Thin curves are further repeats." : "");
}

static void add_resources(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    enum { MOST = 12 };
    static const char *const titles[] = {"CPU", "Memory"}, *const columns[] = {"cpu", "mem_real"};
    struct ls_draw_panel *panels = ls__page_alloc(v->p, 2, sizeof *panels);
    int n_panels = 0, n_known = 0;
    for (int k = 0; panels && k < 2; k++) {
        struct ls_draw_series *series = ls__page_alloc(v->p, MOST, sizeof *series);
        int n = 0;
        n_known = 0;
        for (int i = 0; series && i < q->n_runs; i++) {
            const struct ls_history *h = ls__lab_first(v, q->runs[i]);
            const double *times = NULL;
            size_t n_points = 0;
            double *sum = h ? ls__lab_added(v->p, h, columns[k], &times, &n_points) : NULL;
            if (!sum || n_points < 2 || n_known++ >= MOST) continue;
            for (size_t j = 0; k == 1 && j < n_points; j++) sum[j] *= 1048576;
            series[n] = (struct ls_draw_series){
                .label = v->lab->runs[q->runs[i]].name, .n = n_points, .x = times, .y = sum, .colour = i + 1};
            n++;
        }
        if (n == 0) continue;
        panels[n_panels++] = (struct ls_draw_panel){
            .title = titles[k],
            .x = {.label = "time", .unit = LS_DRAW_SECONDS},
            .y = {.suffix = k ? NULL : "% of a core", .unit = k ? LS_DRAW_BYTES : LS_DRAW_NUMBER, .has_zero = true},
            .series = series,
            .n_series = n,
            .has_legend = n > 1,
            .height = 240};
    }
    add_panels(v, name_of(v, q, "resources"), panels, n_panels, 1);
    if (n_panels > 0) say_shown(v, MOST, n_known, "The picture is of the first repeat of each run.");
}

void ls__lab_figures(const struct ls_lab_view *v, const struct ls_lab_question *q, enum ls_lab_show show)
{
    static const struct bar time[] = {{LS_LAB_TIME, NULL, 1}}, accuracy[] = {{LS_LAB_ACCURACY, NULL, 100}},
                            rate[] = {{LS_LAB_BYTE_RATE, NULL, 1e-6}}, target[] = {{LS_LAB_TARGET_ALL, NULL, 1}},
                            steps[] = {{LS_LAB_PREDICTED, "predicted", 1e3}, {LS_LAB_STEP, "measured", 1e3}},
                            parts[] = {{LS_LAB_COMPUTE, "compute", 1},
                                       {LS_LAB_UPDATE, "update", 1},
                                       {LS_LAB_COMMUNICATE, "communicate", 1},
                                       {LS_LAB_WAIT, "wait", 1},
                                       {LS_LAB_LOAD, "load", 1}},
                            spent[] = {{LS_LAB_SPENT, NULL, 1}};
    const struct ls_draw_axis seconds = {.label = "seconds", .has_zero = true}, percent = {.label = "% right"};
    const struct ls_draw_axis ms = {.label = "ms per step", .has_zero = true}, mb = {.label = "MB/s", .has_zero = true};
    const char *name = name_of(v, q, ls__lab_show_words[show]);
    switch (show) {
    case LS_SHOW_TIME:
        add_bars(v, q, name, "Time of training", time, 1, seconds, NULL);
        break;
    case LS_SHOW_ACCURACY:
        add_bars(v, q, name, "Accuracy on test data", accuracy, 1, percent, NULL);
        break;
    case LS_SHOW_COMMUNICATION:
        add_bars(v, q, name, "Where the time of training went", parts, 5, seconds, spent);
        break;
    case LS_SHOW_BANDWIDTH:
        add_bars(v, q, name, "Rate while communicating", rate, 1, mb, NULL);
        break;
    case LS_SHOW_TARGET:
        add_bars(v, q, name, "Time to the target, since the start", target, 1, seconds, NULL);
        break;
    case LS_SHOW_PREDICTED:
        add_bars(v, q, name, "A step, predicted and measured", steps, 2, ms, NULL);
        break;
    case LS_SHOW_SPEEDUP:
        ls__lab_speedup_figure(v, q);
        break;
    case LS_SHOW_CURVES:
        add_curves(v, q);
        break;
    case LS_SHOW_RESOURCES:
        add_resources(v, q);
        break;
    case LS_SHOW_HASH:
    case LS_SHOW_NODES:
    case LS_N_SHOWS:
        break;
    }
}
