/* running_stats.c: the running mean and variance of a batch norm take a step towards the statistics of this batch.
 *
 * In, changed in place:  running f32 [c], sum i64 [c] (mean over the batch in fixed point; zeroed for the next step)
 */
#include "backend/cuda/cuda.h"

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    struct ls_cuda_job job = ls__cuda_update(b, ctx, LS_CUDA_JOB_RUNNING);
    job.of.momentum = ls__cuda_kernel_of(b)->attrs.momentum;
    return ls__cuda_job(ls__cuda_kernel_of(b)->device, &job);
}

const struct ls_impl ls__cuda_running_stats = {
    .name = "cuda",
    .op = LS_OP_RUNNING_STATS,
    .prepare = ls__cuda_prepare_update,
    .launch = launch,
};
