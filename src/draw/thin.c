/* thin.c: of the points that fall into one column of the picture the first, lowest, highest and last stay (thin.h). */
#include "draw/thin.h"

#include "base/mem.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static enum ls_status add(struct ls_track *t, struct ls_point point, bool is_first)
{
    if (t->n == t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 256;
        TRY(ls__grow(&t->points, t->cap, cap, sizeof *t->points));
        TRY(ls__grow(&t->is_first, t->cap, cap, sizeof *t->is_first));
        t->cap = cap;
    }
    t->points[t->n] = point;
    t->is_first[t->n++] = is_first;
    return LS_OK;
}

/* A run of neighbours within one column. */
struct run {
    double column;
    struct ls_point first, low, high, last;
    size_t n;
    bool is_after_gap;
};

static bool is_same(struct ls_point a, struct ls_point b)
{
    return a.x == b.x && a.y == b.y;
}

static enum ls_status add_run(struct ls_track *t, const struct run *r)
{
    if (r->n == 0) return LS_OK;
    bool is_low_first = r->low.x <= r->high.x;
    struct ls_point a = is_low_first ? r->low : r->high, b = is_low_first ? r->high : r->low;
    TRY(add(t, r->first, r->is_after_gap));
    if (!is_same(a, r->first) && !is_same(a, r->last)) TRY(add(t, a, false));
    if (!is_same(b, a) && !is_same(b, r->first) && !is_same(b, r->last)) TRY(add(t, b, false));
    if (!is_same(r->last, r->first)) TRY(add(t, r->last, false));
    return LS_OK;
}

/* *is_too_long: given up. */
static enum ls_status pass(struct ls_track *t, const double *x, const double *y, size_t n, size_t stride,
                           const struct ls_scale *sx, const struct ls_scale *sy, bool *is_too_long)
{
    struct run r = {.n = 0};
    bool is_gap = true;
    for (size_t i = 0; i < n; i += stride) {
        struct ls_point p = {ls__scale_at(sx, x ? x[i] : (double)i), ls__scale_at(sy, y[i])};
        if (isnan(p.x) || isnan(p.y)) {
            is_gap = true;
            continue;
        }
        if (r.n && floor(p.x) == r.column && !(is_gap && r.n == 1)) { /* a gap within a column cannot be seen */
            if (p.y < r.low.y) r.low = p;
            if (p.y > r.high.y) r.high = p;
            r.last = p;
            r.n++;
        } else {
            TRY(add_run(t, &r));
            if (t->n > (size_t)4 * LS_TRACK_POINTS && stride == 1) {
                *is_too_long = true;
                return LS_OK;
            }
            r = (struct run){
                .column = floor(p.x), .first = p, .low = p, .high = p, .last = p, .n = 1, .is_after_gap = is_gap};
        }
        is_gap = false;
    }
    return add_run(t, &r);
}

enum ls_status ls__track_line(struct ls_track *t, const double *x, const double *y, size_t n, const struct ls_scale *sx,
                              const struct ls_scale *sy)
{
    bool is_too_long = false;
    memset(t, 0, sizeof *t);
    TRY(pass(t, x, y, n, 1, sx, sy, &is_too_long));
    if (!is_too_long) return LS_OK;
    t->n = 0; /* x jumps to and fro: every so many points must do */
    return pass(t, x, y, n, n / LS_TRACK_POINTS + 1, sx, sy, &is_too_long);
}

enum ls_status ls__track_points(struct ls_track *t, const double *x, const double *y, size_t n,
                                const struct ls_scale *sx, const struct ls_scale *sy, double grain)
{
    double left = fmin(sx->from, sx->to), top = fmin(sy->from, sy->to);
    size_t columns = (size_t)(fabs(sx->to - sx->from) / grain) + 1,
           rows = (size_t)(fabs(sy->to - sy->from) / grain) + 1;
    uint8_t *is_taken = NULL;
    enum ls_status status = LS_OK;
    memset(t, 0, sizeof *t);
    TRY(ls__calloc(&is_taken, columns * rows, 1));
    for (size_t i = 0; i < n && status == LS_OK; i++) {
        struct ls_point p = {ls__scale_at(sx, x ? x[i] : (double)i), ls__scale_at(sy, y[i])};
        double c = floor((p.x - left) / grain), r = floor((p.y - top) / grain);
        if (!(c >= 0 && r >= 0 && c < (double)columns && r < (double)rows)) continue; /* NAN too */
        uint8_t *taken = &is_taken[(size_t)r * columns + (size_t)c];
        if (*taken) continue;
        *taken = 1;
        status = add(t, p, true);
    }
    free(is_taken);
    return status;
}

void ls__track_release(struct ls_track *t)
{
    free(t->points);
    free(t->is_first);
    memset(t, 0, sizeof *t);
}
