/* linear_sum.c: sum over the shards of a linear layer's gradient, each shard's rounded to fixed point by itself.
 *
 * In:  src f32 [batch,ic], diff_dst f32 [batch,oc]        Out: weights i64 [oc,ic], bias? i64 [oc]
 *
 * Parts are rows of the weights.
 */
#include "backend/cuda/cuda.h"

#include <math.h>

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    const enum ls_status status = ls__cuda_watch((struct ls_cuda_kernel *)*out);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static void mark_shards(struct ls_cuda_linear_sum *a, int n_shards, const unsigned char *mine)
{
    for (int i = 0; i < n_shards; i++)
        if (!mine || mine[i]) a->mine[i / 32] |= (uint32_t)1 << (i % 32);
}

static enum ls_status launch_join(const struct ls_bound *b, const struct ls_step_ctx *ctx, const struct ls_join *join)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const int64_t oc = k->in[1].dims[1];
    const int n_shards = (ctx->batch_n + ctx->shard_size - 1) / ctx->shard_size;
    struct ls_cuda_linear_sum a = {.ic = k->in[0].dims[1],
                                   .oc = oc,
                                   .first_oc = oc * ctx->part / ctx->n_parts,
                                   .end_oc = oc * (ctx->part + 1) / ctx->n_parts,
                                   .shard_size = ctx->shard_size,
                                   .batch_n = ctx->batch_n,
                                   .factor = ldexp(1.0, k->attrs.scale_log2),
                                   .limit = ldexp(1.0, LS_FIXED_BITS),
                                   .fault_id = k->fault_id};
    if (n_shards > LS_CUDA_MAX_SHARDS) return ls_fail(LS_INTERNAL, "cuda: %d shards are too many", n_shards);
    mark_shards(&a, n_shards, join->mine);
    return LS_CUDA(ls__cuda_run_linear_sum(ls__cuda_stream(k->device), b->in[0], b->in[1], b->out[0], b->out[1],
                                           k->device->fault, &a));
}

const struct ls_impl ls__cuda_linear_sum = {
    .name = "cuda",
    .op = LS_OP_LINEAR_SUM,
    .prepare = prepare,
    .launch_join = launch_join,
    .release = ls__cuda_unwatch,
};
