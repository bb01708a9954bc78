/* panel.h: shared by the kinds of panels. A panel gets a box and stays within it; where the numbers are drawn is the
 * plot. */
#ifndef LS_DRAW_PANEL_H
#define LS_DRAW_PANEL_H

#include "draw/painter.h"
#include "draw/scale.h"

struct ls_box {
    double x, y, w, h;
};

/* What a panel of curves leaves free beside its plot, for numbers at the left and names at the right. */
struct ls_margins {
    double left, right;
};

enum { LS_TITLE_ROOM = 24, LS_LEGEND_ROOM = 22, LS_LABEL_ROOM = 21, LS_TICK_ROOM = 20, LS_NOTE_LINE = 16 };
#define LS_SMALL_TEXT 11.5

/* How high the panel will be in a box so wide. */
double ls__panel_height(const struct ls_draw_panel *panel, double width);
/* least: so that the plots of panels below each other begin and end at the same place. */
enum ls_status ls__panel_draw(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box,
                              struct ls_margins least) LS_MUST_CHECK;
/* As it needs them by itself; zeros for other kinds. */
struct ls_margins ls__panel_margins(const struct ls_draw_panel *panel, struct ls_box box);

/* The kinds. `box` is what title, legend and note have left. */
enum ls_status ls__panel_xy(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box,
                            struct ls_margins least) LS_MUST_CHECK;
struct ls_margins ls__xy_margins(const struct ls_draw_panel *panel, struct ls_box box);
enum ls_status ls__panel_bars(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box) LS_MUST_CHECK;
enum ls_status ls__panel_heat(struct ls_painter *p, const struct ls_draw_panel *panel, struct ls_box box) LS_MUST_CHECK;
enum ls_status ls__panel_tiles(struct ls_painter *p, const struct ls_draw_panel *panel,
                               struct ls_box box) LS_MUST_CHECK;
double ls__bars_height(const struct ls_draw_panel *panel);
double ls__heat_height(const struct ls_draw_panel *panel, double width);
double ls__tiles_height(const struct ls_draw_panel *panel, double width);

/* Whether the names of the series stand in a row above the plot. */
bool ls__panel_has_legend(const struct ls_draw_panel *panel, double width);

enum ls_ink ls__series_ink(const struct ls_draw_panel *panel, int i);
enum ls_dash ls__series_dash(const struct ls_draw_panel *panel, int i);

/* --- axes.c --- */

/* "time (min)", clean. */
void ls__axis_name(char *out, size_t size, const struct ls_draw_axis *axis, const struct ls_scale *s);
/* "25 %" for per cent, else the bare label. */
void ls__tick_text(char *out, size_t size, const struct ls_scale *s, int i);
double ls__widest_tick(const struct ls_scale *s);
/* Grid lines and labels across the plot; its name above the plot's corner. */
void ls__axis_left(struct ls_painter *p, const struct ls_draw_axis *axis, const struct ls_scale *s, struct ls_box plot,
                   double left);
/* Labels below the plot, with a grid if wanted, and the name at the right end. */
void ls__axis_below(struct ls_painter *p, const struct ls_draw_axis *axis, const struct ls_scale *s, struct ls_box plot,
                    bool has_grid);
/* `text` in lines of `width`; returns their number. p NULL: only counts. */
int ls__draw_lines(struct ls_painter *p, const char *text, double x, double y, double width, double size,
                   enum ls_ink ink);

#endif
