/* add: dst = a + b, same shape. Its gradient is the same tensor for both. */
#include "graph/op.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    char a[LS_SHAPE_TEXT], b[LS_SHAPE_TEXT];
    if (!ls_shape_is_equal(ls__in_shape(g, n, 0), ls__in_shape(g, n, 1)))
        return ls_fail(LS_DATA, "cannot add %s and %s", ls_shape_text(ls__in_shape(g, n, 0), a),
                       ls_shape_text(ls__in_shape(g, n, 1), b));
    return ls__like_input(g, n, 0, out);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    TRY(ls__gradient_through_relu(gr, index, diff_dst, &diff_dst));
    for (int i = 0; i < 2; i++)
        if (ls__gradient_is_needed(gr, n.in[i])) TRY(ls__gradient_flow(gr, n.in[i], diff_dst));
    return LS_OK;
}

const struct ls_op_def ls__op_add = {.min_in = 2, .max_in = 2, .infer = infer, .gradient = gradient};
