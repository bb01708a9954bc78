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
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    const bool is_bf16 = prep->in[0].id == LS_CUDA_LAST_BF16;
    k->type = is_bf16 ? LS_CUDA_BF16 : LS_CUDA_F32;
    /* The order is the parameter's, whatever it is; what belongs to none is plain. */
    if (prep->out[0].id > LS_LAYOUT_PLAIN || is_bf16) {
        k->base.in[0] = prep->in[0];
        k->base.out[0] = prep->out[0];
    }
    const enum ls_status status = ls__cuda_watch(k);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static struct ls_cuda_job job_of(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const double whole = ldexp(k->attrs.alpha != 0.0f ? (double)k->attrs.alpha : 1.0, k->attrs.scale_log2);
    const struct ls_cuda_range r = ls__cuda_part(k, ctx);
    const size_t element = k->type == LS_CUDA_BF16 ? 2 : 4;
    struct ls_cuda_job job = {.kind = LS_CUDA_JOB_REDUCE, .type = k->type, .n = r.n};
    job.src = (const char *)b->in[0] + (size_t)r.begin * element;
    job.sum = (int64_t *)b->out[0] + r.begin;
    job.reduce = (struct ls_cuda_reduce){.factor = k->attrs.by_share ? whole * (double)ctx->share : whole,
                                         .whole = fabs(whole),
                                         .limit = ldexp(1, k->attrs.by_share ? LS_FIXED_MEAN_BITS : LS_FIXED_BITS),
                                         .is_float = k->attrs.float_sum,
                                         .is_only = ctx->is_only,
                                         .fault_id = k->fault_id};
    return job;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    struct ls_device *d = ls__cuda_kernel_of(b)->device;
    const struct ls_cuda_job job = job_of(b, ctx);
    TRY(ls__cuda_join(d));
    return ls__cuda_job(d, &job);
}

static enum ls_status launch_coarse(const struct ls_bound *b, const struct ls_step_ctx *ctx, float *remainder, int bits)
{
    struct ls_device *d = ls__cuda_kernel_of(b)->device;
    const struct ls_cuda_job job = job_of(b, ctx);
    TRY(ls__cuda_join(d));
    remainder += ls__cuda_part(ls__cuda_kernel_of(b), ctx).begin;
    return LS_CUDA(ls__cuda_run_coarse(ls__cuda_stream(d), &job, remainder,
                                       (struct ls_cuda_coarse){bits, -LS_SCALE_GRAD}, d->fault));
}

const struct ls_impl ls__cuda_reduce = {
    .name = "cuda",
    .op = LS_OP_REDUCE,
    .prepare = prepare,
    .launch = launch,
    .launch_coarse = launch_coarse,
    .release = ls__cuda_unwatch,
};
