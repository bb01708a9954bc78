/* linear_sum.c: sum over the shards of a linear layer's gradient, each shard's rounded to fixed point by itself.
 *
 * In:  src f32 [batch,ic], diff_dst f32 [batch,oc]        Out: weights i64 [oc,ic], bias? i64 [oc]
 *
 * For every shard the sum over its rows in double, rounded to float32 and then to fixed point, as LINEAR_BWD_WEIGHTS
 * and REDUCE do it one after the other. Parts are rows of the weights.
 */
#include "backend/ref/fixed.h"

/* One row of the weights: adds what rows [first, end) of the batch give. False when out of range. */
static bool add_shard(const struct ls_ref_kernel *k, const float *src, const float *diff, int64_t o, int first, int end,
                      double factor, int64_t *weights, int64_t *bias)
{
    const int64_t ic = k->in[0].dims[1], oc = k->in[1].dims[1];
    bool is_good = true;
    double total = 0;
    for (int64_t i = 0; i < ic; i++) {
        double sum = 0;
        for (int r = first; r < end; r++) sum += (double)diff[r * oc + o] * (double)src[r * ic + i];
        const double x = (double)(float)sum * factor;
        is_good &= fabs(x) < LS_FIXED_LIMIT;
        weights[o * ic + i] += is_good ? (int64_t)ls__fixed_round(x) : 0;
    }
    for (int r = first; r < end; r++) total += (double)diff[r * oc + o];
    const double x = (double)(float)total * factor;
    is_good &= fabs(x) < LS_FIXED_LIMIT;
    if (bias && is_good) bias[o] += (int64_t)ls__fixed_round(x);
    return is_good;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const double factor = ldexp(1.0, k->attrs.scale_log2);
    const int64_t oc = k->in[1].dims[1];
    bool is_good = true;
    for (int64_t o = oc * ctx->part / ctx->n_parts; o < oc * (ctx->part + 1) / ctx->n_parts; o++)
        for (int first = 0; first < ctx->batch_n; first += ctx->shard_size) {
            int end = first + ctx->shard_size < ctx->batch_n ? first + ctx->shard_size : ctx->batch_n;
            is_good &= add_shard(k, b->in[0], b->in[1], o, first, end, factor, b->out[0], b->out[1]);
        }
    if (is_good) return LS_OK;
    return ls_fail(LS_NONFINITE, "%s: gradient not finite or beyond the fixed-point range", k->name);
}

const struct ls_impl ls__ref_linear_sum = {
    .name = "ref",
    .op = LS_OP_LINEAR_SUM,
    .prepare = ls__ref_prepare,
    .launch = launch,
};
