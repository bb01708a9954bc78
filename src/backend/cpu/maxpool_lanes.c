/* maxpool_lanes.c: maximum pooling of tensors that lie [c][h][w][n], between convolutions that leave them so (lanes.h).
 */
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/lanes.h"

enum { MAX_WINDOW = 15 }; /* the index of the winner fits a byte */

struct pool_kernel {
    struct ls_kernel base;
    const struct lanes_ops *ops;
    struct lanes_pool pool;
};

static enum ls_status make(const struct ls_prep *prep, const struct ls_impl *impl, const struct ls_value *src,
                           const struct ls_value *dst, struct pool_kernel **k)
{
    const struct ls_attrs *a = &prep->node->attrs;
    if (!ls__lanes_best()) return ls_fail(LS_UNSUPPORTED, "needs AVX2");
    if (a->kh != a->kw || a->sh != a->kh || a->sw != a->kw || a->ph || a->pw || a->kh > MAX_WINDOW)
        return ls_fail(LS_UNSUPPORTED, "windows overlap, are padded or not square");
    if (a->dh > 1 || a->dw > 1 || dst->shape.dims[2] * a->kh > src->shape.dims[2] ||
        dst->shape.dims[3] * a->kw > src->shape.dims[3])
        return ls_fail(LS_UNSUPPORTED, "windows are dilated or end outside the image");
    TRY(ls_kernel_create(k, sizeof **k, prep, impl));
    (*k)->ops = ls__lanes_best();
    (*k)->pool = (struct lanes_pool){.n = (int)src->shape.dims[0],
                                     .c = (int)src->shape.dims[1],
                                     .ih = (int)src->shape.dims[2],
                                     .iw = (int)src->shape.dims[3],
                                     .oh = (int)dst->shape.dims[2],
                                     .ow = (int)dst->shape.dims[3],
                                     .k = a->kh};
    return LS_OK;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *dst = ls__dnn_value_out(prep, 0);
    struct ls_layout layout;
    struct pool_kernel *k = NULL;
    TRY(ls__dnn_samples_last(prep->device, src, &layout));
    if (layout.id != prep->in[0].id) return ls_fail(LS_UNSUPPORTED, "the input does not lie samples last");
    TRY(make(prep, &ls__cpu_maxpool_lanes, src, dst, &k));
    k->base.in[0] = layout;
    *out = &k->base;
    enum ls_status status = ls__dnn_samples_last(prep->device, dst, &k->base.out[0]);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct pool_kernel *k = (const struct pool_kernel *)b->kernel;
    k->ops->maxpool(&k->pool, b->in[0], b->out[0], b->out[1]);
    return LS_OK;
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct pool_kernel *k = NULL;
    if (!prep->forward || prep->forward->impl != &ls__cpu_maxpool_lanes)
        return ls_fail(LS_UNSUPPORTED, "the forward pooling is another one's");
    TRY(make(prep, &ls__cpu_maxpool_bwd_lanes, ls__dnn_value_out(prep, 0), ls__dnn_value_in(prep, 0), &k));
    k->base.in[0] = prep->forward->out[0];
    k->base.in[1] = prep->forward->out[1];
    k->base.out[0] = prep->forward->in[0];
    *out = &k->base;
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct pool_kernel *k = (const struct pool_kernel *)b->kernel;
    k->ops->maxpool_backward(&k->pool, b->in[0], b->in[1], b->out[0]);
    return LS_OK;
}

const struct ls_impl ls__cpu_maxpool_lanes = {
    .name = "lanes", .op = LS_OP_MAXPOOL, .prepare = prepare, .launch = launch};
const struct ls_impl ls__cpu_maxpool_bwd_lanes = {
    .name = "lanes", .op = LS_OP_MAXPOOL_BWD, .prepare = prepare_bwd, .launch = launch_bwd};
