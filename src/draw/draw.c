/* draw.c: a picture: title and note, then panels in a grid; see draw.h. */
#include "draw/draw.h"

#include "base/file.h"
#include "draw/panel.h"
#include "draw/text.h"

#include <math.h>
#include <string.h>

enum { PADDING = 22, GAP = 26, MAX_PANELS = 256 };
#define LARGEST_SIDE 8000.0 /* of a PNG cairo makes 32767 pixels at most */

struct layout {
    double width, height, padding, top; /* top: where panels begin */
    int n_columns;
    struct ls_box boxes[MAX_PANELS];
    struct ls_margins margins[MAX_PANELS];
};

static double column_width(const struct layout *l)
{
    return (l->width - 2 * l->padding - (l->n_columns - 1) * (double)GAP) / l->n_columns;
}

static int span_of(const struct ls_draw_panel *panel, int n_columns)
{
    return panel->n_span < 1 ? 1 : panel->n_span > n_columns ? n_columns : panel->n_span;
}

/* One row of panels from `first` on; returns the first of the next. */
static int lay_row(struct layout *l, const struct ls_draw_picture *picture, int first, double *y)
{
    double height = 0, one = column_width(l);
    int column = 0, i = first;
    for (; i < picture->n_panels; i++) {
        int span = span_of(&picture->panels[i], l->n_columns);
        if (column + span > l->n_columns) break;
        double w = span * one + (span - 1) * (double)GAP;
        l->boxes[i] = (struct ls_box){l->padding + column * (one + GAP), *y, w, 0};
        height = fmax(height, ls__panel_height(&picture->panels[i], w));
        column += span;
    }
    for (int k = first; k < i; k++) l->boxes[k].h = height;
    *y += height + GAP * 0.7;
    return i;
}

static bool is_same(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

/* Panels below each other begin at the same place; where they are over the same thing they end there too. */
static void align(struct layout *l, const struct ls_draw_picture *picture)
{
    struct ls_margins own[MAX_PANELS];
    for (int i = 0; i < picture->n_panels; i++) own[i] = ls__panel_margins(&picture->panels[i], l->boxes[i]);
    for (int i = 0; i < picture->n_panels; i++) {
        struct ls_margins *all = &l->margins[i];
        all->left = picture->left;
        for (int k = 0; k < picture->n_panels; k++) {
            if (l->boxes[k].x != l->boxes[i].x || l->boxes[k].w != l->boxes[i].w) continue;
            all->left = fmax(all->left, own[k].left);
            if (is_same(picture->panels[k].x.label, picture->panels[i].x.label))
                all->right = fmax(all->right, own[k].right);
        }
    }
}

static void lay_out(struct layout *l, const struct ls_draw_picture *picture)
{
    l->width = picture->width > 0 ? fmin(fmax(picture->width, 120), LARGEST_SIDE) : 900;
    l->padding = picture->is_part ? 2 : PADDING;
    l->n_columns = picture->n_columns < 1 ? 1 : picture->n_columns > 8 ? 8 : picture->n_columns;
    double y = l->padding;
    if (picture->title && *picture->title) y += 26;
    if (picture->note && *picture->note)
        y += 6 + LS_NOTE_LINE *
                     ls__draw_lines(NULL, picture->note, 0, 0, l->width - 2 * l->padding, LS_TEXT_SIZE, LS_INK_FAINT);
    if (y > l->padding) y += 6;
    l->top = y;
    for (int i = 0; i < picture->n_panels;) i = lay_row(l, picture, i, &y);
    align(l, picture);
    l->height = fmin(fmax(y - GAP * 0.7, l->top) + l->padding, LARGEST_SIDE);
}

static enum ls_status draw_all(struct ls_painter *p, const struct ls_draw_picture *picture, const struct layout *l)
{
    double y = l->padding;
    if (!picture->is_part) p->ops->box(p, 0.5, 0.5, l->width - 1, l->height - 1, 8, LS_INK_BACK, 1, LS_INK_EDGE);
    if (picture->title && *picture->title) {
        const struct ls_text_style style = {.ink = LS_INK_TEXT, .size = 17, .is_bold = true};
        char title[LS_LABEL_BYTES];
        ls__text_fit(ls__text_clean(title, sizeof title, picture->title), l->width - 2 * l->padding, 17, true);
        p->ops->text(p, (struct ls_point){l->padding, y + 15}, title, &style);
        y += 26;
    }
    if (picture->note && *picture->note)
        ls__draw_lines(p, picture->note, l->padding, y + 13, l->width - 2 * l->padding, LS_TEXT_SIZE, LS_INK_FAINT);
    for (int i = 0; i < picture->n_panels; i++) TRY(ls__panel_draw(p, &picture->panels[i], l->boxes[i], l->margins[i]));
    return LS_OK;
}

void ls__draw_size(const struct ls_draw_picture *picture, double *width, double *height)
{
    struct layout l = {0};
    lay_out(&l, picture);
    *width = l.width;
    *height = l.height;
}

enum ls_status ls__draw_onto(struct ls_painter *p, const struct ls_draw_picture *picture)
{
    struct layout l = {0};
    lay_out(&l, picture);
    return draw_all(p, picture, &l);
}

enum ls_status ls_draw_format_of(const char *path, enum ls_draw_format *out)
{
    static const char *const endings[] = {[LS_DRAW_SVG] = ".svg", [LS_DRAW_PNG] = ".png", [LS_DRAW_PDF] = ".pdf"};
    size_t len = strlen(path);
    for (int i = 0; i < 3; i++) {
        if (len <= 4 || strcmp(path + len - 4, endings[i]) != 0) continue;
        *out = (enum ls_draw_format)i;
        return LS_OK;
    }
    return ls_fail(LS_USAGE, "%s: expected the name of a picture, ending in .svg, .png or .pdf", path);
}

enum ls_status ls_draw_can(enum ls_draw_format format)
{
    return format == LS_DRAW_SVG ? LS_OK : ls__cairo_load();
}

enum ls_status ls_draw_can_write(const char *path)
{
    enum ls_draw_format format;
    TRY(ls_draw_format_of(path, &format));
    return ls_draw_can(format);
}

enum ls_status ls_draw(const struct ls_draw_picture *picture, enum ls_draw_format format, struct ls_buf *out)
{
    struct layout l = {0};
    char title[LS_LABEL_BYTES];
    if (picture->n_panels < 0 || picture->n_panels > MAX_PANELS)
        return ls_fail(LS_DATA, "a picture of %d panels: expected at most %d", picture->n_panels, MAX_PANELS);
    TRY(ls_draw_can(format));
    lay_out(&l, picture);
    struct ls_painter p = {.ops = format == LS_DRAW_SVG ? &ls__svg_painter : &ls__cairo_painter,
                           .out = out,
                           .width = l.width,
                           .height = l.height,
                           .zoom = picture->zoom > 0 ? fmin(picture->zoom, 4) : 2,
                           .theme = picture->theme,
                           .format = format,
                           .is_part = picture->is_part};
    const char *said = picture->title && *picture->title ? picture->title
                       : picture->n_panels > 0           ? picture->panels[0].title
                                                         : NULL;
    p.ops->begin(&p, ls__text_clean(title, sizeof title, said));
    enum ls_status status = draw_all(&p, picture, &l);
    enum ls_status finished = p.ops->finish(&p);
    return status != LS_OK ? status : finished;
}

enum ls_status ls_draw_write(const struct ls_draw_picture *picture, const char *path)
{
    enum ls_draw_format format;
    struct ls_buf b = LS_BUF_INIT;
    TRY(ls_draw_format_of(path, &format));
    enum ls_status status = ls_draw(picture, format, &b);
    const struct ls_piece piece = {b.text, b.len};
    if (status == LS_OK) status = ls__file_write_atomic(path, &piece, 1, LS_IO);
    ls__buf_release(&b);
    return status;
}
