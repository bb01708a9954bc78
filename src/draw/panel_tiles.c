/* panel_tiles.c: small images in rows, each with its text below: a contact sheet. */
#include "draw/panel.h"
#include "draw/text.h"

#include <math.h>

enum { GAP_BETWEEN = 6, TEXT_ROOM = 18, MAX_COLUMNS = 64 };

struct grid {
    int n_columns, n_rows;
    double w, h, row; /* of a tile; from row to row */
};

/* The first tile with pixels says how high all are. */
static struct grid grid_of(const struct ls_draw_panel *panel, double width)
{
    struct grid g = {.n_columns = panel->n_columns < 1             ? 8
                                  : panel->n_columns > MAX_COLUMNS ? MAX_COLUMNS
                                                                   : panel->n_columns};
    double ratio = 1;
    bool has_text = false;
    for (int i = panel->n_tiles - 1; i >= 0; i--) {
        const struct ls_draw_tile *tile = &panel->tiles[i];
        if (tile->pixels && tile->w > 0 && tile->h > 0) ratio = (double)tile->h / tile->w;
        has_text |= tile->text && *tile->text;
    }
    g.n_rows = (panel->n_tiles + g.n_columns - 1) / g.n_columns;
    g.w = fmax((width - (g.n_columns - 1) * (double)GAP_BETWEEN) / g.n_columns, 1);
    g.h = g.w * ratio;
    g.row = g.h + (has_text ? TEXT_ROOM : 0) + GAP_BETWEEN;
    return g;
}

double ls__tiles_height(const struct ls_draw_panel *panel, double width)
{
    struct grid g = grid_of(panel, width);
    return g.n_rows * g.row;
}

enum ls_status ls__panel_tiles(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box)
{
    const struct grid g = grid_of(panel, box.w);
    const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = LS_SMALL_TEXT};
    for (int i = 0; i < panel->n_tiles; i++) {
        const struct ls_draw_tile *tile = &panel->tiles[i];
        const int row = i / g.n_columns;
        const double x = box.x + i % g.n_columns * (g.w + GAP_BETWEEN), y = box.y + row * g.row;
        char text[LS_LABEL_BYTES], tip[LS_LABEL_BYTES];
        if (!tile->pixels || tile->w < 1 || tile->h < 1) continue;
        ls__text_clean(text, sizeof text, tile->text);
        p->ops->tip(p, ls__text_clean(tip, sizeof tip, tile->tip ? tile->tip : tile->text));
        p->ops->image(p, x, y, g.w, g.h, tile);
        p->ops->end_tip(p);
        ls__text_fit(text, g.w, LS_SMALL_TEXT, false);
        if (text[0]) p->ops->text(p, (struct ls_point){x, y + g.h + 13}, text, &style);
    }
    return LS_OK;
}
