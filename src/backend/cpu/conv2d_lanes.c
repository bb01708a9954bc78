/* conv2d_lanes.c: convolutions with few channels, samples in the lanes (lanes.h).
 *
 * Forward, backward by data (the same kernel with the weights turned round) and backward by weights, all in the layout
 * [c][h][w][n], so that a chain of such layers and the pooling between them needs no reorder. The rule looks at sizes
 * alone.
 */
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/lanes.h"

#include <stdio.h>

enum { FEW_CHANNELS = 8, NOT_MANY_CHANNELS = 32 };

struct lanes_kernel {
    struct ls_kernel base;
    const struct lanes_ops *ops;
    struct lanes_conv conv;
    bool relu;
    _Alignas(8) char tables[]; /* of conv */
};

static enum ls_status check(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst)
{
    int64_t fewer = src->dims[1] < dst->dims[1] ? src->dims[1] : dst->dims[1];
    int64_t more = src->dims[1] > dst->dims[1] ? src->dims[1] : dst->dims[1];
    if (!ls__lanes_best()) return ls_fail(LS_UNSUPPORTED, "needs AVX2");
    if (fewer > FEW_CHANNELS || more > NOT_MANY_CHANNELS)
        return ls_fail(LS_UNSUPPORTED, "enough channels to fill vectors with them");
    if (a->sh != 1 || a->sw != 1 || a->dh > 1 || a->dw > 1 || a->groups != 1)
        return ls_fail(LS_UNSUPPORTED, "stride, dilation or groups");
    if ((a->kw != 3 && a->kw != 5) || a->kh > LANES_MAX_KERNEL || a->ph >= a->kh || a->pw >= a->kw)
        return ls_fail(LS_UNSUPPORTED, "kernel is not 3 or 5 wide, or padding as large as it");
    return LS_OK;
}

/* Backward by data is a convolution of diff_dst with the weights turned round. */
static struct lanes_conv turned(const struct lanes_conv *c)
{
    return (struct lanes_conv){.n = c->n,
                               .ic = c->oc,
                               .ih = c->oh,
                               .iw = c->ow,
                               .oc = c->ic,
                               .oh = c->ih,
                               .ow = c->iw,
                               .kh = c->kh,
                               .kw = c->kw,
                               .ph = c->kh - 1 - c->ph,
                               .pw = c->kw - 1 - c->pw};
}

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, const struct ls_value *src,
                              const struct ls_value *dst, bool is_turned, struct lanes_kernel **out)
{
    const struct ls_attrs *a = &prep->node->attrs;
    const struct ls_shape *s = &src->shape, *d = &dst->shape;
    TRY(check(a, s, d));
    struct lanes_conv conv = {.n = (int)s->dims[0],
                              .ic = (int)s->dims[1],
                              .ih = (int)s->dims[2],
                              .iw = (int)s->dims[3],
                              .oc = (int)d->dims[1],
                              .oh = (int)d->dims[2],
                              .ow = (int)d->dims[3],
                              .kh = a->kh,
                              .kw = a->kw,
                              .ph = a->ph,
                              .pw = a->pw};
    if (is_turned) conv = turned(&conv);
    const struct lanes_ops *ops = ls__lanes_best();
    TRY(ls_kernel_create(out, sizeof **out + ops->tables_bytes(&conv), prep, impl));
    (*out)->ops = ops;
    (*out)->conv = conv;
    ops->make_tables(&conv, (*out)->tables);
    (*out)->relu = a->relu;
    return LS_OK;
}

static void set_name(struct lanes_kernel *k, bool is_winograd)
{
    snprintf(k->base.name, sizeof k->base.name, "lanes%s", is_winograd ? ":wino" : "");
}

/* Hands the kernel out, or ends it when a layout could not be had. */
static enum ls_status finish(struct lanes_kernel *k, enum ls_status status, struct ls_kernel **out)
{
    *out = &k->base;
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *dst = ls__dnn_value_out(prep, 0);
    struct lanes_kernel *k = NULL;
    TRY(prepare(prep, &ls__cpu_conv2d_lanes, src, dst, false, &k));
    k->base.scratch_bytes = k->ops->forward_scratch(&k->conv);
    set_name(k, k->ops->forward_is_winograd(&k->conv));
    enum ls_status status = ls__dnn_samples_last(prep->device, src, &k->base.in[0]);
    if (status == LS_OK) status = ls__dnn_samples_last(prep->device, dst, &k->base.out[0]);
    return finish(k, status, out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct lanes_kernel *k = (const struct lanes_kernel *)b->kernel;
    k->ops->forward(&k->conv, k->tables, b->in[0], b->in[1], false, b->in[2], k->relu, b->out[0], b->scratch);
    return LS_OK;
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_value *diff_dst = ls__dnn_value_in(prep, 0), *diff_src = ls__dnn_value_out(prep, 0);
    struct lanes_kernel *k = NULL;
    TRY(prepare(prep, &ls__cpu_conv2d_bwd_data_lanes, diff_src, diff_dst, true, &k));
    k->base.scratch_bytes = k->ops->forward_scratch(&k->conv);
    set_name(k, k->ops->forward_is_winograd(&k->conv));
    enum ls_status status = ls__dnn_samples_last(prep->device, diff_dst, &k->base.in[0]);
    if (status == LS_OK) status = ls__dnn_samples_last(prep->device, diff_src, &k->base.out[0]);
    return finish(k, status, out);
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct lanes_kernel *k = (const struct lanes_kernel *)b->kernel;
    k->ops->forward(&k->conv, k->tables, b->in[0], b->in[1], true, NULL, false, b->out[0], b->scratch);
    return LS_OK;
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *diff_dst = ls__dnn_value_in(prep, 1);
    struct lanes_kernel *k = NULL;
    TRY(prepare(prep, &ls__cpu_conv2d_bwd_weights_lanes, src, diff_dst, false, &k));
    k->base.scratch_bytes = k->ops->backward_weights_scratch(&k->conv);
    set_name(k, k->ops->backward_weights_is_winograd(&k->conv));
    enum ls_status status = ls__dnn_samples_last(prep->device, src, &k->base.in[0]);
    if (status == LS_OK) status = ls__dnn_samples_last(prep->device, diff_dst, &k->base.in[1]);
    return finish(k, status, out);
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct lanes_kernel *k = (const struct lanes_kernel *)b->kernel;
    k->ops->backward_weights(&k->conv, k->tables, b->in[0], b->in[1], b->out[0], b->out[1], b->scratch);
    return LS_OK;
}

const struct ls_impl ls__cpu_conv2d_lanes = {
    .name = "lanes", .op = LS_OP_CONV2D, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_conv2d_bwd_data_lanes = {
    .name = "lanes", .op = LS_OP_CONV2D_BWD_DATA, .prepare = prepare_bwd_data, .launch = launch_bwd_data};
const struct ls_impl ls__cpu_conv2d_bwd_weights_lanes = {
    .name = "lanes", .op = LS_OP_CONV2D_BWD_WEIGHTS, .prepare = prepare_bwd_weights, .launch = launch_bwd_weights};
