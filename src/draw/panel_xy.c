/* panel_xy.c: curves and points over two axes.
 *
 * From back to front: tints and grid, bands, marks, lines in reverse order (the first series is the most important and
 * lies on top), points, names at the lines' ends.
 */
#include "base/mem.h"
#include "draw/panel.h"
#include "draw/text.h"
#include "draw/thin.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LABEL_GAP 15.0

struct xy {
    struct ls_painter *p;
    const struct ls_draw_panel *panel;
    struct ls_box plot;
    struct ls_scale sx, sy;
};

/* --- the frame --- */

static void ranges_of(const struct ls_draw_panel *panel, struct ls_range *rx, struct ls_range *ry)
{
    *rx = *ry = (struct ls_range){INFINITY, -INFINITY};
    for (int i = 0; i < panel->n_series; i++) {
        const struct ls_draw_series *s = &panel->series[i];
        const double ends[] = {0, s->n > 0 ? (double)(s->n - 1) : 0};
        if (s->n == 0) continue;
        if (s->x)
            ls__range_add(rx, &panel->x, s->x, s->n);
        else
            ls__range_add(rx, &panel->x, ends, 2);
        if (s->mode == LS_DRAW_IDEAL) continue; /* perfection must not make the rest small */
        ls__range_add(ry, &panel->y, s->y, s->n);
        ls__range_add(ry, &panel->y, s->low, s->n);
        ls__range_add(ry, &panel->y, s->high, s->n);
    }
    for (int i = 0; i < panel->n_levels; i++) ls__range_add(ry, &panel->y, &panel->levels[i].at, 1);
}

/* A little more than the text needs: it is measured for the regular face. */
static double label_width(const struct ls_draw_panel *panel, double at_most)
{
    double widest = 0;
    for (int i = 0; i < panel->n_series; i++) {
        char name[LS_LABEL_BYTES];
        ls__text_clean(name, sizeof name, panel->series[i].label);
        widest = fmax(widest, ls__text_width(name, LS_SMALL_TEXT, true));
    }
    return fmin(widest, at_most);
}

/* Powers of two are short, and people look for each. */
static int n_wanted(const struct ls_draw_axis *axis, double length, double usual)
{
    return (int)(length / (axis->scale == LS_DRAW_LOG2 ? usual * 0.58 : usual));
}

/* Names at the lines' ends. */
static bool has_labels(const struct ls_draw_panel *panel, double width)
{
    return label_width(panel, width) > 0 && !ls__panel_has_legend(panel, width);
}

/* d->plot is as high as it will be. */
static struct ls_margins margins_of(const struct xy *d, double width)
{
    return (struct ls_margins){ls__widest_tick(&d->sy) + 10,
                               has_labels(d->panel, width) ? label_width(d->panel, width * 0.34) + 16 : 10};
}

static void fit(struct xy *d, struct ls_box box, struct ls_margins least)
{
    struct ls_range rx, ry;
    char name[LS_LABEL_BYTES];
    struct ls_draw_axis x_axis = d->panel->x;
    ranges_of(d->panel, &rx, &ry);
    x_axis.is_exact = true;
    d->plot = (struct ls_box){box.x, box.y + 10, box.w, box.h - 10 - LS_TICK_ROOM};
    ls__scale_fit(&d->sy, &d->panel->y, ry, n_wanted(&d->panel->y, d->plot.h, 36), d->plot.y + d->plot.h, d->plot.y);
    ls__axis_name(name, sizeof name, &d->panel->y, &d->sy);
    if (name[0]) d->plot.y += LS_LABEL_ROOM, d->plot.h -= LS_LABEL_ROOM;
    ls__scale_fit(&d->sx, &x_axis, rx, 5, 0, 1);
    ls__axis_name(name, sizeof name, &d->panel->x, &d->sx);
    if (name[0]) d->plot.h -= LS_LABEL_ROOM;
    if (d->plot.h < 20) d->plot.h = 20;
    const struct ls_margins own = margins_of(d, box.w);
    const double left = fmax(own.left, least.left);
    d->plot.x += left;
    d->plot.w = fmax(d->plot.w - left - fmax(own.right, least.right), 20);
    ls__scale_fit(&d->sy, &d->panel->y, ry, n_wanted(&d->panel->y, d->plot.h, 36), d->plot.y + d->plot.h, d->plot.y);
    /* dots at the ends are not cut */
    ls__scale_fit(&d->sx, &x_axis, rx, n_wanted(&d->panel->x, d->plot.w, 75), d->plot.x + 4, d->plot.x + d->plot.w - 4);
}

static void draw_levels(struct xy *d)
{
    for (int i = 0; i < d->panel->n_levels; i++) {
        const struct ls_draw_level *level = &d->panel->levels[i];
        double y = ls__scale_at(&d->sy, level->at), bottom = d->plot.y + d->plot.h;
        if (!(y >= d->plot.y && y <= bottom)) continue;
        const struct ls_point line[] = {{d->plot.x, y}, {d->plot.x + d->plot.w, y}};
        if (level->is_shaded)
            d->p->ops->box(d->p, d->plot.x, y, d->plot.w, bottom - y, 0, LS_INK_BAD, 0.08, LS_INK_NONE);
        d->p->ops->line(d->p, line, 2, LS_INK_FAINT, 1.2, level->is_shaded ? LS_DASH_NONE : LS_DASH_SHORT, 1);
        char text[LS_LABEL_BYTES];
        const struct ls_text_style style = {.ink = level->is_shaded ? LS_INK_BAD : LS_INK_FAINT, .size = LS_SMALL_TEXT};
        ls__text_fit(ls__text_clean(text, sizeof text, level->text), d->plot.w - 12, LS_SMALL_TEXT, false);
        double at = level->is_shaded ? bottom - 8 : y - 5;
        if (text[0]) d->p->ops->text(d->p, (struct ls_point){d->plot.x + 6, at}, text, &style);
    }
}

static void draw_mark(struct xy *d, const struct ls_draw_mark *mark, double *taken)
{
    double x = ls__scale_at(&d->sx, mark->x), bottom = d->plot.y + d->plot.h;
    char text[LS_LABEL_BYTES];
    if (!(x >= d->plot.x - 1 && x <= d->plot.x + d->plot.w + 1)) return;
    const struct ls_point line[] = {{x, d->plot.y}, {x, bottom}};
    const struct ls_point triangle[] = {{x - 4, bottom}, {x + 4, bottom}, {x, bottom - 7}};
    ls__text_clean(text, sizeof text, mark->text);
    if (text[0]) d->p->ops->tip(d->p, text);
    if (mark->kind == LS_DRAW_MARK_CHECKPOINT)
        d->p->ops->area(d->p, triangle, 3, LS_INK_FAINT, 1);
    else
        d->p->ops->line(d->p, line, 2, mark->kind == LS_DRAW_MARK_EPOCH ? LS_INK_AXIS : LS_INK_FAINT, 1, LS_DASH_SHORT,
                        mark->kind == LS_DRAW_MARK_EPOCH ? 0.5 : 1);
    if (text[0]) d->p->ops->end_tip(d->p);
    if (!text[0] || mark->kind == LS_DRAW_MARK_CHECKPOINT) return;
    double room = d->plot.x + d->plot.w - x, width = ls__text_width(text, LS_SMALL_TEXT, false);
    bool is_left = width + 8 > room && x - d->plot.x > room;
    ls__text_fit(text, fmax(is_left ? x - d->plot.x : room, 12) - 8, LS_SMALL_TEXT, false);
    double from = is_left ? x - 5 - width : x + 5;
    if (mark->kind == LS_DRAW_MARK_EPOCH && from < *taken) return;
    const struct ls_text_style style = {
        .ink = LS_INK_FAINT, .size = LS_SMALL_TEXT, .anchor = is_left ? LS_ANCHOR_END : LS_ANCHOR_START};
    d->p->ops->text(d->p, (struct ls_point){is_left ? x - 5 : x + 5, d->plot.y + 11}, text, &style);
    *taken = from + width + 4;
}

/* --- series --- */

static enum ls_status draw_band(struct xy *d, int i)
{
    const struct ls_draw_series *s = &d->panel->series[i];
    struct ls_track low = {0}, high = {0};
    struct ls_point *area = NULL;
    if (!s->low || !s->high || s->mode == LS_DRAW_POINTS) return LS_OK;
    enum ls_status status = ls__track_line(&low, s->x, s->low, s->n, &d->sx, &d->sy);
    if (status == LS_OK) status = ls__track_line(&high, s->x, s->high, s->n, &d->sx, &d->sy);
    if (status == LS_OK) status = ls__calloc(&area, low.n + high.n + 1, sizeof *area);
    if (status == LS_OK && low.n > 1 && high.n > 1) {
        memcpy(area, high.points, high.n * sizeof *area);
        for (size_t k = 0; k < low.n; k++) area[high.n + k] = low.points[low.n - 1 - k];
        d->p->ops->area(d->p, area, low.n + high.n, ls__series_ink(d->panel, i), 0.16);
    }
    free(area);
    ls__track_release(&low);
    ls__track_release(&high);
    return status;
}

/* Points with a corner between: a value holds until the next. */
static enum ls_status draw_stairs(struct xy *d, const struct ls_point *points, size_t n, enum ls_ink ink)
{
    struct ls_point *stairs = NULL;
    TRY(ls__calloc(&stairs, 2 * n, sizeof *stairs));
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0) stairs[k++] = (struct ls_point){points[i].x, points[i - 1].y};
        stairs[k++] = points[i];
    }
    d->p->ops->line(d->p, stairs, k, ink, 2, LS_DASH_NONE, 1);
    free(stairs);
    return LS_OK;
}

static enum ls_status draw_line(struct xy *d, int i)
{
    const struct ls_draw_series *s = &d->panel->series[i];
    enum ls_ink ink = ls__series_ink(d->panel, i);
    struct ls_track t;
    enum ls_status status = ls__track_line(&t, s->x, s->y, s->n, &d->sx, &d->sy);
    double width = (s->mode == LS_DRAW_THIN    ? 0.7
                    : s->mode == LS_DRAW_IDEAL ? 1.6
                                               : 2) +
                   3.0 * (s->behind > 8 ? 8 : s->behind);
    char name[LS_LABEL_BYTES];
    ls__text_clean(name, sizeof name, s->label);
    if (name[0]) d->p->ops->tip(d->p, name);
    for (size_t from = 0, to; status == LS_OK && from < t.n; from = to) {
        for (to = from + 1; to < t.n && !t.is_first[to];) to++;
        if (to - from == 1)
            d->p->ops->dot(d->p, t.points[from], 2.2, ink, LS_INK_NONE, 1);
        else if (s->mode == LS_DRAW_STEPS)
            status = draw_stairs(d, t.points + from, to - from, ink);
        else
            d->p->ops->line(d->p, t.points + from, to - from, ink, width, ls__series_dash(d->panel, i), 1);
    }
    if (name[0]) d->p->ops->end_tip(d->p);
    ls__track_release(&t);
    return status;
}

static void point_tip(struct xy *d, const struct ls_draw_series *s, size_t k, char *out, size_t size)
{
    char x[64], y[64], name[LS_LABEL_BYTES];
    ls__scale_text(&d->sx, s->x ? s->x[k] : (double)k, true, x, sizeof x);
    ls__scale_text(&d->sy, s->y[k], true, y, sizeof y);
    ls__text_clean(name, sizeof name, s->label);
    snprintf(out, size, "%s%s%s at %s", name, name[0] ? ": " : "", y, x);
}

/* Few points: each tells its value, has a whisker and a text. */
static void draw_few_points(struct xy *d, int i)
{
    const struct ls_draw_series *s = &d->panel->series[i];
    enum ls_ink ink = ls__series_ink(d->panel, i);
    for (size_t k = 0; k < s->n; k++) {
        struct ls_point at = {ls__scale_at(&d->sx, s->x ? s->x[k] : (double)k), ls__scale_at(&d->sy, s->y[k])};
        char tip[LS_LABEL_BYTES + 160];
        if (isnan(at.x) || isnan(at.y)) continue;
        double low = s->low ? ls__scale_at(&d->sy, s->low[k]) : NAN,
               high = s->high ? ls__scale_at(&d->sy, s->high[k]) : NAN;
        if (s->mode == LS_DRAW_POINTS && !isnan(low) && !isnan(high)) {
            const struct ls_point whisker[] = {{at.x, low}, {at.x, high}};
            d->p->ops->line(d->p, whisker, 2, ink, 1.4, LS_DASH_NONE, 1);
        }
        point_tip(d, s, k, tip, sizeof tip);
        d->p->ops->tip(d->p, tip);
        d->p->ops->dot(d->p, at, s->mode == LS_DRAW_POINTS ? 4.5 : 3.5, ink, LS_INK_BACK, 1);
        d->p->ops->end_tip(d->p);
        if (!s->texts || !s->texts[k]) continue;
        char text[LS_LABEL_BYTES];
        const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = LS_SMALL_TEXT};
        ls__text_fit(ls__text_clean(text, sizeof text, s->texts[k]), d->plot.w / 2, LS_SMALL_TEXT, false);
        double y = at.y - 18 < d->plot.y ? at.y + 15 : at.y - 6;
        d->p->ops->text(d->p, (struct ls_point){at.x + 8, y}, text, &style);
    }
}

static enum ls_status draw_points(struct xy *d, int i)
{
    enum { FEW = 200 };
    const struct ls_draw_series *s = &d->panel->series[i];
    struct ls_track t;
    if (s->mode != LS_DRAW_POINTS && !s->has_points) return LS_OK;
    if (s->n <= FEW) {
        draw_few_points(d, i);
        return LS_OK;
    }
    TRY(ls__track_points(&t, s->x, s->y, s->n, &d->sx, &d->sy, 2));
    for (size_t k = 0; k < t.n; k++)
        d->p->ops->dot(d->p, t.points[k], 2, ls__series_ink(d->panel, i), LS_INK_NONE, 0.5);
    ls__track_release(&t);
    return LS_OK;
}

static enum ls_status draw_series(struct xy *d)
{
    const struct ls_draw_panel *panel = d->panel;
    double taken = -1e9;
    for (int i = 0; i < panel->n_series; i++) TRY(draw_band(d, i));
    for (int i = 0; i < panel->n_marks; i++) draw_mark(d, &panel->marks[i], &taken);
    for (int i = panel->n_series - 1; i >= 0; i--)
        if (panel->series[i].mode != LS_DRAW_POINTS) TRY(draw_line(d, i));
    for (int i = panel->n_series - 1; i >= 0; i--) TRY(draw_points(d, i));
    return LS_OK;
}

/* --- names at the lines' ends --- */

struct end_label {
    int series;
    struct ls_point end; /* of the line */
    double y;            /* of the name */
};

/* Where an ideal line leaves the plot before its right end: its name stands there. */
static bool leaves_early(const struct xy *d, const struct ls_draw_series *s, struct ls_point *exit)
{
    struct ls_point before = {NAN, NAN};
    for (size_t k = 0; s->mode == LS_DRAW_IDEAL && k < s->n; k++) {
        struct ls_point at = {ls__scale_at(&d->sx, s->x ? s->x[k] : (double)k), ls__scale_at(&d->sy, s->y[k])};
        if (isnan(at.x) || isnan(at.y)) continue;
        if (at.y < d->plot.y && before.y >= d->plot.y) {
            double part = (before.y - d->plot.y) / (before.y - at.y);
            *exit = (struct ls_point){before.x + part * (at.x - before.x), d->plot.y};
            return exit->x < d->plot.x + 0.9 * d->plot.w;
        }
        before = at;
    }
    return false;
}

static bool find_end(const struct xy *d, const struct ls_draw_series *s, struct ls_point *end)
{
    for (size_t k = s->n; k > 0; k--) {
        end->x = ls__scale_at(&d->sx, s->x ? s->x[k - 1] : (double)(k - 1));
        end->y = ls__scale_at(&d->sy, s->y[k - 1]);
        bool is_inside = end->y >= d->plot.y - 0.5 && end->y <= d->plot.y + d->plot.h + 0.5;
        if (!isnan(end->x) && (is_inside || s->mode != LS_DRAW_IDEAL) && !isnan(end->y)) break;
        if (k == 1) return false;
    }
    end->y = fmin(fmax(end->y, d->plot.y), d->plot.y + d->plot.h);
    return s->n > 0;
}

static int by_height(const void *a, const void *b)
{
    const struct end_label *l = a, *r = b;
    if (l->end.y != r->end.y) return l->end.y < r->end.y ? -1 : 1;
    return l->series - r->series;
}

/* Apart from each other, as near to their lines as can be. */
static void spread(struct end_label *labels, int n, double top, double bottom)
{
    for (int i = 0; i < n; i++) {
        labels[i].y = fmax(labels[i].end.y, top);
        if (i > 0) labels[i].y = fmax(labels[i].y, labels[i - 1].y + LABEL_GAP);
    }
    for (int i = n - 1; i >= 0; i--) {
        double limit = i == n - 1 ? bottom : labels[i + 1].y - LABEL_GAP;
        labels[i].y = fmin(labels[i].y, limit);
    }
}

static enum ls_status draw_labels(struct xy *d, double right)
{
    struct end_label *labels = NULL;
    int n = 0;
    TRY(ls__calloc(&labels, (size_t)d->panel->n_series + 1, sizeof *labels));
    for (int i = 0; i < d->panel->n_series; i++) {
        const struct ls_draw_series *s = &d->panel->series[i];
        if (!s->label || !*s->label) continue;
        if (leaves_early(d, s, &labels[n].end)) {
            const struct ls_text_style style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT};
            char name[LS_LABEL_BYTES];
            ls__text_fit(ls__text_clean(name, sizeof name, s->label), right - labels[n].end.x, LS_SMALL_TEXT, false);
            d->p->ops->text(d->p, (struct ls_point){labels[n].end.x + 6, d->plot.y + 11}, name, &style);
            continue;
        }
        if (!find_end(d, s, &labels[n].end)) continue;
        labels[n++].series = i;
    }
    qsort(labels, (size_t)n, sizeof *labels, by_height);
    spread(labels, n, d->plot.y, d->plot.y + d->plot.h);
    for (int i = 0; i < n; i++) {
        char name[LS_LABEL_BYTES];
        double x = d->plot.x + d->plot.w + 6;
        enum ls_ink ink = ls__series_ink(d->panel, labels[i].series);
        bool is_ideal = d->panel->series[labels[i].series].mode == LS_DRAW_IDEAL;
        const struct ls_text_style style = {
            .ink = is_ideal ? LS_INK_FAINT : ink, .size = LS_SMALL_TEXT, .is_bold = !is_ideal};
        const struct ls_point leader[] = {{labels[i].end.x + 4, labels[i].end.y}, {x - 2, labels[i].y}};
        if (leader[1].x - leader[0].x > 10 || fabs(leader[1].y - leader[0].y) > 5)
            d->p->ops->line(d->p, leader, 2, ink, 0.8, LS_DASH_DOTS, 0.8);
        ls__text_fit(ls__text_clean(name, sizeof name, d->panel->series[labels[i].series].label), right - x,
                     LS_SMALL_TEXT, !is_ideal);
        d->p->ops->text(d->p, (struct ls_point){x, labels[i].y + 4}, name, &style);
    }
    free(labels);
    return LS_OK;
}

struct ls_margins ls__xy_margins(const struct ls_draw_panel *panel, struct ls_box box)
{
    struct xy d = {.panel = panel};
    fit(&d, box, (struct ls_margins){0});
    return margins_of(&d, box.w);
}

enum ls_status ls__panel_xy(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box,
                            struct ls_margins least)
{
    struct xy d = {.p = p, .panel = panel};
    fit(&d, box, least);
    struct ls_range rx, ry;
    ranges_of(panel, &rx, &ry);
    if (!(rx.low <= rx.high && ry.low <= ry.high)) {
        const struct ls_text_style style = {.ink = LS_INK_FAINT, .anchor = LS_ANCHOR_MIDDLE};
        p->ops->text(p, (struct ls_point){box.x + box.w / 2, box.y + box.h / 2}, "no values", &style);
        return LS_OK;
    }
    draw_levels(&d);
    ls__axis_left(p, &panel->y, &d.sy, d.plot, box.x);
    p->x = &d.sx, p->y = &d.sy, p->x_name = panel->x.label;
    p->ops->clip(p, d.plot.x - 2, d.plot.y - 6, d.plot.w + 6, d.plot.h + 8);
    enum ls_status status = draw_series(&d);
    p->ops->unclip(p);
    p->x = p->y = NULL, p->x_name = NULL;
    TRY(status);
    ls__axis_below(p, &panel->x, &d.sx, d.plot, false);
    return has_labels(panel, box.w) ? draw_labels(&d, box.x + box.w) : LS_OK;
}
