/* bias.c: a number per channel added, and the gradient of those numbers.
 *
 * In:  src [mb,c,h,w] or [mb,c], bias [c] | diff_dst like src
 * Out: dst like src | diff_bias [c]
 */
#include "backend/cuda/cuda.h"

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(
        ls__cuda_run_bias(k->device->stream, b->in[0], b->in[1], b->out[0], ls__cuda_nchw(&k->in[0]), false));
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    (*out)->scratch_bytes = ls__cuda_channel_scratch(&((struct ls_cuda_kernel *)*out)->in[0]);
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(
        ls__cuda_run_channel_sums(k->device->stream, b->in[0], b->out[0], b->scratch, ls__cuda_nchw(&k->in[0])));
}

const struct ls_impl ls__cuda_bias = {
    .name = "cuda",
    .op = LS_OP_BIAS,
    .prepare = ls__cuda_prepare_in_place,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_bias_bwd = {
    .name = "cuda",
    .op = LS_OP_BIAS_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
