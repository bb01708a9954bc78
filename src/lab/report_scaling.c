/* report_scaling.c: speed-ups over workers as a picture: a line for each training in a band of what its repeats would
 * say, and what would be ideal (report_impl.h). Of the ideal each number of workers has one value, the largest of the
 * trainings that have it: what a training computes with is workers times threads, at most the cores that they share.
 */
#include "lab/report_impl.h"

#include <math.h>
#include <string.h>

struct point {
    double x, y, low, high, ideal;
};

/* Runs of a training: the one with the fewest workers, and those that are compared with it. */
struct family {
    const char *label;
    struct point *points; /* [n] by workers */
    size_t n;
};

static void add_point(struct family *f, struct point p)
{
    size_t at = f->n++;
    for (; at > 0 && f->points[at - 1].x > p.x; at--) f->points[at] = f->points[at - 1];
    f->points[at] = p;
}

/* Whether a name is `stem`, or that and more behind a dash. */
static bool begins_with(const char *name, const char *stem, size_t len)
{
    return strncmp(name, stem, len) == 0 && (name[len] == '\0' || name[len] == '-');
}

/* What the names of all its runs begin with, up to a dash: "strong" of "strong-1", "strong-2"; else the first's. */
static const char *label_of(const struct ls_lab_view *v, const struct ls_lab_question *q, int first)
{
    const char *name = v->lab->runs[first].name;
    for (size_t len = strlen(name); len > 0; len--) {
        bool is_common = name[len] == '\0' || name[len] == '-';
        for (int i = 0; is_common && i < q->n_runs; i++)
            if (ls__lab_reference(v, q, q->runs[i]) == first)
                is_common = begins_with(v->lab->runs[q->runs[i]].name, name, len);
        if (is_common) return ls__page_format(v->p, "%.*s", (int)len, name);
    }
    return name;
}

static void find_family(const struct ls_lab_view *v, const struct ls_lab_question *q, int first, struct family *f)
{
    struct ls_spread one = ls__lab_spread(v, first, LS_LAB_RATE);
    *f = (struct family){.points = ls__page_alloc(v->p, (size_t)q->n_runs + 1, sizeof *f->points)};
    if (!f->points) return;
    f->label = label_of(v, q, first);
    add_point(f, (struct point){ls__lab_workers(v, first), 1, 1, 1, 1});
    for (int i = 0; i < q->n_runs; i++) {
        struct ls_spread rate = ls__lab_spread(v, q->runs[i], LS_LAB_RATE);
        if (ls__lab_reference(v, q, q->runs[i]) != first || rate.n == 0) continue;
        add_point(f, (struct point){ls__lab_workers(v, q->runs[i]), rate.median / one.median, rate.low / one.high,
                                    rate.high / one.low, ls__lab_units(v, q->runs[i]) / ls__lab_units(v, first)});
    }
}

static void draw_family(const struct ls_lab_view *v, const struct family *f, struct ls_draw_series *out)
{
    double *x = ls__page_alloc(v->p, f->n, sizeof *x), *y = ls__page_alloc(v->p, f->n, sizeof *y),
           *low = ls__page_alloc(v->p, f->n, sizeof *low), *high = ls__page_alloc(v->p, f->n, sizeof *high);
    bool has_spread = false;
    if (!x || !y || !low || !high) return;
    for (size_t k = 0; k < f->n; k++) {
        x[k] = f->points[k].x;
        y[k] = f->points[k].y;
        low[k] = f->points[k].low;
        high[k] = f->points[k].high;
        has_spread |= low[k] < high[k];
    }
    *out = (struct ls_draw_series){.label = f->label, .n = f->n, .x = x, .y = y, .has_points = true};
    if (has_spread) out->low = low, out->high = high;
}

/* Its numbers of workers into those of all, each once. */
static void add_ideal(struct family *all, const struct family *f)
{
    for (size_t k = 0; k < f->n; k++) {
        size_t at = 0;
        while (at < all->n && all->points[at].x != f->points[k].x) at++;
        if (at == all->n)
            add_point(all, (struct point){.x = f->points[k].x, .y = f->points[k].ideal});
        else
            all->points[at].y = fmax(all->points[at].y, f->points[k].ideal);
    }
}

void ls__lab_speedup_figure(const struct ls_lab_view *v, const struct ls_lab_question *q)
{
    const size_t most = (size_t)q->n_runs;
    struct ls_draw_series *series = ls__page_alloc(v->p, most + 1, sizeof *series);
    struct ls_draw_panel *panel = ls__page_alloc(v->p, 1, sizeof *panel);
    struct ls_draw_picture *picture = ls__page_alloc(v->p, 1, sizeof *picture);
    struct family ideal = {.label = "ideal", .points = ls__page_alloc(v->p, 2 * most, sizeof *ideal.points)};
    double top = 0;
    int n = 0;
    if (!series || !panel || !picture || !ideal.points) return;
    for (int i = 0; i < q->n_runs; i++) {
        struct family f = {0};
        bool is_first = false;
        for (int k = 0; k < q->n_runs; k++) is_first |= ls__lab_reference(v, q, q->runs[k]) == q->runs[i];
        if (is_first) find_family(v, q, q->runs[i], &f);
        if (f.n < 2) continue;
        for (size_t k = 0; k < f.n; k++) top = fmax(top, f.points[k].high);
        draw_family(v, &f, &series[n++]);
        add_ideal(&ideal, &f);
    }
    if (n == 0) return;
    for (size_t k = 0; k < ideal.n; k++) top = fmax(top, ideal.points[k].y);
    draw_family(v, &ideal, &series[n]);
    series[n].mode = LS_DRAW_IDEAL;
    series[n].has_points = false;
    *panel = (struct ls_draw_panel){.title = "Speed-up over the fewest workers of the same training",
                                    .x = {.label = "workers", .ticks = series[n].x, .n_ticks = (int)ideal.n},
                                    .y = {.is_given = true, .from = 0, .to = 1.05 * top},
                                    .series = series,
                                    .n_series = n + 1,
                                    .has_legend = n > 2};
    *picture = (struct ls_draw_picture){.panels = panel, .n_panels = 1, .n_columns = 1};
    ls__page_figure(v->p, ls__page_format(v->p, "%s-speed-up", q->id), picture);
}
