/* dropout: each element is zeroed with probability p, the rest scaled by 1/(1-p). The mask is a function of (seed,
 * step, layer, sample, element), so backward draws it again instead of storing it. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    if (!(n->attrs.p >= 0 && n->attrs.p < 1))
        return ls_fail(LS_DATA, "dropout probability %g is not in [0,1)", (double)n->attrs.p);
    return ls__like_input(g, n, 0, out);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, LS_OP_DROPOUT_BWD, index, &diff_dst, 1, out));
    return ls__gradient_flow(gr, gr->g->nodes[index].in[0], out[0]);
}

const struct ls_op_def ls__op_dropout = {.min_in = 1, .max_in = 1, .infer = infer, .gradient = gradient};
const struct ls_op_def ls__op_dropout_bwd = {.min_in = 1, .max_in = 1, .infer = infer};
