/* avgpool.c: the mean of each window, and its gradient; what counts as in ref.
 *
 * In:  src [mb,c,ih,iw] | diff_dst [mb,c,oh,ow]
 * Out: dst [mb,c,oh,ow] | diff_src [mb,c,ih,iw]
 */
#include "backend/cuda/cuda.h"

struct ls_cuda_pool ls__cuda_pool(const struct ls_attrs *a, const struct ls_shape *image, const struct ls_shape *pooled)
{
    return (struct ls_cuda_pool){
        .planes = image->dims[0] * image->dims[1],
        .ih = (int)image->dims[2],
        .iw = (int)image->dims[3],
        .oh = (int)pooled->dims[2],
        .ow = (int)pooled->dims[3],
        .kh = a->kh,
        .kw = a->kw,
        .sh = a->sh,
        .sw = a->sw,
        .ph = a->ph,
        .pw = a->pw,
        .dh = a->dh > 1 ? a->dh : 1,
        .dw = a->dw > 1 ? a->dw : 1,
        .skip_pad = a->skip_pad,
        .has_rows = a->oh > 0,
        .has_columns = a->ow > 0,
    };
}

struct ls_cuda_last_pool ls__cuda_last_pool(const struct ls_attrs *a, const struct ls_shape *image,
                                            const struct ls_shape *pooled)
{
    struct ls_cuda_last_pool p = {ls__cuda_pool(a, image, pooled), (int)image->dims[1]};
    p.p.planes = image->dims[0];
    return p;
}

enum ls_status ls__cuda_prepare_pool(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__cuda_prepare(prep, out));
    struct ls_cuda_kernel *k = (struct ls_cuda_kernel *)*out;
    const enum ls_status status = ls__cuda_follow(prep, 0, k);
    if (k->is_last) k->base.out[0] = ls__cuda_layout(prep->in[0].id, &k->out[0]);
    return status;
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    if (k->is_last)
        return LS_CUDA(ls__cuda_run_last_avgpool(ls__cuda_stream(k->device), k->type, b->in[0], b->out[0],
                                                 ls__cuda_last_pool(&k->attrs, &k->in[0], &k->out[0])));
    return LS_CUDA(ls__cuda_run_avgpool(ls__cuda_stream(k->device), b->in[0], b->out[0],
                                        ls__cuda_pool(&k->attrs, &k->in[0], &k->out[0])));
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    if (k->is_last)
        return LS_CUDA(ls__cuda_run_last_avgpool_bwd(ls__cuda_stream(k->device), k->type, b->in[0], b->out[0],
                                                     ls__cuda_last_pool(&k->attrs, &k->out[0], &k->in[0])));
    return LS_CUDA(ls__cuda_run_avgpool_bwd(ls__cuda_stream(k->device), b->in[0], b->out[0],
                                            ls__cuda_pool(&k->attrs, &k->out[0], &k->in[0])));
}

const struct ls_impl ls__cuda_avgpool = {
    .name = "cuda",
    .op = LS_OP_AVGPOOL,
    .prepare = ls__cuda_prepare_pool,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_avgpool_bwd = {
    .name = "cuda",
    .op = LS_OP_AVGPOOL_BWD,
    .prepare = ls__cuda_prepare_pool,
    .launch = launch_bwd,
};
