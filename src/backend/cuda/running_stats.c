/* running_stats.c: the running mean and variance of a batch norm take a step towards the statistics of this batch.
 *
 * In, changed in place:  running f32 [c], sum i64 [c] (mean over the batch in fixed point; zeroed for the next step)
 */
#include "backend/cuda/cuda.h"

static enum ls_status enqueue(const struct ls_bound *b, struct ls_cuda_range r)
{
    struct ls_cuda_job job = ls__cuda_update(b, r, LS_CUDA_JOB_RUNNING);
    job.of.momentum = ls__cuda_kernel_of(b)->attrs.momentum;
    return ls__cuda_job(ls__cuda_kernel_of(b)->device, &job);
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return enqueue(b, ls__cuda_part(ls__cuda_kernel_of(b), ctx));
}

static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    ls__cuda_keep_failure(ls__cuda_kernel_of(b)->device, enqueue(b, (struct ls_cuda_range){begin, n}));
}

const struct ls_impl ls__cuda_running_stats = {
    .name = "cuda",
    .op = LS_OP_RUNNING_STATS,
    .prepare = ls__cuda_prepare_update,
    .launch = launch,
    .update = update,
};
