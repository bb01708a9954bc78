/* lrn: dst = src / (k + alpha/size * sum of squares over `size` neighbouring channels)^beta, and, in training, a
 * workspace for what backward would compute again. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    TRY(ls__need_image(g, n));
    if (n->attrs.size < 1 || n->attrs.size % 2 == 0)
        return ls_fail(LS_DATA, "lrn size %d is not odd and positive", n->attrs.size);
    TRY(ls__like_input(g, n, 0, out));
    n->n_out = 2;
    out[1] = (struct ls_out){.is_present = g->is_training, .dtype = LS_U8, .shape = out[0].shape, .is_workspace = true};
    return LS_OK;
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const int in[3] = {n.in[0], diff_dst, n.out[1]};
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, LS_OP_LRN_BWD, index, in, 3, out));
    return ls__gradient_flow(gr, n.in[0], out[0]);
}

static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->out[0], 2 * n->attrs.size + 8);
}

const struct ls_op_def ls__op_lrn = {.min_in = 1, .max_in = 1, .infer = infer, .gradient = gradient, .flops = flops};

static enum ls_status infer_bwd(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 1;
    return ls__like_forward(g, n, 0, &out[0]);
}

const struct ls_op_def ls__op_lrn_bwd = {.min_in = 2, .max_in = 3, .infer = infer_bwd, .flops = flops};
