/* gradient.c: the pass that appends the backward nodes.
 *
 * In:  a graph ending in SOFTMAX_CE, whose first output already is the gradient of the logits.
 * Out: the same graph plus backward nodes, in an order in which gradients are ready for reduction as early as can be,
 *      and a REDUCE node for each parameter's gradient and each batch-norm statistic.
 *
 * The pass walks the forward nodes backwards. `grad[v]` is the gradient of value v so far; when a value feeds several
 * nodes, a second arrival is joined by an ADD, or waits in `more[v]` for a node that takes two parts. Nothing is
 * computed for values that do not depend on a parameter (the input, and with it the first layer's diff_src).
 */
#include "base/mem.h"
#include "graph/op.h"

#include <stdio.h>
#include <stdlib.h>

/* A value that was computed again counts as the one it repeats. */
static int original(const struct ls_gradient *gr, int value)
{
    return value < gr->n_values ? value : gr->original[value - gr->n_values];
}

bool ls__gradient_is_needed(const struct ls_gradient *gr, int value)
{
    return value >= 0 && gr->is_needed[original(gr, value)];
}

int ls__gradient_n_trained(const struct ls_gradient *gr, int node)
{
    const struct ls_node *n = &gr->g->nodes[node];
    int n_trained = 0;
    for (int i = 1; i < n->n_in; i++) n_trained += ls__gradient_is_needed(gr, n->in[i]);
    return n_trained;
}

static bool takes_two_parts(const struct ls_graph *g, int value)
{
    const int producer = g->values[value].producer;
    return producer >= 0 && g->nodes[producer].op == LS_OP_BATCHNORM && g->nodes[producer].n_in > 3;
}

int ls__gradient_more(const struct ls_gradient *gr, int value)
{
    return gr->more[original(gr, value)];
}

enum ls_status ls__gradient_flow(struct ls_gradient *gr, int value, int diff)
{
    value = original(gr, value);
    if (gr->grad[value] < 0) {
        gr->grad[value] = diff;
        return LS_OK;
    }
    const bool is_waiting = takes_two_parts(gr->g, value); /* the last part; those before it are added in their order */
    const int in[2] = {gr->grad[value], is_waiting ? gr->more[value] : diff};
    const struct ls_attrs none = {0};
    if (is_waiting) gr->more[value] = diff;
    if (in[1] < 0) return LS_OK;
    return ls_graph_add_node(gr->g, LS_OP_ADD, "join", &none, in, 2, &gr->grad[value]);
}

static enum ls_status rename_value(struct ls_graph *g, int value, const char *prefix, const char *of)
{
    char name[256], *copy;
    snprintf(name, sizeof name, "%s.%s", prefix, of);
    TRY(ls__strdup(&copy, name));
    free(g->values[value].name);
    g->values[value].name = copy;
    return LS_OK;
}

/* Appends REDUCE diff -> a new SUM named "sum.<of>". */
static enum ls_status add_reduce(struct ls_graph *g, const char *of, int diff, const struct ls_attrs *attrs, int *sum)
{
    TRY(ls_graph_add_node(g, LS_OP_REDUCE, of, attrs, &diff, 1, sum));
    return rename_value(g, *sum, "sum", of);
}

static enum ls_status check_unused(const struct ls_graph *g, int value)
{
    return g->values[value].grad < 0 ? LS_OK
                                     : ls_fail(LS_UNSUPPORTED, "parameter %s is used twice", g->values[value].name);
}

enum ls_status ls__gradient_leaf(struct ls_gradient *gr, int value, int diff, const struct ls_attrs *attrs)
{
    int sum;
    if (gr->g->values[value].is_frozen) return LS_OK;
    TRY(check_unused(gr->g, value));
    TRY(add_reduce(gr->g, gr->g->values[value].name, diff, attrs, &sum));
    gr->g->values[value].grad = sum;
    return LS_OK;
}

enum ls_status ls__gradient_sum(struct ls_gradient *gr, int value, int sum)
{
    TRY(check_unused(gr->g, value));
    TRY(rename_value(gr->g, sum, "sum", gr->g->values[value].name));
    gr->g->values[value].grad = sum;
    return LS_OK;
}

enum ls_status ls__gradient_keep(struct ls_gradient *gr, int forward, const char *what, int value, int *kept)
{
    int out[LS_MAX_OUT];
    char prefix[32];
    snprintf(prefix, sizeof prefix, "kept.%s", what);
    TRY(ls__gradient_node(gr, LS_OP_KEEP, forward, &value, 1, out));
    *kept = out[0];
    return rename_value(gr->g, *kept, prefix, gr->g->nodes[forward].name);
}

enum ls_status ls__gradient_through_relu(struct ls_gradient *gr, int forward, int diff_dst, int *masked)
{
    int out[LS_MAX_OUT];
    *masked = diff_dst;
    if (!gr->g->nodes[forward].attrs.relu || gr->is_masked[original(gr, gr->g->nodes[forward].out[0])]) return LS_OK;
    const int in[2] = {gr->g->nodes[forward].out[0], diff_dst};
    TRY(ls__gradient_node(gr, LS_OP_RELU_BWD, forward, in, 2, out));
    *masked = out[0];
    return LS_OK;
}

static int count_uses(const struct ls_gradient *gr, int value)
{
    int n_uses = 0;
    for (int i = 0; i < gr->n_forward; i++)
        for (int k = 0; k < gr->g->nodes[i].n_in; k++) n_uses += gr->g->nodes[i].in[k] == value;
    return n_uses;
}

enum ls_status ls__gradient_mask_early(struct ls_gradient *gr, int forward, int diff_dst, int *masked)
{
    const struct ls_graph *g = gr->g;
    const int value = g->nodes[forward].in[0], producer = g->values[value].producer;
    int out[LS_MAX_OUT];
    *masked = diff_dst;
    if (producer < 0 || !g->nodes[producer].attrs.relu || g->nodes[producer].op == LS_OP_BATCHNORM) return LS_OK;
    if (count_uses(gr, original(gr, value)) != 1) return LS_OK;
    const int in[2] = {g->nodes[forward].out[0], diff_dst};
    TRY(ls__gradient_node(gr, LS_OP_RELU_BWD, forward, in, 2, out));
    gr->is_masked[original(gr, value)] = true;
    *masked = out[0];
    return LS_OK;
}

enum ls_status ls_graph_add_loss(struct ls_graph *g, float label_smoothing)
{
    const struct ls_shape labels = LS_SHAPE1(g->mb);
    const struct ls_attrs attrs = {.label_smoothing = label_smoothing};
    const struct ls_attrs exact = {.scale_log2 = LS_SCALE_STATS};
    if (g->logits < 0) return ls_fail(LS_INTERNAL, "loss of a graph without logits");
    TRY(ls_graph_add_value(g, "labels", LS_VALUE_LABELS, LS_I32, &labels, &g->labels));
    if (g->is_mixing && g->is_training) {
        TRY(ls_graph_add_value(g, "mix_labels", LS_VALUE_LABELS, LS_I32, &labels, &g->mix_labels));
        TRY(ls_graph_add_value(g, "mix_shares", LS_VALUE_INPUT, LS_F32, &labels, &g->mix_shares));
    }
    const int in[4] = {g->logits, g->labels, g->mix_labels, g->mix_shares};
    TRY(ls_graph_add_node(g, LS_OP_SOFTMAX_CE, "loss", &attrs, in, g->mix_labels >= 0 ? 4 : 2, NULL));
    g->stats = g->nodes[g->n_nodes - 1].out[1];
    return add_reduce(g, "stats", g->stats, &exact, &g->stats_sum);
}

static void mark_needed(struct ls_gradient *gr)
{
    const struct ls_graph *g = gr->g;
    for (int i = 0; i < gr->n_values; i++) {
        gr->grad[i] = gr->more[i] = -1;
        gr->is_needed[i] = g->values[i].kind == LS_VALUE_PARAM && !g->values[i].is_frozen;
    }
    for (int i = 0; i < gr->n_forward; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (ls__gradient_is_needed(gr, g->nodes[i].in[k]))
                for (int o = 0; o < g->nodes[i].n_out; o++)
                    if (g->nodes[i].out[o] >= 0) gr->is_needed[g->nodes[i].out[o]] = true;
}

/* The backward of forward node i, from what `node` computed: the node itself or the one that repeats it. */
static enum ls_status walk_node(struct ls_gradient *gr, int i, int node)
{
    const struct ls_node *n = &gr->g->nodes[i];
    const struct ls_op_def *def = ls__op_def(n->op);
    if (n->op == LS_OP_SOFTMAX_CE) return ls__gradient_flow(gr, n->in[0], n->out[0]);
    if (!def->gradient || n->n_out == 0 || gr->grad[n->out[0]] < 0 || !gr->is_needed[n->out[0]]) return LS_OK;
    return def->gradient(gr, node, gr->grad[n->out[0]]);
}

static enum ls_status walk(struct ls_gradient *gr, int *segment_of, int *again)
{
    int segment = -1;
    mark_needed(gr);
    for (int i = 0; i < gr->n_forward; i++) {
        segment_of[i] = -1;
        again[i] = i;
    }
    if (gr->g->is_low_memory) TRY(ls__recompute_plan(gr->g, segment_of));
    for (int i = gr->n_forward - 1; i >= 0; i--) {
        if (segment_of[i] != segment) TRY(ls__recompute_segment(gr, segment_of, segment_of[i], again));
        segment = segment_of[i];
        TRY(walk_node(gr, i, again[i]));
    }
    return LS_OK;
}

enum ls_status ls_graph_add_gradient(struct ls_graph *g)
{
    struct ls_gradient gr = {.g = g, .n_forward = g->n_nodes, .n_values = g->n_values};
    int *segment_of = NULL, *again = NULL;
    if (g->stats < 0 || !g->is_training) return ls_fail(LS_INTERNAL, "gradient of a graph without a training loss");
    enum ls_status status = ls__calloc(&gr.grad, (size_t)g->n_values, sizeof *gr.grad);
    if (status == LS_OK) status = ls__calloc(&gr.more, (size_t)g->n_values, sizeof *gr.more);
    if (status == LS_OK) status = ls__calloc(&gr.is_needed, (size_t)g->n_values, sizeof *gr.is_needed);
    if (status == LS_OK) status = ls__calloc(&gr.is_masked, (size_t)g->n_values, sizeof *gr.is_masked);
    if (status == LS_OK) status = ls__calloc(&segment_of, (size_t)g->n_nodes, sizeof *segment_of);
    if (status == LS_OK) status = ls__calloc(&again, (size_t)g->n_nodes, sizeof *again);
    if (status == LS_OK) status = walk(&gr, segment_of, again);
    free(segment_of);
    free(again);
    free(gr.original);
    free(gr.is_masked);
    free(gr.grad);
    free(gr.more);
    free(gr.is_needed);
    return status;
}
