/* avgpool: src [mb,c,ih,iw] -> dst [mb,c,oh,ow]; padding counts as zeros in the mean (PyTorch's default) unless
 * skip_pad says otherwise. With oh and ow set the windows are PyTorch's adaptive ones. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    struct ls_shape dst;
    TRY(ls__pool_out(g, n, &dst));
    n->n_out = 1;
    out[0] = (struct ls_out){.is_present = true, .shape = dst};
    return LS_OK;
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, LS_OP_AVGPOOL_BWD, index, &diff_dst, 1, out));
    return ls__gradient_flow(gr, n.in[0], out[0]);
}

static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    if (n->attrs.oh > 0) return ls__count_flops(g, n->in[0], 1);
    return ls__count_flops(g, n->out[0], n->attrs.kh * n->attrs.kw);
}

const struct ls_op_def ls__op_avgpool = {
    .min_in = 1, .max_in = 1, .infer = infer, .gradient = gradient, .flops = flops};

static enum ls_status infer_bwd(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 1;
    return ls__like_forward(g, n, 0, &out[0]);
}

const struct ls_op_def ls__op_avgpool_bwd = {.min_in = 1, .max_in = 1, .infer = infer_bwd};
