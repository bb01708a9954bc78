/* relu.c: negative elements become zero; NaN stays NaN.
 *
 * In:  src | dst, diff_dst          (any shape)
 * Out: dst | diff_src
 */
#include "backend/cuda/cuda.h"

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(
        ls__cuda_run_relu(ls__cuda_stream(k->device), k->type, b->in[0], b->out[0], ls_shape_count(&k->in[0])));
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare_in_place(prep, out));
    (*out)->alias_in = 1; /* diff_dst */
    return ls__cuda_follow(prep, 0, (struct ls_cuda_kernel *)*out);
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(ls__cuda_run_relu_bwd(ls__cuda_stream(k->device), k->type, b->in[0], b->in[1], b->out[0],
                                         ls_shape_count(&k->in[0])));
}

const struct ls_impl ls__cuda_relu = {
    .name = "cuda",
    .op = LS_OP_RELU,
    .prepare = ls__cuda_prepare_following,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_relu_bwd = {
    .name = "cuda",
    .op = LS_OP_RELU_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
