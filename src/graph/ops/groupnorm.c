/* groupnorm: src [mb,c,h,w] or [mb,c], gamma [c], beta [c] -> dst like src: each sample's groups of channels have mean
 * 0 and variance 1 before gamma and beta. No sample sees another, so training and evaluation are the same. */
#include "graph/ops/norm.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    const int64_t c = ls__in_shape(g, n, 0)->dims[1];
    if (n->attrs.groups < 1 || c % n->attrs.groups)
        return ls_fail(LS_DATA, "%lld channels do not divide into %d groups", (long long)c, n->attrs.groups);
    for (int i = 1; i < 3; i++)
        if (ls_shape_count(ls__in_shape(g, n, i)) != c)
            return ls_fail(LS_DATA, "group norm of %lld channels gets %lld", (long long)c,
                           (long long)ls_shape_count(ls__in_shape(g, n, i)));
    return ls__like_input(g, n, 0, out);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    return norm_gradient(gr, LS_OP_GROUPNORM_BWD, index, diff_dst);
}

const struct ls_op_def ls__op_groupnorm = {
    .min_in = 3, .max_in = 3, .infer = infer, .gradient = gradient, .flops = norm_flops};
const struct ls_op_def ls__op_groupnorm_bwd = {
    .min_in = 3, .max_in = 3, .infer = norm_infer_bwd, .flops = norm_flops_bwd};
