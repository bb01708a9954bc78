/* keep and linear_sum: the gradient of a large linear layer, summed over the shards in one pass.
 *
 * Computing diff_weights per shard writes and reads a tensor the size of the layer once per shard, and adds it to a sum
 * of twice that size. For large layers that traffic costs more than the arithmetic. So shards only KEEP their rows of
 * src and diff_dst, which are small, and after the last shard LINEAR_SUM goes over the weights once: for each of them
 * the same products, rounded to fixed point per shard and added up, while the sum is in a register or the first cache.
 */
#include "graph/op.h"

static enum ls_status infer_keep(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    TRY(ls__like_input(g, n, 0, out));
    out[0].kind = LS_VALUE_KEPT;
    out[0].shape.dims[0] = g->batch_size;
    return LS_OK;
}

static double no_flops(const struct ls_graph *g, const struct ls_node *n)
{
    return 0;
}

const struct ls_op_def ls__op_keep = {.min_in = 1, .max_in = 1, .infer = infer_keep, .flops = no_flops};

static enum ls_status infer_sum(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 2;
    for (int i = 0; i < 2; i++) {
        TRY(ls__like_forward(g, n, 1 + i, &out[i]));
        out[i].kind = LS_VALUE_SUM;
        out[i].dtype = LS_I64;
    }
    return LS_OK;
}

static double flops_sum(const struct ls_graph *g, const struct ls_node *n)
{
    return 2.0 * (double)g->batch_size * (double)ls_shape_count(&g->values[n->out[0]].shape);
}

const struct ls_op_def ls__op_linear_sum = {.min_in = 2, .max_in = 2, .infer = infer_sum, .flops = flops_sum};
