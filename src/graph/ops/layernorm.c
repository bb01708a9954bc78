/* layernorm: src [mb,c,h,w] or [mb,c]; gamma and beta [c]: the channels of each pixel have mean 0 and variance 1 before
 * them; or [c,h,w]: all of a sample. No sample sees another, so training and evaluation are the same. */
#include "graph/ops/norm.h"

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    const struct ls_shape *src = ls__in_shape(g, n, 0);
    const int64_t c = src->dims[1], all = ls_shape_count(src) / src->dims[0];
    for (int i = 1; i < 3; i++) {
        const struct ls_shape *s = ls__in_shape(g, n, i);
        const int64_t count = ls_shape_count(s);
        if (s->n_dims == 1 ? count != c : count != all || s->n_dims != src->n_dims - 1)
            return ls_fail(LS_DATA, "layer norm of %lld channels, %lld values in all, gets %lld", (long long)c,
                           (long long)all, (long long)count);
    }
    return ls__like_input(g, n, 0, out);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    return norm_gradient(gr, LS_OP_LAYERNORM_BWD, index, diff_dst);
}

const struct ls_op_def ls__op_layernorm = {
    .min_in = 3, .max_in = 3, .infer = infer, .gradient = gradient, .flops = norm_flops};
const struct ls_op_def ls__op_layernorm_bwd = {
    .min_in = 3, .max_in = 3, .infer = norm_infer_bwd, .flops = norm_flops_bwd};
