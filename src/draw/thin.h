/* thin.h: of a series with millions of points what can be seen of it. */
#ifndef LS_DRAW_THIN_H
#define LS_DRAW_THIN_H

#include "draw/painter.h"
#include "draw/scale.h"

/* Points of a line, gaps between its pieces. */
struct ls_track {
    struct ls_point *points; /* [n] */
    bool *is_first;          /* [n]: a piece begins here */
    size_t n, cap;
};

/* The line through (x[i], y[i]): within a column of one unit the first, lowest, highest and last point of each run,
 * so that the picture is that of all points. x NULL: 0, 1, 2, ... At most about LS_TRACK_POINTS points. */
enum { LS_TRACK_POINTS = 16384 };
enum ls_status ls__track_line(struct ls_track *t, const double *x, const double *y, size_t n, const struct ls_scale *sx,
                              const struct ls_scale *sy) LS_MUST_CHECK;
/* Single points: one of those that lie within the same square of `grain` units. Every one begins a piece. */
enum ls_status ls__track_points(struct ls_track *t, const double *x, const double *y, size_t n,
                                const struct ls_scale *sx, const struct ls_scale *sy, double grain) LS_MUST_CHECK;
void ls__track_release(struct ls_track *t);

#endif
