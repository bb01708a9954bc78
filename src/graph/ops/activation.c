/* activation: dst = f(src), element by element, f one of LS_ACTIVATION_MAP. Where backward can be made from dst, src
 * may be overwritten. */
#include "graph/op.h"

const char *ls_activation_name(enum ls_activation activation)
{
    static const char *const names[LS_N_ACTIVATIONS] = {
#define LS_ACTIVATION_NAME(NAME, name) name,
        LS_ACTIVATION_MAP(LS_ACTIVATION_NAME)
#undef LS_ACTIVATION_NAME
    };
    return names[activation];
}

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    if (n->attrs.activation >= LS_N_ACTIVATIONS)
        return ls_fail(LS_INTERNAL, "no activation %d", (int)n->attrs.activation);
    return ls__like_input(g, n, 0, out);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const int in[2] = {ls_activation_reads_dst(n.attrs.activation) ? n.out[0] : n.in[0], diff_dst};
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, LS_OP_ACTIVATION_BWD, index, in, 2, out));
    return ls__gradient_flow(gr, n.in[0], out[0]);
}

/* Roughly: an exponential is a dozen multiply-adds, a division a few operations. */
static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    static const double per_element[LS_N_ACTIVATIONS] = {
        [LS_ACT_GELU] = 48, [LS_ACT_GELU_TANH] = 32, [LS_ACT_SILU] = 24,      [LS_ACT_HARDSWISH] = 4,
        [LS_ACT_TANH] = 32, [LS_ACT_SIGMOID] = 24,   [LS_ACT_LEAKY_RELU] = 2, [LS_ACT_RELU6] = 2,
    };
    return ls__count_flops(g, n->out[0], per_element[n->attrs.activation]);
}

const struct ls_op_def ls__op_activation = {
    .min_in = 1, .max_in = 1, .infer = infer, .gradient = gradient, .flops = flops};
const struct ls_op_def ls__op_activation_bwd = {.min_in = 2, .max_in = 2, .infer = infer, .flops = flops};
