/* draw.h: pictures of numbers: curves, points, bars and heat maps, described as data, drawn as SVG, PNG or PDF.
 *
 *     const struct ls_draw_series loss = {.label = "training", .x = steps, .y = losses, .n = n};
 *     const struct ls_draw_panel panel = {.title = "Loss", .x = {.label = "step"}, .y = {.scale = LS_DRAW_LOG10},
 *                                         .series = &loss, .n_series = 1};
 *     const struct ls_draw_picture picture = {.title = "LeNet-5", .panels = &panel, .n_panels = 1};
 *     TRY(ls_draw_write(&picture, "loss.svg"));
 *
 * A member that is zero has a sensible value. Everything is borrowed for the call only.
 *
 * What may come: values that are not finite (gaps), no values, one value, any magnitude, tens of millions of points
 * (thinned to what can be seen), any bytes as text (made harmless, shortened to fit). The same description gives the
 * same bytes. Layout does not ask the fonts of the machine: all formats look alike.
 *
 * SVG is written by this module and needs no library. It suits light and dark pages, its text is text, and it
 * holds no script. PNG and PDF are cairo's, which is loaded when it is first needed; LS_UNSUPPORTED without it.
 */
#ifndef LS_DRAW_DRAW_H
#define LS_DRAW_DRAW_H

#include "base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ls_draw_scale { LS_DRAW_LINEAR, LS_DRAW_LOG10, LS_DRAW_LOG2 };

/* What an axis measures. It chooses the unit for the range it shows and names it: seconds become ms, min or h. */
enum ls_draw_unit {
    LS_DRAW_NUMBER,  /* 1200, 35 k, 2e-5; `suffix` is added to the name */
    LS_DRAW_PERCENT, /* of fractions: 0.25 is 25 % */
    LS_DRAW_SECONDS,
    LS_DRAW_BYTES
};

struct ls_draw_axis {
    const char *label;  /* "step"; NULL: none */
    const char *suffix; /* of NUMBER: "images/s" */
    enum ls_draw_scale scale;
    enum ls_draw_unit unit;
    bool has_zero;       /* of linear ones: 0 is part of it */
    bool is_exact;       /* ends where the data end, not at round numbers; an x axis does that anyhow */
    bool is_given;       /* from `from` to `to`, whatever the data are */
    double from, to;     /* from < to */
    double at_most;      /* if > 0: larger values are not shown, and not searched for the range */
    const double *ticks; /* where; NULL: at round numbers */
    int n_ticks;
};

enum ls_draw_mode {
    LS_DRAW_LINE,
    LS_DRAW_STEPS, /* a line that stays until the next point */
    LS_DRAW_POINTS,
    LS_DRAW_IDEAL, /* a thin dotted line: what would be perfect */
    LS_DRAW_THIN   /* a line as thin as can be: one more of what another line shows */
};

struct ls_draw_series {
    const char *label;
    enum ls_draw_mode mode;
    size_t n;
    const double *x; /* [n]; NULL: 0, 1, 2, ... Bars have none: the n-th value belongs to the n-th name */
    const double *y; /* [n] */
    /* [n]; of lines a band, of points and bars the ends of a whisker; NULL: none. In a stack they are places on the
     * axis, not above the bars below. */
    const double *low, *high;
    const double *target;     /* [n]; of bars: a mark across each; NULL: none */
    const char *const *texts; /* [n]; of bars: written at their ends; NULL: the value. Of points: beside them */
    bool has_points;          /* a line shows its points too */
    int behind;               /* 1, 2, ..: so much wider than those on top of it; lines that coincide all show */
    int colour;               /* 1.. : of the palette; 0: by its place among the series */
};

enum ls_draw_mark_kind {
    LS_DRAW_MARK_NOTE,      /* a dashed line with its text */
    LS_DRAW_MARK_EPOCH,     /* a faint line */
    LS_DRAW_MARK_CHECKPOINT /* a small triangle on the axis */
};
struct ls_draw_mark {
    enum ls_draw_mark_kind kind;
    double x;
    const char *text; /* may be NULL */
};

/* A level across the panel: a peak, a limit, "as fast as one worker". */
struct ls_draw_level {
    double at;
    const char *text; /* may be NULL */
    bool is_shaded;   /* what lies below it (of vertical bars and curves) is tinted: bad */
};

enum ls_draw_kind {
    LS_DRAW_XY,
    LS_DRAW_BARS,    /* horizontal ones, a name per group at the left */
    LS_DRAW_COLUMNS, /* vertical ones */
    LS_DRAW_HEAT,
    LS_DRAW_TILES /* small images in rows */
};

struct ls_draw_tile {
    const uint8_t *pixels; /* [c,h,w], c 1 (grey) or 3 (colour); NULL: the place stays empty */
    int c, h, w;
    const char *text; /* below it; NULL: none */
    const char *tip;  /* to who points at it; NULL: the text */
};

struct ls_draw_panel {
    enum ls_draw_kind kind;
    const char *title;
    struct ls_draw_axis x, y; /* of bars and columns: y is the values' axis; of a heat map: only the labels */
    const struct ls_draw_series *series;
    int n_series;
    const struct ls_draw_mark *marks;
    int n_marks;
    const struct ls_draw_level *levels;
    int n_levels;
    const char *const *names; /* of bars: [n of the series]; of a heat map: of rows and columns; NULL: numbers */
    bool is_stacked;          /* bars on top of each other */
    const double *cells;      /* of a heat map: [rows][columns] */
    int n_rows, n_columns;    /* of tiles: columns only */
    const struct ls_draw_tile *tiles; /* row by row; all as large as the first is wide and high */
    int n_tiles;
    bool is_by_row;   /* a heat map's shades are shares of their row, as wants a confusion matrix */
    double height;    /* of the whole panel; 0: 260, or as bars need it. A heat map is square if 0 */
    int n_span;       /* columns of the grid it takes; 0: 1 */
    const char *note; /* small, below the panel; broken into lines where it must */
    bool has_legend;  /* names in a row above instead of at the lines' ends; bars have it anyhow */
};

enum ls_draw_theme { LS_DRAW_AUTO, LS_DRAW_LIGHT, LS_DRAW_DARK }; /* AUTO: as the page is; light for PNG and PDF */

struct ls_draw_picture {
    const char *title, *note; /* NULL: none. The note is broken into lines where it must */
    const struct ls_draw_panel *panels;
    int n_panels;
    int n_columns; /* panels in a row; 0: 1 */
    double width;  /* 0: 900 */
    double left;   /* curves begin at least so far from the left: pictures that stand below each other */
    enum ls_draw_theme theme;
    double zoom;  /* pixels of a PNG per unit; 0: 2 */
    bool is_part; /* of an HTML page: no card around it, and no style sheet: see ls_draw_style */
};

enum ls_draw_format { LS_DRAW_SVG, LS_DRAW_PNG, LS_DRAW_PDF };

/* By the ending of a name: .svg .png .pdf; LS_USAGE for others. */
enum ls_status ls_draw_format_of(const char *path, enum ls_draw_format *out) LS_MUST_CHECK;
/* Appends the picture to `out`, which may hold zero bytes then. */
enum ls_status ls_draw(const struct ls_draw_picture *picture, enum ls_draw_format format,
                       struct ls_buf *out) LS_MUST_CHECK;
/* Into a file, complete or not at all; the ending says the format. */
enum ls_status ls_draw_write(const struct ls_draw_picture *picture, const char *path) LS_MUST_CHECK;
/* LS_OK, or LS_UNSUPPORTED with what is missing for PNG and PDF. */
enum ls_status ls_draw_can(enum ls_draw_format format) LS_MUST_CHECK;
/* Before long work: whether a picture of this name could be drawn: its ending, and what that needs. */
enum ls_status ls_draw_can_write(const char *path) LS_MUST_CHECK;

/* The style sheet of pictures that are part of a page; it belongs into the page once. */
void ls_draw_style(struct ls_buf *out, enum ls_draw_theme theme);

/* A picture from text: JSON (docs/formats/plot.md) or CSV, whose first column is x and whose others are curves.
 * `name` is for messages. LS_DATA for what cannot be understood. */
struct ls_draw_doc;
enum ls_status ls_draw_doc_parse(struct ls_draw_doc **out, const char *name, const char *text, size_t len,
                                 bool is_json) LS_MUST_CHECK;
const struct ls_draw_picture *ls_draw_doc_picture(const struct ls_draw_doc *doc);
void ls_draw_doc_destroy(struct ls_draw_doc **doc);

#endif
