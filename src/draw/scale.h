/* scale.h: from values to places on an axis, with ticks at round numbers and a unit that suits the range. */
#ifndef LS_DRAW_SCALE_H
#define LS_DRAW_SCALE_H

#include "draw/draw.h"

enum { LS_MAX_TICKS = 24, LS_TICK_BYTES = 24 };

struct ls_scale {
    enum ls_draw_scale kind;
    double factor;    /* of a value for people: 100 for per cent */
    char unit[32];    /* "%", "ms", "MiB", the axis' suffix; "" */
    double low, high; /* the range, in values */
    double from, to;  /* its ends, in units of the picture */
    int n_ticks;
    double ticks[LS_MAX_TICKS]; /* values */
    char labels[LS_MAX_TICKS][LS_TICK_BYTES];
};

/* The range of what can be shown: finite, positive on a logarithmic axis. Begins as {INFINITY, -INFINITY}. */
struct ls_range {
    double low, high;
};
void ls__range_add(struct ls_range *r, const struct ls_draw_axis *axis, const double *values, size_t n);

/* about `n_wanted` ticks. Ends at round numbers unless the axis is exact. from, to: where it lies. */
void ls__scale_fit(struct ls_scale *s, const struct ls_draw_axis *axis, struct ls_range range, int n_wanted,
                   double from, double to);

/* NAN for what has no place: not finite, not positive on a logarithmic axis. Others are kept within a few lengths of
 * the axis, so that a line to them leaves the panel in the right direction. */
double ls__scale_at(const struct ls_scale *s, double value);

/* "12.5", "35.1 k": in the axis' unit, which is added if wanted, with four digits. */
void ls__scale_text(const struct ls_scale *s, double value, bool has_unit, char *out, size_t size);

/* 1, 2 or 5 times a power of ten: the smallest that is not below x > 0. */
double ls__round_step(double x);

#endif
