/* linear_sum.c: sum over the shards of a linear layer's gradient, each shard's rounded to fixed point by itself.
 *
 * In:  src f32 [batch,ic], diff_dst f32 [batch,oc]        Out: weights i64 [oc,ic], bias? i64 [oc]
 *
 * For every shard the sum over its rows in double, rounded to float32 and then to fixed point, as LINEAR_BWD_WEIGHTS
 * and REDUCE do it one after the other. Parts are rows of the weights.
 */
#include "backend/ref/ref.h"

#include <math.h>

enum { COLUMNS = 256 };

/* sum[i] += what rows [first, end) of the batch give to `n` weights of output o. True when all are in range. */
static bool linear_sum_add(const float *restrict src, int64_t ic, const float *restrict diff, int64_t oc, int first,
                           int end, int64_t n, double factor, int64_t *restrict sum)
{
    double acc[COLUMNS] = {0}, largest = 0;
    for (int r = first; r < end; r++) {
        const double g = (double)diff[r * oc];
        for (int64_t i = 0; i < n; i++) acc[i] += g * (double)src[r * ic + i];
    }
    for (int64_t i = 0; i < n; i++) acc[i] = (double)(float)acc[i] * factor;
    for (int64_t i = 0; i < n; i++) largest = fabs(acc[i]) <= largest ? largest : fabs(acc[i]); /* a NaN stays */
    if (!(largest < LS_FIXED_LIMIT)) return false;
    for (int64_t i = 0; i < n; i++) sum[i] = (int64_t)((uint64_t)sum[i] + (uint64_t)ls__ref_round(acc[i]));
    return true;
}

/* One output: its row of weights, and its bias as the weight of an input that is always 1. */
static bool add_output(const struct ls_ref_kernel *k, const struct ls_bound *b, int64_t o, int first, int end,
                       double factor)
{
    static const float one[1] = {1};
    const int64_t ic = k->in[0].dims[1], oc = k->in[1].dims[1];
    const float *src = b->in[0], *diff = (const float *)b->in[1] + o;
    int64_t *weights = (int64_t *)b->out[0] + o * ic;
    bool is_good = true;
    for (int64_t i = 0; i < ic; i += COLUMNS)
        is_good &=
            linear_sum_add(src + i, ic, diff, oc, first, end, ic - i < COLUMNS ? ic - i : COLUMNS, factor, weights + i);
    if (b->out[1]) is_good &= linear_sum_add(one, 0, diff, oc, first, end, 1, factor, (int64_t *)b->out[1] + o);
    return is_good;
}

static enum ls_status launch_join(const struct ls_bound *b, const struct ls_step_ctx *ctx, const struct ls_join *join)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const double factor = ldexp(1.0, k->attrs.scale_log2);
    const int64_t oc = k->in[1].dims[1];
    bool is_good = true;
    for (int64_t o = oc * ctx->part / ctx->n_parts; o < oc * (ctx->part + 1) / ctx->n_parts; o++)
        for (int first = 0; first < ctx->batch_n; first += ctx->shard_size) {
            if (join->mine && !join->mine[first / ctx->shard_size]) continue; /* its rows hold anything, NaN too */
            int end = first + ctx->shard_size < ctx->batch_n ? first + ctx->shard_size : ctx->batch_n;
            is_good &= add_output(k, b, o, first, end, factor);
        }
    if (is_good) return LS_OK;
    return ls_fail(LS_NONFINITE, "%s: gradient not finite or beyond the fixed-point range", k->name);
}

const struct ls_impl ls__ref_linear_sum = {
    .name = "ref",
    .op = LS_OP_LINEAR_SUM,
    .prepare = ls__ref_prepare,
    .launch_join = launch_join,
};
