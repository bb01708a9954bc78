/* conv2d.c: convolution and its two gradients by cuDNN.
 *
 * In:  src [mb,ic,ih,iw], weights [oc,ic/groups,kh,kw], bias [oc]?, diff_dst [mb,oc,oh,ow]
 * Out: dst [mb,oc,oh,ow] | diff_src [mb,ic,ih,iw] | diff_weights, diff_bias?
 *
 * prepare makes the execution plan, bind the list of its addresses. The gradient of the bias is a sum over channels of
 * our own, whose scratch may overlap cuDNN's workspace: they run one after the other.
 */
#include "backend/cuda/dnn.h"

#include <stdio.h>

struct conv_kernel {
    struct ls_cuda_kernel base;
    struct ls_cuda_dnn_plan plan;
};

static const struct conv_kernel *kernel_of(const struct ls_bound *b)
{
    return (const struct conv_kernel *)b->kernel;
}

static void release(struct ls_kernel *kernel)
{
    ls__cuda_dnn_release(&((struct conv_kernel *)kernel)->plan);
}

/* src and dst: where in the node the image and the output's (gradient) shapes are. */
static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, enum ls_cuda_conv_op op,
                              struct ls_kernel **out)
{
    struct conv_kernel *k;
    TRY(ls__cuda_kernel_create(&k, sizeof *k, prep, impl));
    const struct ls_shape *src = op == LS_CUDA_CONV_BWD_DATA ? &k->base.out[0] : &k->base.in[0];
    const struct ls_shape *dst = op == LS_CUDA_CONV_FORWARD    ? &k->base.out[0]
                                 : op == LS_CUDA_CONV_BWD_DATA ? &k->base.in[0]
                                                               : &k->base.in[1];
    const struct ls_cuda_conv conv = ls__cuda_conv(&prep->node->attrs, src, dst);
    *out = &k->base.base;
    const enum ls_status status = ls__cuda_dnn_plan(prep->device, op, &conv, &k->plan);
    if (status != LS_OK) {
        ls_kernel_destroy(out);
        return status;
    }
    snprintf((*out)->name, sizeof(*out)->name, "cudnn:%lld", (long long)k->plan.engine);
    (*out)->scratch_bytes = ls__cuda_workspace_bytes(k->plan.workspace_bytes);
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cuda_conv2d, LS_CUDA_CONV_FORWARD, out);
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cuda_conv2d_bwd_data, LS_CUDA_CONV_BWD_DATA, out);
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, &ls__cuda_conv2d_bwd_weights, LS_CUDA_CONV_BWD_WEIGHTS, out));
    const size_t sums = ls__cuda_channel_scratch(&((struct ls_cuda_kernel *)*out)->in[1]);
    const bool has_bias = prep->node->n_out > 1 && prep->node->out[1] >= 0;
    if (has_bias && sums > (*out)->scratch_bytes) (*out)->scratch_bytes = sums;
    return LS_OK;
}

static enum ls_status bind_forward(struct ls_bound *b)
{
    return ls__cuda_dnn_bind(b->in[0], b->in[1], b->out[0], ls__cuda_workspace(b->scratch), &b->extra);
}

static enum ls_status bind_bwd_data(struct ls_bound *b)
{
    return ls__cuda_dnn_bind(b->out[0], b->in[1], b->in[0], ls__cuda_workspace(b->scratch), &b->extra);
}

static enum ls_status bind_bwd_weights(struct ls_bound *b)
{
    return ls__cuda_dnn_bind(b->in[0], b->out[0], b->in[1], ls__cuda_workspace(b->scratch), &b->extra);
}

static void unbind(struct ls_bound *b)
{
    if (b->extra) (void)cudnnBackendDestroyDescriptor(b->extra);
    b->extra = NULL;
}

static enum ls_status execute(const struct ls_bound *b)
{
    const struct conv_kernel *k = kernel_of(b);
    return LS_DNN(cudnnBackendExecute(k->base.device->dnn, k->plan.plan, b->extra));
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    TRY(execute(b));
    return ls__cuda_finish(&kernel_of(b)->base, b->in[2], b->out[0]);
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return execute(b);
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = &kernel_of(b)->base;
    TRY(execute(b));
    if (!b->out[1]) return LS_OK;
    return LS_CUDA(
        ls__cuda_run_channel_sums(k->device->stream, b->in[1], b->out[1], b->scratch, ls__cuda_nchw(&k->in[1])));
}

const struct ls_impl ls__cuda_conv2d = {
    .name = "cudnn",
    .op = LS_OP_CONV2D,
    .prepare = prepare_forward,
    .bind = bind_forward,
    .unbind = unbind,
    .launch = launch_forward,
    .release = release,
};

const struct ls_impl ls__cuda_conv2d_bwd_data = {
    .name = "cudnn",
    .op = LS_OP_CONV2D_BWD_DATA,
    .prepare = prepare_bwd_data,
    .bind = bind_bwd_data,
    .unbind = unbind,
    .launch = launch_bwd_data,
    .release = release,
};

const struct ls_impl ls__cuda_conv2d_bwd_weights = {
    .name = "cudnn",
    .op = LS_OP_CONV2D_BWD_WEIGHTS,
    .prepare = prepare_bwd_weights,
    .bind = bind_bwd_weights,
    .unbind = unbind,
    .launch = launch_bwd_weights,
    .release = release,
};
