/* conv2d_direct.c: convolution and its two gradients as plain loops with sums in double, for what cuDNN refuses, and to
 * hold cuDNN's against on the card. Shapes as in conv2d.c.
 */
#include "backend/cuda/cuda.h"

struct ls_cuda_conv ls__cuda_conv(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst)
{
    return (struct ls_cuda_conv){
        .mb = src->dims[0],
        .ic = src->dims[1],
        .ih = src->dims[2],
        .iw = src->dims[3],
        .oc = dst->dims[1],
        .oh = dst->dims[2],
        .ow = dst->dims[3],
        .kh = a->kh,
        .kw = a->kw,
        .sh = a->sh,
        .sw = a->sw,
        .ph = a->ph,
        .pw = a->pw,
        .dh = a->dh > 0 ? a->dh : 1,
        .dw = a->dw > 0 ? a->dw : 1,
        .groups = a->groups > 0 ? a->groups : 1,
    };
}

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, struct ls_kernel **out)
{
    struct ls_cuda_kernel *k;
    TRY(ls__cuda_kernel_create(&k, sizeof *k, prep, impl));
    *out = &k->base;
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cuda_direct_conv2d, out);
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cuda_direct_conv2d_bwd_data, out);
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, &ls__cuda_direct_conv2d_bwd_weights, out));
    if (prep->node->n_out > 1 && prep->node->out[1] >= 0)
        (*out)->scratch_bytes = ls__cuda_channel_scratch(&((struct ls_cuda_kernel *)*out)->in[1]);
    return LS_OK;
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    TRY(LS_CUDA(ls__cuda_run_conv2d(ls__cuda_stream(k->device), b->in[0], b->in[1], b->out[0],
                                    ls__cuda_conv(&k->attrs, &k->in[0], &k->out[0]))));
    return ls__cuda_finish(k, b->in[2], b->out[0]);
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(ls__cuda_run_conv2d_bwd_data(ls__cuda_stream(k->device), b->in[0], b->in[1], b->out[0],
                                                ls__cuda_conv(&k->attrs, &k->out[0], &k->in[0])));
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    TRY(LS_CUDA(ls__cuda_run_conv2d_bwd_weights(ls__cuda_stream(k->device), b->in[0], b->in[1], b->out[0],
                                                ls__cuda_conv(&k->attrs, &k->in[0], &k->in[1]))));
    if (!b->out[1]) return LS_OK;
    return LS_CUDA(ls__cuda_run_channel_sums(ls__cuda_stream(k->device), b->in[1], b->out[1], b->scratch,
                                             ls__cuda_nchw(&k->in[1])));
}

const struct ls_impl ls__cuda_direct_conv2d = {
    .name = "direct",
    .op = LS_OP_CONV2D,
    .prepare = prepare_forward,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_direct_conv2d_bwd_data = {
    .name = "direct",
    .op = LS_OP_CONV2D_BWD_DATA,
    .prepare = prepare_bwd_data,
    .launch = launch_bwd_data,
};

const struct ls_impl ls__cuda_direct_conv2d_bwd_weights = {
    .name = "direct",
    .op = LS_OP_CONV2D_BWD_WEIGHTS,
    .prepare = prepare_bwd_weights,
    .launch = launch_bwd_weights,
};
