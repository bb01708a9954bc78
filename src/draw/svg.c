/* svg.c: the painter that writes SVG. Colours are classes of one style sheet, so that a picture follows the page from
 * light to dark; a picture outside a page brings the sheet along.
 *
 * Numbers have one decimal: a tenth of a unit cannot be seen, and files stay small.
 */
#include "base/png.h"
#include "draw/painter.h"
#include "draw/scale.h"
#include "draw/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* "12.3", "12": no trailing zero. */
static void add_number(struct ls_buf *b, double value)
{
    long tenths = lround(value * 10);
    if (tenths % 10 == 0)
        ls__buf_addf(b, "%ld", tenths / 10);
    else
        ls__buf_addf(b, "%s%ld.%ld", tenths < 0 ? "-" : "", labs(tenths) / 10, labs(tenths) % 10);
}

static void add_attribute(struct ls_buf *b, const char *name, double value)
{
    ls__buf_addf(b, " %s=\"", name);
    add_number(b, value);
    ls__buf_adds(b, "\"");
}

static void add_alpha(struct ls_buf *b, const char *name, double alpha)
{
    if (alpha < 1) ls__buf_addf(b, " %s=\"%.2f\"", name, alpha);
}

static void add_inks(struct ls_buf *b, bool is_dark)
{
    for (int i = LS_INK_BACK; i < LS_N_INKS; i++) {
        unsigned rgb = ls__ink_rgb((enum ls_ink)i, is_dark);
        ls__buf_addf(b, ".lsf%d{fill:#%06x}.lsk%d{stroke:#%06x}", i, rgb, i, rgb);
    }
    ls__buf_adds(b, "\n");
}

void ls_draw_style(struct ls_buf *out, enum ls_draw_theme theme)
{
    ls__buf_adds(out, ".ls{font-family:system-ui,-apple-system,\"Segoe UI\",\"Helvetica Neue\",Arial,sans-serif}"
                      ".ls text{white-space:pre}\n");
    add_inks(out, theme == LS_DRAW_DARK);
    if (theme != LS_DRAW_AUTO) return;
    ls__buf_adds(out, "@media screen and (prefers-color-scheme:dark){");
    add_inks(out, true);
    ls__buf_adds(out, "}\n");
}

static void svg_begin(struct ls_painter *p, const char *title)
{
    ls__buf_adds(p->out, "<svg class=\"ls\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ");
    add_number(p->out, p->width);
    ls__buf_adds(p->out, " ");
    add_number(p->out, p->height);
    ls__buf_adds(p->out, "\"");
    if (!p->is_part) {
        add_attribute(p->out, "width", p->width);
        add_attribute(p->out, "height", p->height);
    }
    ls__buf_adds(p->out, " role=\"img\">\n<title>");
    ls__text_escape(p->out, title);
    ls__buf_adds(p->out, "</title>\n");
    if (p->is_part) return;
    ls__buf_adds(p->out, "<style>");
    ls_draw_style(p->out, p->theme);
    ls__buf_adds(p->out, "</style>\n");
}

static void add_path(struct ls_buf *b, const struct ls_point *points, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        ls__buf_adds(b, i == 0 ? "M" : i == 1 ? "L" : " ");
        add_number(b, points[i].x);
        ls__buf_adds(b, " ");
        add_number(b, points[i].y);
    }
}

static void svg_line(struct ls_painter *p, const struct ls_point *points, size_t n, enum ls_ink ink, double width,
                     enum ls_dash dash, double alpha)
{
    ls__buf_addf(p->out, "<path fill=\"none\" class=\"lsk%d\"", ink);
    if (fabs(width - 1) > 1e-9) add_attribute(p->out, "stroke-width", width);
    add_alpha(p->out, "stroke-opacity", alpha);
    if (dash != LS_DASH_NONE) {
        ls__buf_adds(p->out, " stroke-dasharray=\"");
        for (int i = 0; i < 4 && ls__dashes[dash][i] > 0; i++)
            ls__buf_addf(p->out, "%s%g", i ? " " : "", ls__dashes[dash][i]);
        ls__buf_adds(p->out, "\"");
    }
    if (n > 2) ls__buf_adds(p->out, " stroke-linejoin=\"round\" stroke-linecap=\"round\"");
    ls__buf_adds(p->out, " d=\"");
    add_path(p->out, points, n);
    ls__buf_adds(p->out, "\"/>\n");
}

static void svg_area(struct ls_painter *p, const struct ls_point *points, size_t n, enum ls_ink ink, double alpha)
{
    ls__buf_addf(p->out, "<path class=\"lsf%d\"", ink);
    add_alpha(p->out, "fill-opacity", alpha);
    ls__buf_adds(p->out, " d=\"");
    add_path(p->out, points, n);
    ls__buf_adds(p->out, "Z\"/>\n");
}

static void add_classes(struct ls_buf *b, enum ls_ink ink, enum ls_ink edge)
{
    if (ink == LS_INK_NONE)
        ls__buf_addf(b, " fill=\"none\" class=\"lsk%d\"", edge);
    else if (edge == LS_INK_NONE)
        ls__buf_addf(b, " class=\"lsf%d\"", ink);
    else
        ls__buf_addf(b, " class=\"lsf%d lsk%d\"", ink, edge);
}

static void svg_box(struct ls_painter *p, double x, double y, double w, double h, double round, enum ls_ink ink,
                    double alpha, enum ls_ink edge)
{
    ls__buf_adds(p->out, "<rect");
    add_classes(p->out, ink, edge);
    add_alpha(p->out, "fill-opacity", alpha);
    add_attribute(p->out, "x", x);
    add_attribute(p->out, "y", y);
    add_attribute(p->out, "width", w);
    add_attribute(p->out, "height", h);
    if (round > 0) add_attribute(p->out, "rx", round);
    ls__buf_adds(p->out, "/>\n");
}

static void svg_dot(struct ls_painter *p, struct ls_point at, double r, enum ls_ink ink, enum ls_ink edge, double alpha)
{
    ls__buf_adds(p->out, "<circle");
    add_classes(p->out, ink, edge);
    add_alpha(p->out, "fill-opacity", alpha);
    if (edge != LS_INK_NONE) ls__buf_adds(p->out, " stroke-width=\"1.5\"");
    add_attribute(p->out, "cx", at.x);
    add_attribute(p->out, "cy", at.y);
    add_attribute(p->out, "r", r);
    ls__buf_adds(p->out, "/>\n");
}

static void svg_text(struct ls_painter *p, struct ls_point at, const char *text, const struct ls_text_style *style)
{
    static const char *const anchors[] = {"", " text-anchor=\"middle\"", " text-anchor=\"end\""};
    ls__buf_addf(p->out, "<text class=\"lsf%d\" font-size=\"%g\"%s", style->ink,
                 style->size > 0 ? style->size : LS_TEXT_SIZE, anchors[style->anchor]);
    if (style->is_bold) ls__buf_adds(p->out, " font-weight=\"600\"");
    if (style->is_upright) {
        ls__buf_adds(p->out, " transform=\"translate(");
        add_number(p->out, at.x);
        ls__buf_adds(p->out, " ");
        add_number(p->out, at.y);
        ls__buf_adds(p->out, ") rotate(-90)\"");
    } else {
        add_attribute(p->out, "x", at.x);
        add_attribute(p->out, "y", at.y);
    }
    ls__buf_adds(p->out, ">");
    ls__text_escape(p->out, text);
    ls__buf_adds(p->out, "</text>\n");
}

/* Three bytes are four letters. */
static void add_base64(struct ls_buf *b, const uint8_t *bytes, size_t n)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const size_t k = n - i < 3 ? n - i : 3;
        const unsigned bits =
            (unsigned)bytes[i] << 16 | (k > 1 ? (unsigned)bytes[i + 1] << 8 : 0) | (k > 2 ? (unsigned)bytes[i + 2] : 0);
        char four[4] = {letters[bits >> 18], letters[bits >> 12 & 63], letters[bits >> 6 & 63], letters[bits & 63]};
        for (size_t pad = k + 1; pad < 4; pad++) four[pad] = '=';
        ls__buf_add(b, four, sizeof four);
    }
}

static void svg_image(struct ls_painter *p, double x, double y, double w, double h, const struct ls_draw_tile *tile)
{
    struct ls_buf png = LS_BUF_INIT;
    if (ls__png_encode(tile->c, tile->h, tile->w, tile->pixels, &png) != LS_OK) p->out->failed = true;
    ls__buf_adds(p->out, "<image");
    add_attribute(p->out, "x", x);
    add_attribute(p->out, "y", y);
    add_attribute(p->out, "width", w);
    add_attribute(p->out, "height", h);
    if (ls__tile_is_coarse(tile, w)) ls__buf_adds(p->out, " style=\"image-rendering:pixelated\"");
    ls__buf_adds(p->out, " href=\"data:image/png;base64,");
    add_base64(p->out, (const uint8_t *)png.text, png.len);
    ls__buf_adds(p->out, "\"/>\n");
    ls__buf_release(&png);
}

/* data-x="from to low high kind factor unit": places, the values there, and how people read them. */
static void add_scale(struct ls_buf *b, const char *name, const struct ls_scale *s)
{
    if (!s) return;
    ls__buf_addf(b, " data-%s=\"%.1f %.1f %.9g %.9g %s %.9g ", name, s->from, s->to, s->low, s->high,
                 s->kind == LS_DRAW_LINEAR ? "linear" : "log", s->factor);
    ls__text_escape(b, s->unit);
    ls__buf_adds(b, "\"");
}

/* A nested svg element clips, and needs no id that would have to be unique in a page. */
static void svg_clip(struct ls_painter *p, double x, double y, double w, double h)
{
    ls__buf_adds(p->out, "<svg");
    add_attribute(p->out, "x", x);
    add_attribute(p->out, "y", y);
    add_attribute(p->out, "width", w);
    add_attribute(p->out, "height", h);
    ls__buf_adds(p->out, " viewBox=\"");
    add_number(p->out, x);
    ls__buf_adds(p->out, " ");
    add_number(p->out, y);
    ls__buf_adds(p->out, " ");
    add_number(p->out, w);
    ls__buf_adds(p->out, " ");
    add_number(p->out, h);
    ls__buf_adds(p->out, "\"");
    add_scale(p->out, "x", p->x);
    add_scale(p->out, "y", p->y);
    if (p->x && p->x_name) {
        ls__buf_adds(p->out, " data-name=\"");
        ls__text_escape(p->out, p->x_name);
        ls__buf_adds(p->out, "\"");
    }
    p->x = p->y = NULL;
    ls__buf_adds(p->out, ">\n");
}

static void svg_unclip(struct ls_painter *p)
{
    ls__buf_adds(p->out, "</svg>\n");
}

static void svg_tip(struct ls_painter *p, const char *text)
{
    ls__buf_adds(p->out, "<g><title>");
    ls__text_escape(p->out, text);
    ls__buf_adds(p->out, "</title>\n");
}

static void svg_end_tip(struct ls_painter *p)
{
    ls__buf_adds(p->out, "</g>\n");
}

static enum ls_status svg_finish(struct ls_painter *p)
{
    ls__buf_adds(p->out, "</svg>\n");
    return ls__buf_check(p->out);
}

const struct ls_painter_ops ls__svg_painter = {
    .begin = svg_begin,
    .line = svg_line,
    .area = svg_area,
    .box = svg_box,
    .dot = svg_dot,
    .text = svg_text,
    .image = svg_image,
    .clip = svg_clip,
    .unclip = svg_unclip,
    .tip = svg_tip,
    .end_tip = svg_end_tip,
    .finish = svg_finish,
};
