/* recompute.c: where backward may compute activations again instead of keeping them (--memory low).
 *
 * The forward nodes are cut into segments at places where a single activation crosses, made by an op that is cheap to
 * repeat. Only what crosses is kept from forward to backward; before the backward of a segment its nodes are appended
 * once more (gradient.c), and backward uses their results. The last segment is never repeated. The repeated nodes
 * compute the same numbers, so the gradients are the same to the last bit; a step takes up to a third longer.
 *
 *     forward:  [ segment 0 | segment 1 | segment 2 ]   backward: 2,  again 1, 1,  again 0, 0
 */
#include "base/mem.h"
#include "graph/op.h"

#include <stdlib.h>

enum { MAX_SEGMENTS = 16 };

static bool is_cheap(enum ls_op op)
{
    return op == LS_OP_MAXPOOL || op == LS_OP_AVGPOOL || op == LS_OP_ADD || op == LS_OP_BATCHNORM || op == LS_OP_RELU ||
           op == LS_OP_ACTIVATION || op == LS_OP_GROUPNORM || op == LS_OP_LAYERNORM || op == LS_OP_DROPOUT ||
           op == LS_OP_RESHAPE || op == LS_OP_CONCAT;
}

static double bytes_of(const struct ls_graph *g, int value)
{
    return value >= 0 && g->values[value].kind == LS_VALUE_TEMP ? (double)ls_shape_count(&g->values[value].shape) : 0;
}

static double node_bytes(const struct ls_graph *g, int node)
{
    double sum = 0;
    for (int o = 0; o < g->nodes[node].n_out; o++) sum += bytes_of(g, g->nodes[node].out[o]);
    return sum;
}

/* Whether only the first output of node `at - 1` is made before `at` and used from there on. */
static bool can_cut(const struct ls_graph *g, int at, int n_forward)
{
    const struct ls_node *before = &g->nodes[at - 1];
    if (!is_cheap(before->op)) return false;
    for (int i = at; i < n_forward; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++) {
            int v = g->nodes[i].in[k];
            int producer = v < 0 ? -1 : g->values[v].producer;
            if (producer >= 0 && producer < at && v != before->out[0]) return false;
        }
    return true;
}

/* Segments of about `target` bytes; what is kept and the largest segment, together. */
static double cut(const struct ls_graph *g, int n_forward, double target, int ends[MAX_SEGMENTS], int *n_segments)
{
    double kept = 0, inside = 0, largest = 0;
    *n_segments = 0;
    for (int at = 1; at <= n_forward; at++) {
        inside += node_bytes(g, at - 1);
        bool is_end = at == n_forward;
        if (!is_end && (inside < target || *n_segments == MAX_SEGMENTS - 1 || !can_cut(g, at, n_forward))) continue;
        ends[(*n_segments)++] = at;
        if (inside > largest) largest = inside;
        if (!is_end) kept += bytes_of(g, g->nodes[at - 1].out[0]);
        inside = 0;
    }
    return kept + largest;
}

enum ls_status ls__recompute_plan(const struct ls_graph *g, int *segment_of)
{
    int best[MAX_SEGMENTS], n_best = 0, ends[MAX_SEGMENTS], n;
    double total = 0, least = 0;
    for (int i = 0; i < g->n_nodes; i++) total += node_bytes(g, i);
    for (int parts = 1; parts <= MAX_SEGMENTS; parts++) {
        double peak = cut(g, g->n_nodes, total / parts, ends, &n);
        if (n_best > 0 && peak >= least) continue;
        least = peak;
        n_best = n;
        for (int i = 0; i < n; i++) best[i] = ends[i];
    }
    for (int i = 0, s = 0; i < g->n_nodes; i++) {
        if (i == best[s]) s++;
        segment_of[i] = s == n_best - 1 ? -1 : s; /* the last one is at hand when backward begins */
    }
    return LS_OK;
}

/* Appends the nodes of a segment once more. again[i]: the new node of forward node i. */
enum ls_status ls__recompute_segment(struct ls_gradient *gr, const int *segment_of, int segment, int *again)
{
    struct ls_graph *g = gr->g;
    for (int i = 0; i < gr->n_forward; i++) {
        if (segment_of[i] != segment) continue;
        struct ls_node n = g->nodes[i];
        for (int k = 0; k < n.n_in; k++) {
            int producer = n.in[k] < 0 ? -1 : g->values[n.in[k]].producer;
            if (producer < 0 || segment_of[producer] != segment) continue;
            for (int o = 0; o < g->nodes[producer].n_out; o++)
                if (g->nodes[producer].out[o] == n.in[k]) {
                    n.in[k] = g->nodes[again[producer]].out[o];
                    break;
                }
        }
        TRY(ls_graph_add_node(g, n.op, n.name, &n.attrs, n.in, n.n_in, NULL));
        again[i] = g->n_nodes - 1;
        TRY(ls__grow(&gr->original, (size_t)gr->n_original, (size_t)(g->n_values - gr->n_values),
                     sizeof *gr->original));
        for (; gr->n_original < g->n_values - gr->n_values; gr->n_original++) gr->original[gr->n_original] = -1;
        for (int o = 0; o < n.n_out; o++)
            if (n.out[o] >= 0) gr->original[g->nodes[again[i]].out[o] - gr->n_values] = n.out[o];
    }
    return LS_OK;
}
