/* reduce.c: a shard's value leaves it: sum += round(src * factor * 2^scale_log2), in 64-bit fixed point.
 *
 * In:  src f32          Out: sum i64, same layout
 *
 * factor is attrs.alpha where that is not zero, times ctx->share with attrs.by_share. The product is formed in double
 * and rounded once to an integer, ties to even; integer addition then makes the sum independent of the order of the
 * shards. An element that is not finite or too large is refused; the check is gathered over the pass, not made per
 * element. Works on a part of the elements (ls_part_range), in whatever layout the sum has.
 */
#include "backend/ref/ref.h"

#include <math.h>
#include <string.h>

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    if (prep->out[0].id > LS_LAYOUT_PLAIN) {
        (*out)->out[0] = prep->out[0];
        (*out)->in[0] = ls__ref_layout_like(prep->out[0], LS_I64, LS_F32);
    } else if (prep->out[0].id == LS_LAYOUT_ANY && prep->in[0].id > LS_LAYOUT_PLAIN) {
        (*out)->in[0] = prep->in[0];
        (*out)->out[0] = ls__ref_layout_like(prep->in[0], LS_F32, LS_I64);
    }
    return LS_OK;
}

/* Gives the largest |src[i]| as bits: floats without sign order as their bits do, infinity and then NaN at the top, so
 * one look at the largest tells whether all were in range. */
static uint32_t accumulate(const float *src, int64_t *sum, int64_t n, double factor)
{
    uint32_t largest = 0, bits;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&bits, &src[i], sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        sum[i] = (int64_t)((uint64_t)sum[i] + (uint64_t)ls__ref_round((double)src[i] * factor));
    }
    return largest;
}

/* attrs.float_sum: every addition rounded to float32, as a trainer without fixed point would sum. The sum is kept in
 * the same units, which hold a float32 exactly down to 2^(24 - scale). For comparison only: the order of arrival
 * matters. */
static uint32_t accumulate_float(const float *src, int64_t *sum, int64_t n, double factor)
{
    uint32_t largest = 0, bits;
    for (int64_t i = 0; i < n; i++) {
        memcpy(&bits, &src[i], sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        const float total = (float)((double)sum[i] / factor) + src[i];
        sum[i] = ls__ref_round((double)total * factor);
    }
    return largest;
}

/* A mean over the batch is in range or not whatever the shard's share of it. */
static enum ls_status check_range(const struct ls_ref_kernel *k, uint32_t largest, double whole)
{
    const double limit = k->attrs.by_share ? LS_FIXED_MEAN_LIMIT : LS_FIXED_LIMIT;
    float x;
    memcpy(&x, &largest, sizeof x);
    if ((double)x * fabs(whole) < limit) return LS_OK; /* false for NaN */
    return ls_fail(LS_NONFINITE, "%s: a shard's value is not finite or beyond %g, the range of fixed point", k->name,
                   limit / fabs(whole));
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n = (int64_t)(k->base.in[0].bytes / sizeof(float));
    const double whole = ldexp(k->attrs.alpha != 0.0f ? (double)k->attrs.alpha : 1.0, k->attrs.scale_log2);
    const double factor = k->attrs.by_share ? whole * (double)ctx->share : whole;
    int64_t begin, end;
    ls_part_range(n, ctx->part, ctx->n_parts, &begin, &end);
    const float *src = (const float *)b->in[0] + begin;
    int64_t *sum = (int64_t *)b->out[0] + begin;
    const uint32_t largest = k->attrs.float_sum ? accumulate_float(src, sum, end - begin, factor)
                                                : accumulate(src, sum, end - begin, factor);
    return check_range(k, largest, whole);
}

const struct ls_impl ls__ref_reduce = {
    .name = "ref",
    .op = LS_OP_REDUCE,
    .prepare = prepare,
    .launch = launch,
};
