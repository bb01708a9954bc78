/* compare.c: pictures of groups of runs: what they are depends on what differs. */
#include "report/parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Groups that differ in the main factor only, in its order. */
struct line {
    const char *label;
    int groups[LS_MAX_RUNS], n;
};

static bool is_of_line(const struct ls_groups *g, const struct ls_group *a, const struct ls_group *b)
{
    for (int f = 0; f < g->n_factors; f++)
        if (f != g->main && strcmp(a->values[f], b->values[f]) != 0) return false;
    return true;
}

static const char *line_label(struct ls_page *p, const struct ls_groups *g, const struct ls_group *group)
{
    const char *label = NULL;
    for (int f = 0; f < g->n_factors && f < 4; f++) {
        if (f == g->main) continue;
        const char *value = group->values[f][0] ? group->values[f] : "none";
        const char *part = ls__page_format(p, "%s %.40s", g->factors[f].name, value);
        label = label ? ls__page_format(p, "%s, %s", label, part) : part;
    }
    return label;
}

static int find_lines(struct ls_page *p, const struct ls_groups *g, struct line *lines, int max)
{
    int n = 0;
    for (int k = 0; k < g->n_groups; k++) {
        int i = 0;
        while (i < n && !is_of_line(g, &g->groups[lines[i].groups[0]], &g->groups[k])) i++;
        if (i == max) continue;
        if (i == n) lines[n++] = (struct line){.label = line_label(p, g, &g->groups[k])};
        lines[i].groups[lines[i].n++] = k;
    }
    return n;
}

enum { MOST_LINES = 8 };

/* How a group's value is made of its measure: as it is, or against the line's first group. */
enum relation { AS_IT_IS, SPEED_UP, EFFICIENCY };

static double related(const struct ls_groups *g, const struct line *line, int k, enum ls_measure m, enum relation how,
                      double value)
{
    const struct ls_group *first = &g->groups[line->groups[0]], *group = &g->groups[line->groups[k]];
    if (how == AS_IT_IS) return value;
    double speed_up = value / first->measures[m].mean;
    return how == SPEED_UP ? speed_up : speed_up * first->numbers[g->main] / group->numbers[g->main];
}

static void make_series(struct ls_page *p, const struct ls_groups *g, const struct line *line, enum ls_measure m,
                        enum relation how, struct ls_draw_series *out)
{
    size_t n = (size_t)line->n;
    double *x = ls__page_alloc(p, n, sizeof *x), *y = ls__page_alloc(p, n, sizeof *y),
           *low = ls__page_alloc(p, n, sizeof *low), *high = ls__page_alloc(p, n, sizeof *high);
    if (!x || !y || !low || !high) return;
    bool has_spread = false;
    for (int k = 0; k < line->n; k++) {
        const struct ls_group *group = &g->groups[line->groups[k]];
        const struct ls_stats *s = &group->measures[m];
        x[k] = group->numbers[g->main];
        y[k] = related(g, line, k, m, how, s->mean);
        low[k] = related(g, line, k, m, how, s->low);
        high[k] = related(g, line, k, m, how, s->high);
        has_spread |= s->n > 1;
    }
    *out = (struct ls_draw_series){.label = line->label, .n = n, .x = x, .y = y, .has_points = true};
    if (has_spread) out->low = low, out->high = high;
}

/* The values of the main factor: ticks stand there. */
static int x_values(struct ls_page *p, const struct ls_groups *g, const double **out)
{
    double *values = ls__page_alloc(p, (size_t)g->n_groups, sizeof *values);
    int n = 0;
    for (int k = 0; values && k < g->n_groups; k++)
        if (n == 0 || values[n - 1] != g->groups[k].numbers[g->main]) values[n++] = g->groups[k].numbers[g->main];
    *out = values;
    return n;
}

static struct ls_draw_axis main_axis(struct ls_page *p, const struct ls_groups *g)
{
    struct ls_draw_axis axis = {.label = g->factors[g->main].name};
    int n = x_values(p, g, &axis.ticks);
    bool is_positive = n > 0 && axis.ticks && axis.ticks[0] > 0;
    axis.n_ticks = n;
    if (is_positive && axis.ticks[n - 1] / axis.ticks[0] >= 4) axis.scale = LS_DRAW_LOG2;
    return axis;
}

static bool has_measure(const struct ls_groups *g, enum ls_measure m)
{
    int n = 0;
    for (int k = 0; k < g->n_groups; k++) n += isfinite(g->groups[k].measures[m].mean);
    return n > 1;
}

static const struct {
    const char *title;
    struct ls_draw_axis axis;
} measures[LS_N_MEASURES] = {
    [LS_MEASURE_ACCURACY] = {"Accuracy on test data", {.unit = LS_DRAW_PERCENT}},
    [LS_MEASURE_RATE] = {"Speed", {.suffix = "images/s", .has_zero = true}},
    [LS_MEASURE_SECONDS] = {"Time in training", {.unit = LS_DRAW_SECONDS, .has_zero = true}},
    [LS_MEASURE_EXPOSED] = {"Exposed communication", {.unit = LS_DRAW_PERCENT, .has_zero = true}},
    [LS_MEASURE_MEMORY] = {"Peak memory", {.unit = LS_DRAW_BYTES, .has_zero = true}},
};

static struct ls_draw_picture *picture_of(struct ls_page *p, struct ls_draw_panel *panels, int n, int n_columns)
{
    struct ls_draw_picture *picture = n ? ls__page_alloc(p, 1, sizeof *picture) : NULL;
    if (picture) *picture = (struct ls_draw_picture){.panels = panels, .n_panels = n, .n_columns = n_columns};
    return picture;
}

/* One panel over the main factor. has_ideal: a line of what would be perfect. */
static bool add_panel(struct ls_page *p, const struct ls_groups *g, const struct line *lines, int n_lines,
                      enum ls_measure m, enum relation how, struct ls_draw_panel *out)
{
    struct ls_draw_series *series = ls__page_alloc(p, (size_t)n_lines + 1, sizeof *series);
    if (!series || !has_measure(g, m)) return false;
    for (int i = 0; i < n_lines; i++) make_series(p, g, &lines[i], m, how, &series[i]);
    *out = (struct ls_draw_panel){.title = how == SPEED_UP     ? "Speed-up"
                                           : how == EFFICIENCY ? "Efficiency"
                                                               : measures[m].title,
                                  .x = main_axis(p, g),
                                  .y = measures[m].axis,
                                  .series = series,
                                  .n_series = n_lines};
    if (how == AS_IT_IS) return true;
    double *ends = ls__page_alloc(p, 4, sizeof *ends);
    if (!ends) return false;
    ends[0] = out->x.ticks[0];
    ends[1] = out->x.ticks[out->x.n_ticks - 1];
    ends[2] = 1;
    ends[3] = how == SPEED_UP ? ends[1] / ends[0] : 1;
    out->y = how == SPEED_UP ? (struct ls_draw_axis){.suffix = "times", .has_zero = true}
                             : (struct ls_draw_axis){.unit = LS_DRAW_PERCENT, .has_zero = true};
    if (how == SPEED_UP && ends[3] <= 4) { /* few: the ideal line fits */
        out->y.is_given = true;
        out->y.to = ends[3];
        for (int i = 0; i < n_lines; i++)
            for (size_t k = 0; k < series[i].n; k++)
                out->y.to = fmax(out->y.to, isfinite(series[i].y[k]) ? series[i].y[k] : 0);
    }
    if (out->x.scale == LS_DRAW_LOG2 && how == SPEED_UP)
        out->y = (struct ls_draw_axis){.suffix = "times", .scale = LS_DRAW_LOG2};
    series[n_lines] =
        (struct ls_draw_series){.label = "ideal", .mode = LS_DRAW_IDEAL, .n = 2, .x = ends, .y = ends + 2};
    out->n_series++;
    return true;
}

/* Over workers, threads, batch sizes, rates: curves. */
static void add_curves(struct ls_page *p, const struct ls_groups *g)
{
    struct line *lines = ls__page_alloc(p, MOST_LINES, sizeof *lines);
    struct ls_draw_panel *panels = ls__page_alloc(p, 4, sizeof *panels);
    const char *name = g->factors[g->main].name;
    bool is_scaling = strcmp(name, "workers") == 0 || strcmp(name, "threads") == 0;
    int n = 0;
    if (!lines || !panels) return;
    int n_lines = find_lines(p, g, lines, MOST_LINES);
    if (is_scaling) {
        if (g->is_same_work) n += add_panel(p, g, lines, n_lines, LS_MEASURE_SECONDS, AS_IT_IS, &panels[n]);
        n += add_panel(p, g, lines, n_lines, LS_MEASURE_RATE, SPEED_UP, &panels[n]);
        n += add_panel(p, g, lines, n_lines, LS_MEASURE_RATE, EFFICIENCY, &panels[n]);
    } else {
        n += add_panel(p, g, lines, n_lines, LS_MEASURE_ACCURACY, AS_IT_IS, &panels[n]);
        n += add_panel(p, g, lines, n_lines, LS_MEASURE_RATE, AS_IT_IS, &panels[n]);
    }
    for (int i = 0; i < n; i++) panels[i].has_legend = n_lines > 1 && panels[i].n_series > 2;
    ls__page_figure(p, "main", picture_of(p, panels, n, n > 2 ? 3 : 2));
}

/* Groups side by side, with whiskers over repeats. */
static void add_bars(struct ls_page *p, const struct ls_groups *g)
{
    static const enum ls_measure shown[] = {LS_MEASURE_RATE, LS_MEASURE_ACCURACY};
    struct ls_draw_panel *panels = ls__page_alloc(p, 2, sizeof *panels);
    size_t n_groups = (size_t)g->n_groups;
    const char **names = ls__page_alloc(p, n_groups, sizeof *names);
    int n = 0;
    for (size_t k = 0; names && k < n_groups; k++) names[k] = g->groups[k].label;
    for (int i = 0; panels && names && i < 2; i++) {
        enum ls_measure m = shown[i];
        double *values = ls__page_alloc(p, 3 * n_groups, sizeof *values);
        struct ls_draw_series *series = ls__page_alloc(p, 1, sizeof *series);
        bool has_spread = false;
        if (!values || !series || !has_measure(g, m)) continue;
        for (size_t k = 0; k < n_groups; k++) {
            const struct ls_stats *s = &g->groups[k].measures[m];
            values[k] = s->mean, values[n_groups + k] = s->low, values[2 * n_groups + k] = s->high;
            has_spread |= s->n > 1;
        }
        *series = (struct ls_draw_series){.n = n_groups, .y = values, .colour = i + 1};
        if (has_spread) series->low = values + n_groups, series->high = values + 2 * n_groups;
        panels[n++] = (struct ls_draw_panel){.kind = LS_DRAW_BARS,
                                             .title = measures[m].title,
                                             .y = measures[m].axis,
                                             .series = series,
                                             .n_series = 1,
                                             .names = names};
    }
    ls__page_figure(p, "main", picture_of(p, panels, n, g->n_groups > 8 ? 1 : 2));
}

/* Compute against communication and the rest, stacked: means over the repeats. */
static void add_split(struct ls_page *p, const struct ls_groups *g)
{
    enum { LAST = LS_N_SPLIT - 2 }; /* setup and the rest together: the palette has eight colours */
    static const int colours[LS_N_SPLIT - 1] = {1, 6, 2, 4, 5, 3, 8, 7};
    struct ls_draw_panel *panel = ls__page_alloc(p, 1, sizeof *panel);
    struct ls_draw_series *series = ls__page_alloc(p, LS_N_SPLIT, sizeof *series);
    size_t n_groups = (size_t)g->n_groups;
    const char **names = ls__page_alloc(p, n_groups, sizeof *names);
    int n = 0;
    if (!panel || !series || !names) return;
    for (size_t k = 0; k < n_groups; k++) names[k] = g->groups[k].label;
    for (int part = 0; part < LS_N_SPLIT - 1; part++) {
        double *values = ls__page_alloc(p, n_groups, sizeof *values), most = 0;
        for (size_t k = 0; values && k < n_groups; k++) {
            double each[LS_MAX_RUNS];
            for (int i = 0; i < g->groups[k].n_runs; i++) {
                const struct ls_history *h = g->runs[g->groups[k].runs[i]];
                each[i] = ls__split_seconds(h, part) + (part == LAST ? ls__split_seconds(h, LAST + 1) : 0);
            }
            values[k] = ls__stats(each, g->groups[k].n_runs).mean;
            most = fmax(most, isfinite(values[k]) ? values[k] : 0);
        }
        if (most > 0)
            series[n++] = (struct ls_draw_series){.label = part == LAST ? "setup, other" : ls__split_names[part],
                                                  .n = n_groups,
                                                  .y = values,
                                                  .colour = colours[part]};
    }
    if (n == 0) return;
    *panel = (struct ls_draw_panel){.kind = LS_DRAW_BARS,
                                    .title = "Where the time went",
                                    .y = {.label = "time", .unit = LS_DRAW_SECONDS},
                                    .series = series,
                                    .n_series = n,
                                    .names = names,
                                    .is_stacked = true};
    ls__page_figure(p, "time", picture_of(p, panel, 1, 1));
}

void ls__compare_figures(struct ls_page *p, const struct ls_groups *g)
{
    if (g->n_groups > 1) {
        bool is_line = g->main >= 0 && g->factors[g->main].is_numeric &&
                       g->groups[0].numbers[g->main] != g->groups[g->n_groups - 1].numbers[g->main];
        if (is_line)
            add_curves(p, g);
        else
            add_bars(p, g);
        add_split(p, g);
    }
}

/* --- the report of several runs --- */

static void add_table(struct ls_page *p, const struct ls_groups *g, const char *const *labels)
{
    enum { FIXED = 7 };
    const char *cells[FIXED + LS_MAX_FACTORS];
    static const char *const heads[FIXED] = {"run",      "seed",        "test accuracy", "time",
                                             "images/s", "peak memory", "weights"};
    int n = 0;
    cells[n++] = heads[0];
    for (int f = 0; f < g->n_factors; f++) cells[n++] = g->factors[f].name;
    for (int i = 1; i < FIXED; i++) cells[n++] = heads[i];
    ls__page_row(p, cells, n);
    for (int k = 0; k < g->n_groups; k++)
        for (int i = 0; i < g->groups[k].n_runs; i++) {
            int run = g->groups[k].runs[i];
            const struct ls_history *h = g->runs[run];
            const char *hash = ls_history_text(h, "weights_hash");
            n = 0;
            cells[n++] = labels[run];
            for (int f = 0; f < g->n_factors; f++) cells[n++] = g->groups[k].values[f];
            cells[n++] = ls__say_value(p, h, "options.seed");
            cells[n++] = ls__say_percent(p, ls__measure_of(h, LS_MEASURE_ACCURACY), 2);
            cells[n++] = ls__say_seconds(p, ls__measure_of(h, LS_MEASURE_SECONDS));
            cells[n++] = ls__say_count(p, ls__measure_of(h, LS_MEASURE_RATE));
            cells[n++] = ls__say_bytes(p, ls__measure_of(h, LS_MEASURE_MEMORY));
            cells[n++] = hash ? ls__page_format(p, "%.8s", hash) : ls_history_state_word(h);
            ls__page_row(p, cells, n);
        }
}

static const char *what_differs(struct ls_page *p, const struct ls_groups *g)
{
    const char *text = NULL;
    for (int f = 0; f < g->n_factors; f++)
        text = text ? ls__page_format(p, "%s, %s", text, g->factors[f].name) : g->factors[f].name;
    return text;
}

void ls__report_several(struct ls_page *p, struct ls_history *const *runs, int n, const struct ls_report_options *o)
{
    struct ls_groups *g = ls__page_alloc(p, 1, sizeof *g);
    const char **labels = ls__page_alloc(p, (size_t)n, sizeof *labels);
    if (!g || !labels) return;
    for (int i = 0; i < n; i++)
        labels[i] = ls__page_format(p, "%s", o->labels && o->labels[i] ? o->labels[i] : ls_history_name(runs[i]));
    ls__groups_make(p, g, runs, n);
    if (p->status != LS_OK) return;
    const char *differs = what_differs(p, g);
    bool is_one_model = true;
    for (int i = 1; i < n; i++) is_one_model &= strcmp(ls__say_run(p, runs[i]), ls__say_run(p, runs[0])) == 0;
    p->title = is_one_model ? ls__page_format(p, "%s: %d runs compared", ls__say_run(p, runs[0]), n)
                            : ls__page_format(p, "%d runs compared", n);
    p->note =
        differs ? ls__page_format(p, "What differs: %s", differs) : "The runs have the same options: they are repeats.";
    ls__page_heading(p, "Findings");
    ls__compare_findings(p, g);
    if (g->n_groups > 1) ls__page_heading(p, "Side by side");
    ls__compare_figures(p, g);
    ls__page_heading(p, "Curves");
    ls__page_tab(p, "curves", "over time", ls__figure_together(p, runs, n, labels, LS_OVER_SECONDS));
    ls__page_tab(p, "curves", "over steps", ls__figure_together(p, runs, n, labels, LS_OVER_STEPS));
    ls__page_tab(p, "curves", "over epochs", ls__figure_together(p, runs, n, labels, LS_OVER_EPOCHS));
    if (n > 24) ls__page_note(p, "The first 24 of %d runs are drawn.", n);
    ls__page_heading(p, "Runs");
    add_table(p, g, labels);
    if (!o->command_of) return;
    ls__page_heading(p, "How to reproduce the first");
    char *command = o->command_of(runs[0]);
    if (command) ls__page_code(p, command);
    free(command);
}
