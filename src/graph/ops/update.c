/* update: ops on stored values: reduce (out of the shard, in fixed point), sgd, adamw, running_stats. */
#include "graph/op.h"

static enum ls_status infer_reduce(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    TRY(ls__like_input(g, n, 0, out));
    out[0].kind = LS_VALUE_SUM;
    out[0].dtype = LS_I64;
    return LS_OK;
}

static double flops_reduce(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->in[0], 2);
}

const struct ls_op_def ls__op_reduce = {.min_in = 1, .max_in = 1, .infer = infer_reduce, .flops = flops_reduce};

static enum ls_status infer_in_place(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    char a[LS_SHAPE_TEXT], b[LS_SHAPE_TEXT];
    n->n_out = 0;
    for (int i = 1; i < n->n_in; i++)
        if (ls__in_is_present(n, i) && !ls_shape_is_equal(ls__in_shape(g, n, 0), ls__in_shape(g, n, i)))
            return ls_fail(LS_INTERNAL, "update of %s with %s", ls_shape_text(ls__in_shape(g, n, 0), a),
                           ls_shape_text(ls__in_shape(g, n, i), b));
    return LS_OK;
}

static double flops_sgd(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->in[0], 7);
}

static double flops_adamw(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->in[0], 16);
}

const struct ls_op_def ls__op_sgd = {.min_in = 2, .max_in = 3, .infer = infer_in_place, .flops = flops_sgd};
const struct ls_op_def ls__op_adamw = {.min_in = 4, .max_in = 4, .infer = infer_in_place, .flops = flops_adamw};
const struct ls_op_def ls__op_running_stats = {.min_in = 2, .max_in = 2, .infer = infer_in_place};
