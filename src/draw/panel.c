/* panel.c: title, legend and note of a panel, and the kind's own part between them. */
#include "draw/panel.h"

#include "draw/text.h"

#include <math.h>
#include <stdio.h>

enum ls_ink ls__series_ink(const struct ls_draw_panel *panel, int i)
{
    const struct ls_draw_series *s = &panel->series[i];
    if (s->mode == LS_DRAW_IDEAL && s->colour <= 0) return LS_INK_AXIS;
    int colour = s->colour > 0 ? s->colour - 1 : i;
    return (enum ls_ink)(LS_INK_SERIES + colour % LS_N_PALETTE);
}

/* The palette's second time round is dashed. */
enum ls_dash ls__series_dash(const struct ls_draw_panel *panel, int i)
{
    static const enum ls_dash dashes[] = {LS_DASH_NONE, LS_DASH_SHORT, LS_DASH_MIXED, LS_DASH_LONG};
    const struct ls_draw_series *s = &panel->series[i];
    if (s->mode == LS_DRAW_IDEAL) return LS_DASH_DOTS;
    int colour = s->colour > 0 ? s->colour - 1 : i;
    return dashes[colour / LS_N_PALETTE % 4];
}

static int n_labels(const struct ls_draw_panel *panel)
{
    int n = 0;
    for (int i = 0; i < panel->n_series; i++) n += panel->series[i].label && *panel->series[i].label;
    return n;
}

bool ls__panel_has_legend(const struct ls_draw_panel *panel, double width)
{
    int n = n_labels(panel);
    if (n == 0 || panel->kind == LS_DRAW_HEAT || panel->kind == LS_DRAW_TILES) return false;
    if (panel->kind != LS_DRAW_XY) return n > 1;
    return panel->has_legend || width < 260 || n > 14;
}

/* Names with a piece of their line, in rows. p NULL: only counts. Returns the rows. */
static int draw_legend(struct ls_painter *p, const struct ls_draw_panel *panel, double left, double y, double width)
{
    double x = left;
    int rows = 1;
    for (int i = 0; i < panel->n_series; i++) {
        char name[LS_LABEL_BYTES];
        ls__text_clean(name, sizeof name, panel->series[i].label);
        if (!name[0]) continue;
        ls__text_fit(name, width - 30, LS_SMALL_TEXT, false);
        double w = 22 + ls__text_width(name, LS_SMALL_TEXT, false);
        if (x > left && x + w > left + width) {
            x = left;
            rows++;
        }
        double middle = y + (rows - 1) * LS_LEGEND_ROOM;
        if (p && panel->kind == LS_DRAW_XY) {
            const struct ls_point line[] = {{x, middle - 4}, {x + 16, middle - 4}};
            if (panel->series[i].mode == LS_DRAW_POINTS)
                p->ops->dot(p, (struct ls_point){x + 8, middle - 4}, 3.5, ls__series_ink(panel, i), LS_INK_NONE, 1);
            else
                p->ops->line(p, line, 2, ls__series_ink(panel, i), 2.5, ls__series_dash(panel, i), 1);
        } else if (p) {
            p->ops->box(p, x + 2, middle - 10, 12, 12, 2, ls__series_ink(panel, i), 1, LS_INK_NONE);
        }
        const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = LS_SMALL_TEXT};
        if (p) p->ops->text(p, (struct ls_point){x + 22, middle}, name, &style);
        x += w + 18;
    }
    return rows;
}

/* What surrounds the kind's own part. */
struct room {
    double above, below;
    int legend_rows;
};

static struct room room_of(const struct ls_draw_panel *panel, double width)
{
    struct room r = {0};
    if (panel->title && *panel->title) r.above += LS_TITLE_ROOM;
    if (ls__panel_has_legend(panel, width)) {
        r.legend_rows = draw_legend(NULL, panel, 0, 0, width);
        r.above += r.legend_rows * LS_LEGEND_ROOM;
    }
    if (panel->note && *panel->note)
        r.below = 6 + LS_NOTE_LINE * ls__draw_lines(NULL, panel->note, 0, 0, width, LS_SMALL_TEXT, LS_INK_FAINT);
    return r;
}

double ls__panel_height(const struct ls_draw_panel *panel, double width)
{
    struct room r = room_of(panel, width);
    if (panel->height > 0) return fmax(panel->height, r.above + r.below + 80);
    double own = panel->kind == LS_DRAW_BARS    ? ls__bars_height(panel)
                 : panel->kind == LS_DRAW_HEAT  ? ls__heat_height(panel, width)
                 : panel->kind == LS_DRAW_TILES ? ls__tiles_height(panel, width)
                                                : 236;
    return r.above + own + r.below;
}

static struct ls_box own_box(struct ls_box box, struct room r)
{
    return (struct ls_box){box.x, box.y + r.above, box.w, box.h - r.above - r.below};
}

struct ls_margins ls__panel_margins(const struct ls_draw_panel *panel, struct ls_box box)
{
    if (panel->kind != LS_DRAW_XY) return (struct ls_margins){0};
    return ls__xy_margins(panel, own_box(box, room_of(panel, box.w)));
}

enum ls_status ls__panel_draw(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box,
                              struct ls_margins least)
{
    struct room r = room_of(panel, box.w);
    double y = box.y;
    if (panel->title && *panel->title) {
        const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = 13.5, .is_bold = true};
        char title[LS_LABEL_BYTES];
        ls__text_fit(ls__text_clean(title, sizeof title, panel->title), box.w, 13.5, true);
        p->ops->text(p, (struct ls_point){box.x, y + 14}, title, &style);
        y += LS_TITLE_ROOM;
    }
    if (r.legend_rows) draw_legend(p, panel, box.x, y + 13, box.w);
    const struct ls_box own = own_box(box, r);
    if (r.below > 0) ls__draw_lines(p, panel->note, box.x, own.y + own.h + 16, box.w, LS_SMALL_TEXT, LS_INK_FAINT);
    switch (panel->kind) {
    case LS_DRAW_XY:
        return ls__panel_xy(p, panel, own, least);
    case LS_DRAW_BARS:
    case LS_DRAW_COLUMNS:
        return ls__panel_bars(p, panel, own);
    case LS_DRAW_HEAT:
        return ls__panel_heat(p, panel, own);
    case LS_DRAW_TILES:
        return ls__panel_tiles(p, panel, own);
    }
    return LS_OK;
}
