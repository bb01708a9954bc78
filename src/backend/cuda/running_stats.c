/* running_stats.c: the running mean and variance of a batch norm take a step towards the statistics of this batch.
 *
 * In, changed in place:  running f32 [c], sum i64 [c] (mean over the batch in fixed point; zeroed for the next step)
 */
#include "backend/cuda/cuda.h"

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_range r = ls__cuda_part(&k->base, ctx);
    return LS_CUDA(ls__cuda_run_running_stats(k->device->stream, (float *)b->in[0] + r.begin,
                                              (int64_t *)b->in[1] + r.begin, r.n, ls__cuda_update_unit(k),
                                              k->attrs.momentum, k->device->fault));
}

const struct ls_impl ls__cuda_running_stats = {
    .name = "cuda",
    .op = LS_OP_RUNNING_STATS,
    .prepare = ls__cuda_prepare,
    .launch = launch,
};
