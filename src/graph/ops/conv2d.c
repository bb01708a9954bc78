/* conv2d: src [mb,ic,ih,iw], weights [oc,ic/groups,kh,kw], bias? [oc] -> dst [mb,oc,oh,ow]. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    const struct ls_attrs *a = &n->attrs;
    int64_t oh, ow;
    char text[LS_SHAPE_TEXT];
    TRY(ls__need_image(g, n));
    const struct ls_shape *src = ls__in_shape(g, n, 0), *weights = ls__in_shape(g, n, 1);
    int64_t groups = a->groups;
    if (groups < 1 || src->dims[1] % groups || weights->dims[0] % groups)
        return ls_fail(LS_DATA, "%d groups do not divide %lld input and %lld output channels", a->groups,
                       (long long)src->dims[1], (long long)weights->dims[0]);
    if (weights->n_dims != 4 || weights->dims[1] != src->dims[1] / groups || weights->dims[2] != a->kh ||
        weights->dims[3] != a->kw)
        return ls_fail(LS_DATA, "weights %s do not fit %lld input channels", ls_shape_text(weights, text),
                       (long long)src->dims[1]);
    if (ls__in_is_present(n, 2) && ls_shape_count(ls__in_shape(g, n, 2)) != weights->dims[0])
        return ls_fail(LS_DATA, "bias of %lld values for %lld output channels",
                       (long long)ls_shape_count(ls__in_shape(g, n, 2)), (long long)weights->dims[0]);
    TRY(ls__window_out(a, src, &oh, &ow));
    n->n_out = 1;
    out[0] = (struct ls_out){.is_present = true, .shape = LS_SHAPE4(src->dims[0], weights->dims[0], oh, ow)};
    return LS_OK;
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const struct ls_attrs leaf = {.scale_log2 = LS_SCALE_GRAD};
    int out[LS_MAX_OUT];
    TRY(ls__gradient_through_relu(gr, index, diff_dst, &diff_dst));
    const int for_weights[2] = {n.in[0], diff_dst};
    if (ls__gradient_n_trained(gr, index) > 0) {
        TRY(ls__gradient_node(gr, LS_OP_CONV2D_BWD_WEIGHTS, index, for_weights, 2, out));
        TRY(ls__gradient_leaf(gr, n.in[1], out[0], &leaf));
        if (ls__in_is_present(&n, 2)) TRY(ls__gradient_leaf(gr, n.in[2], out[1], &leaf));
    }
    if (!ls__gradient_is_needed(gr, n.in[0])) return LS_OK;
    const int for_data[2] = {diff_dst, n.in[1]};
    TRY(ls__gradient_node(gr, LS_OP_CONV2D_BWD_DATA, index, for_data, 2, out));
    return ls__gradient_flow(gr, n.in[0], out[0]);
}

/* A multiply-add per output element and kernel element. */
static double flops_of(const struct ls_shape *dst, const struct ls_shape *weights)
{
    return 2.0 * (double)ls_shape_count(dst) * (double)(weights->dims[1] * weights->dims[2] * weights->dims[3]);
}

static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    return flops_of(&g->values[n->out[0]].shape, ls__in_shape(g, n, 1));
}

const struct ls_op_def ls__op_conv2d = {.min_in = 2, .max_in = 3, .infer = infer, .gradient = gradient, .flops = flops};

static enum ls_status infer_bwd_data(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 1;
    return ls__like_forward(g, n, 0, &out[0]);
}

static double flops_bwd_data(const struct ls_graph *g, const struct ls_node *n)
{
    return flops_of(ls__in_shape(g, n, 0), ls__in_shape(g, n, 1));
}

const struct ls_op_def ls__op_conv2d_bwd_data = {
    .min_in = 2, .max_in = 2, .infer = infer_bwd_data, .flops = flops_bwd_data};

static enum ls_status infer_bwd_weights(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 2;
    TRY(ls__like_forward(g, n, 1, &out[0]));
    return ls__like_forward(g, n, 2, &out[1]);
}

static double flops_bwd_weights(const struct ls_graph *g, const struct ls_node *n)
{
    return flops_of(ls__in_shape(g, n, 1), &g->values[n->out[0]].shape);
}

const struct ls_op_def ls__op_conv2d_bwd_weights = {
    .min_in = 2, .max_in = 2, .infer = infer_bwd_weights, .flops = flops_bwd_weights};
