/* maxpool.c: the largest element of each window, and its gradient.
 *
 * In:  src [mb,c,ih,iw] | diff_dst [mb,c,oh,ow], workspace
 * Out: dst [mb,c,oh,ow], workspace? | diff_src [mb,c,ih,iw]
 *
 * Workspace and ties as in ref: i32 [mb,c,oh,ow], the place of the element chosen within its plane; with channels last
 * u8 [mb,oh,ow,c], its place in the window.
 */
#include "backend/cuda/cuda.h"

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    const bool is_small = prep->node->attrs.kh * prep->node->attrs.kw <= 256;
    TRY(is_small ? ls__cuda_prepare_pool(prep, out) : ls__cuda_prepare(prep, out));
    const struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    if (prep->node->n_out > 1 && prep->node->out[1] >= 0)
        (*out)->out[1] = ls_layout_plain(&k->out[0], k->is_last ? LS_U8 : LS_I32);
    return LS_OK;
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    if (k->is_last)
        return LS_CUDA(ls__cuda_run_last_maxpool(ls__cuda_stream(k->device), k->type, b->in[0], b->out[0], b->out[1],
                                                 ls__cuda_last_pool(&k->attrs, &k->in[0], &k->out[0])));
    return LS_CUDA(ls__cuda_run_maxpool(ls__cuda_stream(k->device), b->in[0], b->out[0], b->out[1],
                                        ls__cuda_pool(&k->attrs, &k->in[0], &k->out[0])));
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_impl *impl = prep->forward ? prep->forward->impl : NULL;
    if (impl != &ls__cuda_maxpool && impl != &ls__cuda_small_maxpool)
        return ls_fail(LS_UNSUPPORTED, "cuda: reads the workspace of its own maxpool only");
    TRY(ls__cuda_prepare(prep, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    const struct ls_cuda_kernel *forward = (const struct ls_cuda_kernel *)prep->forward;
    k->type = forward->type;
    k->is_last = forward->is_last;
    k->base.in[0] = ls__cuda_layout(forward->base.out[0].id, &k->in[0]);
    k->base.in[1] = forward->base.out[1];
    k->base.out[0] = ls__cuda_layout(forward->base.in[0].id, &k->out[0]);
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    if (k->is_last)
        return LS_CUDA(ls__cuda_run_last_maxpool_bwd(ls__cuda_stream(k->device), k->type, b->in[0], b->in[1], b->out[0],
                                                     ls__cuda_last_pool(&k->attrs, &k->out[0], &k->in[0])));
    return LS_CUDA(ls__cuda_run_maxpool_bwd(ls__cuda_stream(k->device), b->in[0], b->in[1], b->out[0],
                                            ls__cuda_pool(&k->attrs, &k->out[0], &k->in[0])));
}

const struct ls_impl ls__cuda_maxpool = {
    .name = "cuda",
    .op = LS_OP_MAXPOOL,
    .prepare = prepare_forward,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_maxpool_bwd = {
    .name = "cuda",
    .op = LS_OP_MAXPOOL_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
