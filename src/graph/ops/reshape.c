/* reshape: forward it flattens [mb,c,h,w] to [mb,c*h*w]; as its own gradient it goes back. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 1;
    if (n->forward >= 0) return ls__like_forward(g, n, 0, &out[0]);
    const struct ls_shape *src = ls__in_shape(g, n, 0);
    out[0] = (struct ls_out){.is_present = true, .shape = LS_SHAPE2(src->dims[0], ls_shape_count(src) / src->dims[0])};
    return LS_OK;
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, LS_OP_RESHAPE, index, &diff_dst, 1, out));
    return ls__gradient_flow(gr, gr->g->nodes[index].in[0], out[0]);
}

static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    return 0;
}

const struct ls_op_def ls__op_reshape = {
    .min_in = 1, .max_in = 1, .infer = infer, .gradient = gradient, .flops = flops};
/* reorder: the same elements in another layout; only the plan makes these. */
static enum ls_status infer_reorder(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    TRY(ls__like_input(g, n, 0, out));
    out[0].dtype = g->values[n->in[0]].dtype;
    return LS_OK;
}

const struct ls_op_def ls__op_reorder = {.min_in = 1, .max_in = 1, .infer = infer_reorder, .flops = flops};
