/* linear: src [mb,ic], weights [oc,ic], bias? [oc] -> dst [mb,oc] = src * weights^T + bias. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    const struct ls_shape *src = ls__in_shape(g, n, 0), *weights = ls__in_shape(g, n, 1);
    char text[LS_SHAPE_TEXT];
    if (src->n_dims != 2)
        return ls_fail(LS_DATA, "linear needs a vector, but gets the image %s; put `flatten` before it",
                       ls_shape_text(src, text));
    if (weights->n_dims != 2 || weights->dims[1] != src->dims[1])
        return ls_fail(LS_DATA, "weights %s do not fit %lld inputs", ls_shape_text(weights, text),
                       (long long)src->dims[1]);
    if (ls__in_is_present(n, 2) && ls_shape_count(ls__in_shape(g, n, 2)) != weights->dims[0])
        return ls_fail(LS_DATA, "bias of %lld values for %lld outputs",
                       (long long)ls_shape_count(ls__in_shape(g, n, 2)), (long long)weights->dims[0]);
    n->n_out = 1;
    out[0] = (struct ls_out){.is_present = true, .shape = LS_SHAPE2(src->dims[0], weights->dims[0])};
    return LS_OK;
}

/* From so many weights on their gradient is summed once per step (keep.c) rather than once per shard. */
enum { LARGE_LAYER = 1 << 17 };

static enum ls_status weights_per_shard(struct ls_gradient *gr, int index, int src, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const struct ls_attrs leaf = {.scale_log2 = LS_SCALE_GRAD};
    const int in[2] = {src, diff_dst};
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, LS_OP_LINEAR_BWD_WEIGHTS, index, in, 2, out));
    TRY(ls__gradient_leaf(gr, n.in[1], out[0], &leaf));
    return ls__in_is_present(&n, 2) ? ls__gradient_leaf(gr, n.in[2], out[1], &leaf) : LS_OK;
}

static enum ls_status weights_per_step(struct ls_gradient *gr, int index, int src, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    int kept[2], out[LS_MAX_OUT];
    TRY(ls__gradient_keep(gr, index, "src", src, &kept[0]));
    TRY(ls__gradient_keep(gr, index, "diff_dst", diff_dst, &kept[1]));
    TRY(ls__gradient_node(gr, LS_OP_LINEAR_SUM, index, kept, 2, out));
    gr->g->nodes[gr->g->n_nodes - 1].attrs.scale_log2 = LS_SCALE_GRAD;
    TRY(ls__gradient_sum(gr, n.in[1], out[0]));
    return ls__in_is_present(&n, 2) ? ls__gradient_sum(gr, n.in[2], out[1]) : LS_OK;
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    int out[LS_MAX_OUT];
    const int n_trained = ls__gradient_n_trained(gr, index);
    bool is_large = ls_shape_count(ls__in_shape(gr->g, &n, 1)) >= LARGE_LAYER;
    bool is_whole =
        n_trained == (ls__in_is_present(&n, 2) ? 2 : 1); /* a sum of a part of the layer is made per shard */
    TRY(ls__gradient_through_relu(gr, index, diff_dst, &diff_dst));
    if (n_trained > 0)
        TRY(is_large && is_whole && gr->g->batch_size > 0 ? weights_per_step(gr, index, n.in[0], diff_dst)
                                                          : weights_per_shard(gr, index, n.in[0], diff_dst));
    if (!ls__gradient_is_needed(gr, n.in[0])) return LS_OK;
    const int for_data[2] = {diff_dst, n.in[1]};
    TRY(ls__gradient_node(gr, LS_OP_LINEAR_BWD_DATA, index, for_data, 2, out));
    return ls__gradient_flow(gr, n.in[0], out[0]);
}

static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    return 2.0 * (double)g->mb * (double)ls_shape_count(ls__in_shape(g, n, 1));
}

const struct ls_op_def ls__op_linear = {.min_in = 2, .max_in = 3, .infer = infer, .gradient = gradient, .flops = flops};

static enum ls_status infer_bwd_data(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 1;
    return ls__like_forward(g, n, 0, &out[0]);
}

const struct ls_op_def ls__op_linear_bwd_data = {.min_in = 2, .max_in = 2, .infer = infer_bwd_data, .flops = flops};

static enum ls_status infer_bwd_weights(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 2;
    TRY(ls__like_forward(g, n, 1, &out[0]));
    return ls__like_forward(g, n, 2, &out[1]);
}

static double flops_bwd_weights(const struct ls_graph *g, const struct ls_node *n)
{
    return 2.0 * (double)g->mb * (double)ls_shape_count(&g->values[n->out[0]].shape);
}

const struct ls_op_def ls__op_linear_bwd_weights = {
    .min_in = 2, .max_in = 2, .infer = infer_bwd_weights, .flops = flops_bwd_weights};
