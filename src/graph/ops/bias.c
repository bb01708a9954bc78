/* bias: src [mb,c,...], bias [c] -> dst like src. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    if (ls__in_shape(g, n, 1)->dims[0] != ls__in_shape(g, n, 0)->dims[1])
        return ls_fail(LS_DATA, "bias of %lld values for %lld channels", (long long)ls__in_shape(g, n, 1)->dims[0],
                       (long long)ls__in_shape(g, n, 0)->dims[1]);
    return ls__like_input(g, n, 0, out);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const struct ls_attrs leaf = {.scale_log2 = LS_SCALE_GRAD};
    int out[LS_MAX_OUT];
    if (ls__gradient_n_trained(gr, index) > 0) {
        TRY(ls__gradient_node(gr, LS_OP_BIAS_BWD, index, &diff_dst, 1, out));
        TRY(ls__gradient_leaf(gr, n.in[1], out[0], &leaf));
    }
    return ls__gradient_is_needed(gr, n.in[0]) ? ls__gradient_flow(gr, n.in[0], diff_dst) : LS_OK;
}

const struct ls_op_def ls__op_bias = {.min_in = 2, .max_in = 2, .infer = infer, .gradient = gradient};

static enum ls_status infer_bwd(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 1;
    return ls__like_forward(g, n, 1, &out[0]);
}

static double flops_bwd(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->in[0], 1);
}

const struct ls_op_def ls__op_bias_bwd = {.min_in = 1, .max_in = 1, .infer = infer_bwd, .flops = flops_bwd};
