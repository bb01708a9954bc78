/* relu: dst = max(src, 0). Its backward needs dst only, so src may be overwritten. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    return ls__like_input(g, n, 0, out);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const int in[2] = {n.out[0], diff_dst};
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, LS_OP_RELU_BWD, index, in, 2, out));
    return ls__gradient_flow(gr, n.in[0], out[0]);
}

const struct ls_op_def ls__op_relu = {.min_in = 1, .max_in = 1, .infer = infer, .gradient = gradient};
const struct ls_op_def ls__op_relu_bwd = {.min_in = 2, .max_in = 2, .infer = infer};
