/* reduce.c: a shard's value leaves it: sum += round(src * factor * 2^scale_log2), in 64-bit fixed point.
 *
 * In:  src f32          Out: sum i64, same layout
 *
 * factor is attrs.alpha where that is not zero, times ctx->share with attrs.by_share. The product is formed in double
 * and rounded once to an integer, ties to even; integer addition then makes the sum independent of the order of the
 * shards. An element that is not finite or too large is refused; the check is gathered over the pass, not made per
 * element. Works on a part of the elements (ls_part_range), in whatever layout the sum has.
 */
#include "backend/ref/fixed.h"

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

/* Not zero if an element was out of range. */
LS_REF_CLONES
static int64_t reduce_accumulate(const float *restrict src, int64_t *restrict sum, int64_t n, double factor)
{
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)src[i] * factor;
        bad |= !(fabs(x) < LS_FIXED_LIMIT); /* also for NaN */
        sum[i] = (int64_t)((uint64_t)sum[i] + ls__fixed_round(x));
    }
    return bad;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n = (int64_t)(k->base.in[0].bytes / sizeof(float));
    double factor = ldexp(k->attrs.alpha != 0.0f ? (double)k->attrs.alpha : 1.0, k->attrs.scale_log2);
    int64_t begin, end;
    if (k->attrs.by_share) factor *= (double)ctx->share;
    ls_part_range(n, ctx->part, ctx->n_parts, &begin, &end);
    if (reduce_accumulate((const float *)b->in[0] + begin, (int64_t *)b->out[0] + begin, end - begin, factor) == 0)
        return LS_OK;
    return ls_fail(LS_NONFINITE, "%s: gradient not finite or beyond the fixed-point range", k->name);
}

const struct ls_impl ls__ref_reduce = {
    .name = "ref",
    .op = LS_OP_REDUCE,
    .prepare = prepare,
    .launch = launch,
};
