/* curves.c: runs in one picture, made to show that they coincide: earlier runs are wide and pale, later ones lie on
 * them. */
#include "report/parts.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_same_curve(const struct ls_curve *a, const struct ls_curve *b)
{
    static const char *const names[] = {"step", "epoch", "loss", "accuracy", "lr"};
    if (!a || !b) return a == b;
    if (a->n != b->n) return false;
    for (size_t k = 0; k < sizeof names / sizeof names[0]; k++) {
        const double *x = ls_curve_values(a, names[k]), *y = ls_curve_values(b, names[k]);
        if ((x == NULL) != (y == NULL)) return false;
        for (size_t i = 0; x && i < a->n; i++)
            if (x[i] != y[i] && !(isnan(x[i]) && isnan(y[i]))) return false;
    }
    return true;
}

/* All that the runs logged, timing apart. */
static bool is_same_log(const struct ls_history *a, const struct ls_history *b)
{
    static const char *const splits[] = {"train", "epoch", "test"};
    for (size_t i = 0; i < sizeof splits / sizeof splits[0]; i++)
        if (!is_same_curve(ls_history_curve(a, splits[i]), ls_history_curve(b, splits[i]))) return false;
    return true;
}

static const char *verdict(struct ls_page *p, struct ls_history *const *runs, int n)
{
    const char *hash = ls_history_text(runs[0], "weights_hash");
    bool is_same_metrics = true, is_same_weights = hash != NULL;
    for (int i = 1; i < n; i++) {
        const char *other = ls_history_text(runs[i], "weights_hash");
        is_same_metrics &= is_same_log(runs[0], runs[i]);
        is_same_weights = is_same_weights && other && strcmp(hash, other) == 0;
    }
    if (n == 1) return hash ? ls__page_format(p, "weights hash %s", hash) : NULL;
    const char *metrics = is_same_metrics ? "all logged values are equal" : "logged values differ";
    return is_same_weights ? ls__page_format(p, "%d runs, %s, one hash of the weights: %s", n, metrics, hash)
                           : ls__page_format(p, "%d runs, %s, the weights differ", n, metrics);
}

/* Of several that coincide the first is on top. */
static void layer(struct ls_draw_panel *panel)
{
    struct ls_draw_series *series = (struct ls_draw_series *)panel->series;
    for (int i = 0; i < panel->n_series; i++) {
        series[i].has_points = false;
        series[i].behind = i;
    }
}

enum ls_status ls_report_curves(struct ls_history *const *runs, int n, const char *const *labels, const char *title,
                                const struct ls_draw_mark *marks, int n_marks, const char *path)
{
    struct ls_page *p = NULL;
    enum ls_status status = LS_OK;
    TRY(ls__calloc(&p, 1, sizeof *p));
    const char **names = ls__page_alloc(p, (size_t)n, sizeof *names);
    for (int i = 0; names && i < n; i++) names[i] = labels && labels[i] ? labels[i] : ls_history_name(runs[i]);
    const struct ls_draw_picture *made = names ? ls__figure_together(p, runs, n, names, LS_OVER_STEPS) : NULL;
    if (p->status == LS_OK && !made)
        status = ls_fail(LS_DATA, "%s has no metrics to draw (was --log-every 0?)", ls_history_dir(runs[0]));
    if (made) {
        struct ls_draw_picture picture = *made;
        struct ls_draw_panel panels[2];
        memcpy(panels, made->panels, (size_t)made->n_panels * sizeof *panels);
        for (int i = 0; i < made->n_panels; i++) {
            panels[i].marks = marks;
            panels[i].n_marks = n_marks;
            panels[i].has_legend = n > 1;
            panels[i].height = 0;
            layer(&panels[i]);
        }
        picture.panels = panels;
        picture.title = title;
        picture.note = verdict(p, runs, n);
        status = p->status == LS_OK ? ls_draw_write(&picture, path) : p->status;
    }
    if (status == LS_OK) status = p->status;
    ls__arena_release(&p->memory);
    free(p);
    return status;
}
