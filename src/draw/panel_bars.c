/* panel_bars.c: bars, lying (names at the left) or standing (names below), beside or on top of each other.
 *
 * Both are drawn by the same code: `along` is the direction of the values, `across` that of the groups.
 */
#include "draw/panel.h"
#include "draw/text.h"

#include <math.h>
#include <stdio.h>

enum { THICK = 17, GAP = 12 };

struct bars {
    struct ls_painter *p;
    const struct ls_draw_panel *panel;
    struct ls_box plot;
    struct ls_scale s; /* of values */
    bool is_lying;
    size_t n_groups;
    double base;         /* where bars begin, along */
    double pitch, thick; /* from group to group; of a bar */
};

static size_t groups_of(const struct ls_draw_panel *panel)
{
    size_t n = 0;
    for (int i = 0; i < panel->n_series; i++)
        if (panel->series[i].n > n) n = panel->series[i].n;
    return n < 4096 ? n : 4096;
}

static int bars_in_group(const struct ls_draw_panel *panel)
{
    return panel->is_stacked || panel->n_series < 1 ? 1 : panel->n_series;
}

double ls__bars_height(const struct ls_draw_panel *panel)
{
    double group = THICK * bars_in_group(panel) + GAP;
    return (double)groups_of(panel) * group + 14 + LS_TICK_ROOM +
           (panel->y.label || panel->y.suffix || panel->y.unit ? LS_LABEL_ROOM : 0);
}

static struct ls_range range_of(const struct ls_draw_panel *panel, size_t n_groups)
{
    struct ls_range r = {INFINITY, -INFINITY};
    for (size_t g = 0; panel->is_stacked && g < n_groups; g++) {
        double sum = 0;
        for (int i = 0; i < panel->n_series; i++)
            if (g < panel->series[i].n && isfinite(panel->series[i].y[g]) && panel->series[i].y[g] > 0)
                sum += panel->series[i].y[g];
        ls__range_add(&r, &panel->y, &sum, 1);
    }
    for (int i = 0; i < panel->n_series; i++) {
        const struct ls_draw_series *s = &panel->series[i];
        if (!panel->is_stacked) ls__range_add(&r, &panel->y, s->y, s->n);
        ls__range_add(&r, &panel->y, s->high, s->n);
        ls__range_add(&r, &panel->y, s->low, s->n);
        ls__range_add(&r, &panel->y, s->target, s->n);
    }
    for (int i = 0; i < panel->n_levels; i++) ls__range_add(&r, &panel->y, &panel->levels[i].at, 1);
    return r;
}

/* (along, across) on the picture. */
static struct ls_point place(const struct bars *b, double along, double across)
{
    return b->is_lying ? (struct ls_point){along, across} : (struct ls_point){across, along};
}

static void draw_bar(const struct bars *b, double from, double to, double across, double thick, enum ls_ink ink)
{
    double low = fmin(from, to), length = fmax(fabs(to - from), 0.5);
    if (b->is_lying)
        b->p->ops->box(b->p, low, across, length, thick, 0, ink, 1, LS_INK_NONE);
    else
        b->p->ops->box(b->p, across, low, thick, length, 0, ink, 1, LS_INK_NONE);
}

static double kept_inside(const struct bars *b, double along)
{
    double low = fmin(b->s.from, b->s.to), high = fmax(b->s.from, b->s.to);
    return fmin(fmax(along, low), high);
}

static void draw_whisker(const struct bars *b, double low, double high, double middle)
{
    const struct ls_point line[] = {place(b, low, middle), place(b, high, middle)};
    b->p->ops->line(b->p, line, 2, LS_INK_TEXT, 1.2, LS_DASH_NONE, 1);
    for (int i = 0; i < 2; i++) {
        double along = i ? high : low;
        const struct ls_point cap[] = {place(b, along, middle - 3), place(b, along, middle + 3)};
        b->p->ops->line(b->p, cap, 2, LS_INK_TEXT, 1.2, LS_DASH_NONE, 1);
    }
}

/* At the end of a bar: its text, else its value. `end`: along. */
static void draw_value(const struct bars *b, const struct ls_draw_series *s, size_t g, double end, double across)
{
    char text[LS_LABEL_BYTES];
    const struct ls_text_style style = {
        .ink = LS_INK_TEXT, .size = LS_SMALL_TEXT, .anchor = b->is_lying ? LS_ANCHOR_START : LS_ANCHOR_MIDDLE};
    if (s->texts)
        ls__text_clean(text, sizeof text, s->texts[g]);
    else
        ls__scale_text(&b->s, s->y[g], b->panel->y.unit == LS_DRAW_PERCENT, text, sizeof text); /* the axis has it */
    if (b->is_lying) {
        b->p->ops->text(b->p, (struct ls_point){end + 6, across + b->thick / 2 + 4}, text, &style);
        return;
    }
    ls__text_fit(text, fmax(b->thick, b->pitch / bars_in_group(b->panel)), LS_SMALL_TEXT, false);
    b->p->ops->text(b->p, (struct ls_point){across + b->thick / 2, end > b->base ? end + 13 : end - 5}, text, &style);
}

static void tip_of(const struct bars *b, const struct ls_draw_series *s, size_t g)
{
    char name[LS_LABEL_BYTES], group[LS_LABEL_BYTES], value[64], tip[2 * LS_LABEL_BYTES + 80];
    ls__text_clean(name, sizeof name, s->label);
    ls__text_clean(group, sizeof group, b->panel->names ? b->panel->names[g] : "");
    ls__scale_text(&b->s, s->y[g], true, value, sizeof value);
    snprintf(tip, sizeof tip, "%s%s%s: %s", group, group[0] && name[0] ? ", " : "", name, value);
    b->p->ops->tip(b->p, tip);
}

/* Its whisker, if it has one; returns where that ends, else NAN. */
static double draw_spread(const struct bars *b, const struct ls_draw_series *s, size_t g, double across)
{
    const double low = s->low ? ls__scale_at(&b->s, s->low[g]) : NAN,
                 high = s->high ? ls__scale_at(&b->s, s->high[g]) : NAN;
    if (isnan(low) || isnan(high)) return NAN;
    draw_whisker(b, kept_inside(b, low), kept_inside(b, high), across + b->thick / 2);
    return kept_inside(b, high);
}

static void draw_beside(const struct bars *b, size_t g, double across)
{
    for (int i = 0; i < b->panel->n_series; i++, across += b->thick) {
        const struct ls_draw_series *s = &b->panel->series[i];
        double at = g < s->n ? ls__scale_at(&b->s, s->y[g]) : NAN;
        if (isnan(at)) {
            if (g < s->n && s->texts) draw_value(b, s, g, b->base, across);
            continue;
        }
        double end = kept_inside(b, at);
        tip_of(b, s, g);
        draw_bar(b, b->base, end, across + 1, b->thick - 2, ls__series_ink(b->panel, i));
        b->p->ops->end_tip(b->p);
        const double high = draw_spread(b, s, g, across);
        if (!isnan(high)) end = b->is_lying ? fmax(end, high) : fmin(end, high);
        double target = s->target ? ls__scale_at(&b->s, s->target[g]) : NAN;
        if (!isnan(target)) {
            target = kept_inside(b, target);
            const struct ls_point mark[] = {place(b, target, across - 1), place(b, target, across + b->thick + 1)};
            b->p->ops->line(b->p, mark, 2, LS_INK_TEXT, 2.4, LS_DASH_NONE, 1);
            if (b->is_lying && target > end - 4 && target < end + 70) end = target;
        }
        draw_value(b, s, g, end, across);
    }
}

static void draw_stack(const struct bars *b, size_t g, double across)
{
    double sum = 0;
    for (int i = 0; i < b->panel->n_series; i++) {
        const struct ls_draw_series *s = &b->panel->series[i];
        if (g >= s->n || !isfinite(s->y[g]) || s->y[g] <= 0) continue;
        double from = kept_inside(b, ls__scale_at(&b->s, sum)), to = kept_inside(b, ls__scale_at(&b->s, sum + s->y[g]));
        tip_of(b, s, g);
        draw_bar(b, from, to, across + 1, b->thick - 2, ls__series_ink(b->panel, i));
        b->p->ops->end_tip(b->p);
        sum += s->y[g];
        if (!s->texts || !s->texts[g]) continue;
        char text[LS_LABEL_BYTES];
        ls__text_clean(text, sizeof text, s->texts[g]);
        double room = b->is_lying ? fabs(to - from) : b->thick;
        if (ls__text_width(text, LS_SMALL_TEXT, false) + 6 > room || fabs(to - from) < 14) continue;
        const struct ls_text_style style = {.ink = LS_INK_BACK, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_MIDDLE};
        struct ls_point at = place(b, (from + to) / 2, across + b->thick / 2);
        b->p->ops->text(b->p, (struct ls_point){at.x, at.y + 4}, text, &style);
    }
    for (int i = 0; i < b->panel->n_series; i++)
        if (g < b->panel->series[i].n) (void)draw_spread(b, &b->panel->series[i], g, across);
}

static void group_name(const struct bars *b, size_t g, char *out, size_t size)
{
    if (b->panel->names)
        ls__text_clean(out, size, b->panel->names[g]);
    else
        snprintf(out, size, "%zu", g + 1);
}

static void draw_name(const struct bars *b, size_t g, double across, double room, double *taken)
{
    char name[LS_LABEL_BYTES];
    double middle = across + b->thick * bars_in_group(b->panel) / 2;
    group_name(b, g, name, sizeof name);
    if (b->is_lying) {
        const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_END};
        ls__text_fit(name, room, LS_SMALL_TEXT, false);
        b->p->ops->text(b->p, (struct ls_point){b->plot.x - 8, middle + 4}, name, &style);
        return;
    }
    const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_MIDDLE};
    ls__text_fit(name, fmax(b->pitch - 4, 40), LS_SMALL_TEXT, false);
    double half = ls__text_width(name, LS_SMALL_TEXT, false) / 2;
    if (middle - half < *taken) return;
    b->p->ops->text(b->p, (struct ls_point){middle, b->plot.y + b->plot.h + 17}, name, &style);
    *taken = middle + half + 4;
}

static void draw_levels(const struct bars *b)
{
    for (int i = 0; i < b->panel->n_levels; i++) {
        const struct ls_draw_level *level = &b->panel->levels[i];
        double at = ls__scale_at(&b->s, level->at);
        char text[LS_LABEL_BYTES];
        if (isnan(at) || at != kept_inside(b, at)) continue;
        double from = b->is_lying ? b->plot.y : b->plot.x, to = b->is_lying ? from + b->plot.h : from + b->plot.w;
        const struct ls_point line[] = {place(b, at, from), place(b, at, to)};
        b->p->ops->line(b->p, line, 2, LS_INK_FAINT, 1.2, LS_DASH_SHORT, 1);
        const struct ls_text_style style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT};
        ls__text_fit(ls__text_clean(text, sizeof text, level->text), b->plot.w / 2, LS_SMALL_TEXT, false);
        if (text[0] && !b->is_lying) b->p->ops->text(b->p, (struct ls_point){b->plot.x + 6, at - 5}, text, &style);
        if (text[0] && b->is_lying) b->p->ops->text(b->p, (struct ls_point){at + 5, b->plot.y + 1}, text, &style);
    }
}

/* At the right of lying bars: their longest text. */
static double text_room(const struct bars *b)
{
    double widest = 30;
    for (int i = 0; !b->panel->is_stacked && i < b->panel->n_series; i++)
        for (size_t g = 0; g < b->panel->series[i].n && g < b->n_groups; g++) {
            char text[LS_LABEL_BYTES] = "00.00 000";
            if (b->panel->series[i].texts) ls__text_clean(text, sizeof text, b->panel->series[i].texts[g]);
            widest = fmax(widest, ls__text_width(text, LS_SMALL_TEXT, false));
        }
    return widest + 12;
}

static double fit(struct bars *b, struct ls_box box)
{
    struct ls_range r = range_of(b->panel, b->n_groups);
    struct ls_draw_axis axis = b->panel->y;
    double name_room = 0;
    char name[LS_LABEL_BYTES];
    axis.has_zero = true;
    for (size_t g = 0; g < b->n_groups; g++) {
        group_name(b, g, name, sizeof name);
        name_room = fmax(name_room, ls__text_width(name, LS_SMALL_TEXT, false));
    }
    name_room = fmin(name_room, box.w * 0.35);
    int n_bars = bars_in_group(b->panel);
    if (b->is_lying) {
        double below = LS_TICK_ROOM + (axis.label || axis.suffix || axis.unit ? LS_LABEL_ROOM : 0);
        double right = fmin(text_room(b), box.w * 0.3);
        b->plot = (struct ls_box){box.x + name_room + 10, box.y + 8, box.w - name_room - 10 - right, box.h - 8 - below};
        ls__scale_fit(&b->s, &axis, r, (int)(b->plot.w / 75), b->plot.x, b->plot.x + b->plot.w);
        b->pitch = b->plot.h / (double)b->n_groups;
    } else {
        double bottom = box.y + box.h - LS_TICK_ROOM - (b->panel->x.label ? LS_LABEL_ROOM : 0),
               top = box.y + 14 + LS_LABEL_ROOM;
        ls__scale_fit(&b->s, &axis, r, (int)((bottom - top) / 42), bottom, top);
        double left = ls__widest_tick(&b->s) + 10;
        b->plot = (struct ls_box){box.x + left, top, fmax(box.w - left - 6, 20), fmax(bottom - top, 20)};
        b->pitch = b->plot.w / (double)b->n_groups;
    }
    b->thick = fmin((b->pitch - fmin(GAP, b->pitch * 0.3)) / n_bars, b->is_lying ? 22 : 64);
    double zero = ls__scale_at(&b->s, 0);
    b->base = isnan(zero) ? b->s.from : kept_inside(b, zero);
    return name_room;
}

enum ls_status ls__panel_bars(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box)
{
    struct bars b = {.p = p, .panel = panel, .is_lying = panel->kind == LS_DRAW_BARS, .n_groups = groups_of(panel)};
    double taken = -1e9;
    if (b.n_groups == 0) {
        const struct ls_text_style style = {.ink = LS_INK_FAINT, .anchor = LS_ANCHOR_MIDDLE};
        p->ops->text(p, (struct ls_point){box.x + box.w / 2, box.y + box.h / 2}, "no values", &style);
        return LS_OK;
    }
    double room = fit(&b, box);
    if (b.is_lying)
        ls__axis_below(p, &panel->y, &b.s, b.plot, true);
    else
        ls__axis_left(p, &panel->y, &b.s, b.plot, box.x);
    for (size_t g = 0; g < b.n_groups; g++) {
        double start = (b.is_lying ? b.plot.y : b.plot.x) + b.pitch * (double)g;
        double across = start + (b.pitch - b.thick * bars_in_group(panel)) / 2;
        draw_name(&b, g, across, room, &taken);
        if (panel->is_stacked)
            draw_stack(&b, g, across);
        else
            draw_beside(&b, g, across);
    }
    draw_levels(&b);
    const struct ls_point axis[] = {place(&b, b.base, b.is_lying ? b.plot.y : b.plot.x),
                                    place(&b, b.base, b.is_lying ? b.plot.y + b.plot.h : b.plot.x + b.plot.w)};
    p->ops->line(p, axis, 2, LS_INK_AXIS, 1, LS_DASH_NONE, 1);
    if (b.is_lying || !panel->x.label) return LS_OK;
    char name[LS_LABEL_BYTES];
    const struct ls_text_style style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_END};
    ls__text_fit(ls__text_clean(name, sizeof name, panel->x.label), b.plot.w, LS_SMALL_TEXT, false);
    p->ops->text(p, (struct ls_point){b.plot.x + b.plot.w, b.plot.y + b.plot.h + 33}, name, &style);
    return LS_OK;
}
