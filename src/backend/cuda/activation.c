/* activation.c: activations element by element, and their gradients.
 *
 * In:  src | src or dst (ls_activation_reads_dst), diff_dst          (any shape)
 * Out: dst | diff_src
 */
#include "backend/cuda/cuda.h"

_Static_assert((int)LS_CUDA_GELU == (int)LS_ACT_GELU && (int)LS_CUDA_TANH == (int)LS_ACT_TANH &&
                   (int)LS_CUDA_RELU6 == (int)LS_ACT_RELU6,
               "the same numbers");

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(ls__cuda_run_activation(ls__cuda_stream(k->device), k->type,
                                           (enum ls_cuda_function)k->attrs.activation, b->in[0], b->out[0],
                                           ls_shape_count(&k->in[0]), k->attrs.alpha));
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
    return LS_CUDA(ls__cuda_run_activation_bwd(ls__cuda_stream(k->device), k->type,
                                               (enum ls_cuda_function)k->attrs.activation, b->in[0], b->in[1],
                                               b->out[0], ls_shape_count(&k->in[0]), k->attrs.alpha));
}

const struct ls_impl ls__cuda_activation = {
    .name = "cuda",
    .op = LS_OP_ACTIVATION,
    .prepare = ls__cuda_prepare_following,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_activation_bwd = {
    .name = "cuda",
    .op = LS_OP_ACTIVATION_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
