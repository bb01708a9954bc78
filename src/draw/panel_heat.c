/* panel_heat.c: a table of numbers as shades, made for confusion matrices: rows are what is true, columns what was
 * said.
 *
 * The square root of the share is what the eye gets: one in a hundred can be seen. In a square table that is shaded by
 * row, the diagonal (right) and the rest (wrong) have different colours.
 */
#include "draw/panel.h"
#include "draw/text.h"

#include <math.h>
#include <stdio.h>

enum { LARGEST_TABLE = 1024 };

struct heat {
    struct ls_painter *p;
    const struct ls_draw_panel *panel;
    double x, y, cell; /* the table's corner */
    double left, above;
    bool is_upright; /* names of columns */
};

static void name_of(const struct ls_draw_panel *panel, int i, char *out, size_t size)
{
    if (panel->names)
        ls__text_clean(out, size, panel->names[i]);
    else
        snprintf(out, size, "%d", i);
}

static double widest_name(const struct ls_draw_panel *panel, int n)
{
    double widest = 0;
    for (int i = 0; i < n; i++) {
        char name[LS_LABEL_BYTES];
        name_of(panel, i, name, sizeof name);
        widest = fmax(widest, ls__text_width(name, LS_SMALL_TEXT, false));
    }
    return fmin(widest, 140);
}

static bool is_possible(const struct ls_draw_panel *panel)
{
    return panel->cells && panel->n_rows > 0 && panel->n_columns > 0 && panel->n_rows <= LARGEST_TABLE &&
           panel->n_columns <= LARGEST_TABLE;
}

/* Where things are, in a box so wide; height: 0 if it is to follow. */
static void fit(struct heat *h, double width, double height)
{
    const struct ls_draw_panel *panel = h->panel;
    double rows = widest_name(panel, panel->n_rows), columns = widest_name(panel, panel->n_columns);
    h->left = rows + 12 + (panel->y.label ? LS_LABEL_ROOM : 0);
    h->cell = fmin((width - h->left - 4) / panel->n_columns, 46);
    h->is_upright = columns + 4 > h->cell;
    h->above = (h->is_upright ? columns : 12) + 10 + (panel->x.label ? LS_LABEL_ROOM : 0);
    if (height > 0) h->cell = fmin(h->cell, (height - h->above - 4) / panel->n_rows);
    if (h->cell < 1) h->cell = 1;
}

double ls__heat_height(const struct ls_draw_panel *panel, double width)
{
    struct heat h = {.panel = panel};
    if (!is_possible(panel)) return 120;
    fit(&h, width, 0);
    return h.above + h.cell * panel->n_rows + 8;
}

static double cell_at(const struct ls_draw_panel *panel, int r, int c)
{
    return panel->cells[(size_t)r * (size_t)panel->n_columns + (size_t)c];
}

/* What the shade of a cell is a share of: its row's sum, or the largest cell. */
static double sum_of_row(const struct ls_draw_panel *panel, int row)
{
    double sum = 0;
    for (int c = 0; c < panel->n_columns; c++) {
        double v = cell_at(panel, row, c);
        if (isfinite(v) && v > 0) sum += v;
    }
    return sum;
}

static double largest_of(const struct ls_draw_panel *panel)
{
    double most = 0;
    for (int r = 0; r < panel->n_rows; r++)
        for (int c = 0; c < panel->n_columns; c++)
            if (isfinite(cell_at(panel, r, c))) most = fmax(most, cell_at(panel, r, c));
    return most;
}

static void cell_text(double v, char *out, size_t size)
{
    if (v == floor(v) && fabs(v) < 1e5)
        snprintf(out, size, "%.0f", v);
    else if (fabs(v) >= 1e4)
        snprintf(out, size, "%.0fk", v / 1e3);
    else
        snprintf(out, size, "%.2f", v);
}

static void draw_cell(const struct heat *h, int r, int c, double whole)
{
    const struct ls_draw_panel *panel = h->panel;
    double v = cell_at(panel, r, c);
    double x = h->x + c * h->cell, y = h->y + r * h->cell, gap = h->cell >= 8 ? 1 : 0;
    double share = isfinite(v) && whole > 0 && v > 0 ? fmin(v / whole, 1) : 0, alpha = sqrt(share);
    bool is_wrong = panel->is_by_row && panel->n_rows == panel->n_columns && r != c;
    char row[LS_LABEL_BYTES], column[LS_LABEL_BYTES], text[40], tip[2 * LS_LABEL_BYTES + 100];
    if (!(share > 0) && h->cell < 14) return;
    name_of(panel, r, row, sizeof row);
    name_of(panel, c, column, sizeof column);
    cell_text(v, text, sizeof text);
    snprintf(tip, sizeof tip, "%s, %s: %s%s", row, column, isfinite(v) ? text : "no value", "");
    if (panel->is_by_row && whole > 0)
        snprintf(tip, sizeof tip, "%s, %s: %s (%.1f %% of its row)", row, column, text, 100 * share);
    h->p->ops->tip(h->p, tip);
    if (share > 0)
        h->p->ops->box(h->p, x, y, h->cell - gap, h->cell - gap, 0, (enum ls_ink)(LS_INK_SERIES + is_wrong),
                       0.06 + 0.94 * alpha, LS_INK_NONE);
    else
        h->p->ops->box(h->p, x, y, h->cell - gap, h->cell - gap, 0, LS_INK_GRID, 0.5, LS_INK_NONE);
    double size = fmin(LS_SMALL_TEXT, h->cell * 0.42);
    if (v != 0 && isfinite(v) && size >= 7 && ls__text_width(text, size, false) < h->cell - 2) {
        const struct ls_text_style style = {
            .ink = alpha > 0.55 ? LS_INK_BACK : LS_INK_TEXT, .size = size, .anchor = LS_ANCHOR_MIDDLE};
        h->p->ops->text(h->p, (struct ls_point){x + (h->cell - gap) / 2, y + h->cell / 2 + size * 0.35}, text, &style);
    }
    h->p->ops->end_tip(h->p);
}

static void draw_names(const struct heat *h)
{
    const struct ls_draw_panel *panel = h->panel;
    int every = (int)ceil(13 / h->cell);
    char name[LS_LABEL_BYTES];
    for (int r = 0; r < panel->n_rows; r += every) {
        const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = LS_SMALL_TEXT, .anchor = LS_ANCHOR_END};
        name_of(panel, r, name, sizeof name);
        ls__text_fit(name, 140, LS_SMALL_TEXT, false);
        h->p->ops->text(h->p, (struct ls_point){h->x - 7, h->y + (r + 0.5) * h->cell + 4}, name, &style);
    }
    for (int c = 0; c < panel->n_columns; c += h->is_upright ? every : 1) {
        const struct ls_text_style style = {.ink = LS_INK_TEXT,
                                            .size = LS_SMALL_TEXT,
                                            .is_upright = h->is_upright,
                                            .anchor = h->is_upright ? LS_ANCHOR_START : LS_ANCHOR_MIDDLE};
        name_of(panel, c, name, sizeof name);
        ls__text_fit(name, 140, LS_SMALL_TEXT, false);
        double x = h->x + (c + 0.5) * h->cell + (h->is_upright ? 4 : 0);
        h->p->ops->text(h->p, (struct ls_point){x, h->y - 7}, name, &style);
    }
}

enum ls_status ls__panel_heat(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box)
{
    struct heat h = {.p = p, .panel = panel};
    char name[LS_LABEL_BYTES];
    if (!is_possible(panel)) {
        const struct ls_text_style style = {.ink = LS_INK_FAINT, .anchor = LS_ANCHOR_MIDDLE};
        p->ops->text(p, (struct ls_point){box.x + box.w / 2, box.y + box.h / 2}, "no values", &style);
        return LS_OK;
    }
    double largest = largest_of(panel);
    fit(&h, box.w, box.h);
    h.x = box.x + h.left;
    h.y = box.y + h.above;
    draw_names(&h);
    for (int r = 0; r < panel->n_rows; r++) {
        double whole = panel->is_by_row ? sum_of_row(panel, r) : largest;
        for (int c = 0; c < panel->n_columns; c++) draw_cell(&h, r, c, whole);
    }
    const struct ls_text_style style = {.ink = LS_INK_FAINT, .size = LS_SMALL_TEXT};
    const struct ls_text_style upright = {
        .ink = LS_INK_FAINT, .size = LS_SMALL_TEXT, .is_upright = true, .anchor = LS_ANCHOR_END};
    if (panel->x.label)
        p->ops->text(p, (struct ls_point){h.x, box.y + 11}, ls__text_clean(name, sizeof name, panel->x.label), &style);
    if (panel->y.label)
        p->ops->text(p, (struct ls_point){box.x + 10, h.y}, ls__text_clean(name, sizeof name, panel->y.label),
                     &upright);
    return LS_OK;
}
