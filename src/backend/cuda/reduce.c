/* reduce.c: a shard's value leaves it: sum += round(src * factor * 2^scale_log2), in 64-bit fixed point; ref/reduce.c
 * has the rules. What does not fit is a fault, which settle reports.
 *
 * In:  src f32          Out: sum i64
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

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_range r = ls__cuda_part(&k->base, ctx);
    const double whole = ldexp(k->attrs.alpha != 0.0f ? (double)k->attrs.alpha : 1.0, k->attrs.scale_log2);
    const struct ls_cuda_reduce a = {.factor = k->attrs.by_share ? whole * (double)ctx->share : whole,
                                     .whole = fabs(whole),
                                     .limit = ldexp(1, k->attrs.by_share ? LS_FIXED_MEAN_BITS : LS_FIXED_BITS),
                                     .is_float = k->attrs.float_sum,
                                     .fault_id = k->fault_id};
    return LS_CUDA(ls__cuda_run_reduce(k->device->stream, (const float *)b->in[0] + r.begin,
                                       (int64_t *)b->out[0] + r.begin, r.n, k->device->fault, a));
}

const struct ls_impl ls__cuda_reduce = {
    .name = "cuda",
    .op = LS_OP_REDUCE,
    .prepare = prepare,
    .launch = launch,
    .release = ls__cuda_unwatch,
};
