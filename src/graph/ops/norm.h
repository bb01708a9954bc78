/* norm.h: what group norm and layer norm have in common: src, gamma, beta -> dst; backward reads src again. */
#ifndef LS_GRAPH_OPS_NORM_H
#define LS_GRAPH_OPS_NORM_H

#include "graph/op.h"

/* Appends the backward node of either; the gradients of gamma and beta leave the shard. */
static inline enum ls_status norm_gradient(struct ls_gradient *gr, enum ls_op op, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const struct ls_attrs leaf = {.scale_log2 = LS_SCALE_GRAD};
    const int in[3] = {n.in[0], n.in[1], diff_dst};
    int out[LS_MAX_OUT];
    TRY(ls__gradient_node(gr, op, index, in, 3, out));
    TRY(ls__gradient_leaf(gr, n.in[1], out[1], &leaf));
    TRY(ls__gradient_leaf(gr, n.in[2], out[2], &leaf));
    return ls__gradient_is_needed(gr, n.in[0]) ? ls__gradient_flow(gr, n.in[0], out[0]) : LS_OK;
}

static inline enum ls_status norm_infer_bwd(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 3;
    for (int i = 0; i < 3; i++) TRY(ls__like_forward(g, n, i, &out[i]));
    return LS_OK;
}

static inline double norm_flops(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->out[0], 7); /* mean 1, variance 3, scale and shift 3 */
}

static inline double norm_flops_bwd(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->out[0], 15); /* the statistics once more, and 11 */
}

#endif
