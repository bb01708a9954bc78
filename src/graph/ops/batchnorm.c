/* batchnorm: ghost batch norm, over the samples of one shard, of images or vectors.
 *
 * Training: src [mb,c,h,w] or [mb,c], gamma [c], beta [c], other like src? -> dst, mean [c], var [c] (biased),
 * workspace. other is added before the relu: the end of a residual block in one node (ls_graph_fuse_adds). The running
 * statistics are buffers named "<node>.running_mean" and "<node>.running_var"; the shard's mean and unbiased variance
 * leave it through REDUCE nodes weighted by the shard's share of the batch, and RUNNING_STATS nodes apply them.
 * Evaluation: src, gamma, beta, running_mean, running_var -> dst.
 */
#include "graph/op.h"

#include <stdio.h>

static enum ls_status check(const struct ls_graph *g, const struct ls_node *n, int n_vectors)
{
    for (int i = 1; i <= n_vectors; i++)
        if (ls__in_shape(g, n, i)->dims[0] != ls__in_shape(g, n, 0)->dims[1])
            return ls_fail(LS_DATA, "batch norm of %lld channels gets %lld", (long long)ls__in_shape(g, n, i)->dims[0],
                           (long long)ls__in_shape(g, n, 0)->dims[1]);
    return LS_OK;
}

/* Values of one channel in the shard. */
static int64_t n_values(const struct ls_graph *g, const struct ls_node *n)
{
    const struct ls_shape *src = ls__in_shape(g, n, 0);
    return ls_shape_count(src) / src->dims[1];
}

/* The deviation of a single value is zero: the result would be beta whatever the input, and nothing before the layer
 * would learn. */
static enum ls_status need_two_values(const struct ls_graph *g, const struct ls_node *n)
{
    if (n_values(g, n) > 1) return LS_OK;
    return ls_fail(LS_USAGE,
                   "batch norm needs two values per channel, but a shard of 1 sample has one here; use a larger -b or "
                   "fewer --shards");
}

static enum ls_status infer(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    TRY(check(g, n, 2));
    TRY(need_two_values(g, n));
    const struct ls_shape *src = ls__in_shape(g, n, 0);
    if (ls__in_is_present(n, 3) && !ls_shape_is_equal(src, ls__in_shape(g, n, 3)))
        return ls_fail(LS_INTERNAL, "batch norm and what is added to it have other shapes");
    n->n_out = 4;
    out[0] = (struct ls_out){.is_present = true, .shape = *src};
    out[1] = out[2] = (struct ls_out){.is_present = true, .shape = LS_SHAPE1(src->dims[1])};
    out[3] = (struct ls_out){.is_present = true, .dtype = LS_U8, .shape = *src, .is_workspace = true};
    return LS_OK;
}

/* Sends a statistic of the shard to the running one, if the graph has it. */
static enum ls_status track(struct ls_gradient *gr, const struct ls_node *n, const char *which, int value, float factor)
{
    char name[256];
    const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_RUNNING, .by_share = true, .alpha = factor};
    snprintf(name, sizeof name, "%s.%s", n->name, which);
    int buffer = ls_graph_find_value(gr->g, name);
    return buffer < 0 ? LS_OK : ls__gradient_leaf(gr, buffer, value, &attrs);
}

static enum ls_status gradient(struct ls_gradient *gr, int index, int diff_dst)
{
    const struct ls_node n = gr->g->nodes[index];
    const struct ls_attrs leaf = {.scale_log2 = LS_SCALE_GRAD};
    const double per_channel = (double)n_values(gr->g, &n);
    int out[LS_MAX_OUT];
    const int dst = n.attrs.relu ? n.out[0] : -1; /* read for the mask only; else its memory is free earlier */
    const int more = ls__gradient_more(gr, n.out[0]);
    const int in[8] = {n.in[0], n.in[1], n.out[1], n.out[2], dst, diff_dst, n.out[3], more};
    TRY(ls__gradient_node(gr, LS_OP_BATCHNORM_BWD, index, in, more >= 0 ? 8 : 7, out));
    TRY(ls__gradient_leaf(gr, n.in[1], out[1], &leaf));
    TRY(ls__gradient_leaf(gr, n.in[2], out[2], &leaf));
    TRY(track(gr, &n, "running_mean", n.out[1], 1));
    TRY(track(gr, &n, "running_var", n.out[2], (float)(per_channel / (per_channel - 1))));
    if (ls__in_is_present(&n, 3) && ls__gradient_is_needed(gr, n.in[3])) TRY(ls__gradient_flow(gr, n.in[3], out[3]));
    return ls__gradient_is_needed(gr, n.in[0]) ? ls__gradient_flow(gr, n.in[0], out[0]) : LS_OK;
}

static double flops(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->out[0], 7); /* mean 1, variance 3, scale and shift 3 */
}

const struct ls_op_def ls__op_batchnorm = {
    .min_in = 3, .max_in = 4, .infer = infer, .gradient = gradient, .flops = flops};

static enum ls_status infer_eval(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    TRY(check(g, n, 4));
    return ls__like_input(g, n, 0, out);
}

const struct ls_op_def ls__op_batchnorm_eval = {.min_in = 5, .max_in = 5, .infer = infer_eval, .flops = flops};

static enum ls_status infer_bwd(const struct ls_graph *g, struct ls_node *n, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = n->forward >= 0 && ls__in_is_present(&g->nodes[n->forward], 3) ? 4 : 3;
    for (int i = 0; i < n->n_out; i++) TRY(ls__like_forward(g, n, i, &out[i]));
    return LS_OK;
}

static double flops_bwd(const struct ls_graph *g, const struct ls_node *n)
{
    return ls__count_flops(g, n->out[0], 11);
}

const struct ls_op_def ls__op_batchnorm_bwd = {.min_in = 4, .max_in = 8, .infer = infer_bwd, .flops = flops_bwd};
