/* painter.h: what panels are painted with: lines, areas, texts, in inks that a theme turns into colours.
 *
 * A painter appends to its buffer and remembers its first failure; `finish` reports it. Coordinates are in units of
 * the picture, y downwards. Texts are clean (text.h) and short enough.
 */
#ifndef LS_DRAW_PAINTER_H
#define LS_DRAW_PAINTER_H

#include "draw/draw.h"

enum ls_ink {
    LS_INK_NONE,
    LS_INK_BACK, /* of the card */
    LS_INK_EDGE, /* around the card */
    LS_INK_GRID,
    LS_INK_AXIS,
    LS_INK_TEXT,
    LS_INK_FAINT, /* texts of less weight */
    LS_INK_BAD,   /* a tint */
    LS_INK_SERIES /* the palette begins */
};
enum { LS_N_PALETTE = 8, LS_N_INKS = LS_INK_SERIES + LS_N_PALETTE };

/* The colour as 0xRRGGBB. */
unsigned ls__ink_rgb(enum ls_ink ink, bool is_dark);

struct ls_point {
    double x, y;
};

enum ls_dash { LS_DASH_NONE, LS_DASH_SHORT, LS_DASH_DOTS, LS_DASH_LONG, LS_DASH_MIXED };
extern const double ls__dashes[5][4]; /* lengths, drawn and left out in turn; 0 ends them */

enum ls_anchor { LS_ANCHOR_START, LS_ANCHOR_MIDDLE, LS_ANCHOR_END };

struct ls_text_style {
    enum ls_ink ink;
    double size;              /* 0: LS_TEXT_SIZE */
    bool is_bold, is_upright; /* upright: read from below */
    enum ls_anchor anchor;
};
#define LS_TEXT_SIZE 12.5

struct ls_painter;
struct ls_painter_ops {
    void (*begin)(struct ls_painter *p, const char *title);
    void (*line)(struct ls_painter *p, const struct ls_point *points, size_t n, enum ls_ink ink, double width,
                 enum ls_dash dash, double alpha);
    void (*area)(struct ls_painter *p, const struct ls_point *points, size_t n, enum ls_ink ink, double alpha);
    void (*box)(struct ls_painter *p, double x, double y, double w, double h, double round, enum ls_ink ink,
                double alpha, enum ls_ink edge);
    void (*dot)(struct ls_painter *p, struct ls_point at, double r, enum ls_ink ink, enum ls_ink edge, double alpha);
    void (*text)(struct ls_painter *p, struct ls_point at, const char *text, const struct ls_text_style *style);
    /* The tile's pixels in this box. */
    void (*image)(struct ls_painter *p, double x, double y, double w, double h, const struct ls_draw_tile *tile);
    void (*clip)(struct ls_painter *p, double x, double y, double w, double h); /* until unclip */
    void (*unclip)(struct ls_painter *p);
    /* What is painted until `end_tip` tells this to who points at it, where the format can. */
    void (*tip)(struct ls_painter *p, const char *text);
    void (*end_tip)(struct ls_painter *p);
    /* (cairo only) The next page of a PDF; what follows moved and scaled, until pop. */
    void (*page)(struct ls_painter *p);
    void (*push)(struct ls_painter *p, double x, double y, double scale);
    void (*pop)(struct ls_painter *p);
    enum ls_status (*finish)(struct ls_painter *p); /* frees nothing of the caller's; called once */
};
struct ls_scale;
struct ls_painter {
    const struct ls_painter_ops *ops;
    struct ls_buf *out;
    double width, height, zoom;
    enum ls_draw_theme theme;
    enum ls_draw_format format;
    bool is_part;
    int n_clips;
    const struct ls_scale *x, *y; /* of the next clip, for scripts that read values off an SVG; NULL: none */
    const char *x_name;
    void *own; /* the painter's */
};

/* A picture on a painter that has begun, its corner at (0, 0); and how wide and high it is. For pages of pictures. */
enum ls_status ls__draw_onto(struct ls_painter *p, const struct ls_draw_picture *picture) LS_MUST_CHECK;
void ls__draw_size(const struct ls_draw_picture *picture, double *width, double *height);

/* Whether so few pixels become so wide that their squares should show, instead of a blur. */
static inline bool ls__tile_is_coarse(const struct ls_draw_tile *tile, double width)
{
    return tile->w < width;
}

extern const struct ls_painter_ops ls__svg_painter;
/* cairo_real.c or cairo_stub.c */
extern const struct ls_painter_ops ls__cairo_painter;
enum ls_status ls__cairo_load(void) LS_MUST_CHECK;

#endif
