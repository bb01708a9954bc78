/* fuse.c: the passes that fold a relu, or an add, into the op before it.
 *
 * conv2d, linear, batchnorm, batchnorm_eval and add can end in a relu (attrs.relu). A RELU node whose input is made by
 * one of them and used by nobody else disappears; its output becomes the output of that op. Runs before the gradient
 * pass, so backward comes out fused too. Arithmetic does not change: relu is applied to the same float either way.
 *
 * An ADD one of whose inputs is made by a batchnorm and used by nobody else becomes that batchnorm's `other`: what the
 * end of a residual block is. Of two batchnorms it is the later one, for `other` must be there when it runs.
 */
#include "base/mem.h"
#include "graph/op.h"

#include <stdlib.h>

static bool ends_in_relu(enum ls_op op)
{
    return op == LS_OP_CONV2D || op == LS_OP_LINEAR || op == LS_OP_BATCHNORM || op == LS_OP_BATCHNORM_EVAL ||
           op == LS_OP_ADD;
}

static int *count_uses(const struct ls_graph *g)
{
    int *n_uses = NULL;
    if (ls__calloc(&n_uses, (size_t)g->n_values, sizeof *n_uses) != LS_OK) return NULL;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] >= 0) n_uses[g->nodes[i].in[k]]++;
    return n_uses;
}

enum ls_status ls_graph_fuse(struct ls_graph *g)
{
    int *n_uses = count_uses(g);
    if (!n_uses) return ls_fail(LS_NOMEM, "out of memory while fusing %d nodes", g->n_nodes);
    int n_kept = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        struct ls_node *n = &g->nodes[i];
        int producer = n->op == LS_OP_RELU ? g->values[n->in[0]].producer : -1;
        if (producer >= 0 && ends_in_relu(g->nodes[producer].op) && !g->nodes[producer].attrs.relu &&
            g->nodes[producer].out[0] == n->in[0] && n_uses[n->in[0]] == 1 && n->in[0] != g->logits) {
            g->nodes[producer].attrs.relu = true;
            g->nodes[producer].out[0] = n->out[0];
            g->values[n->out[0]].producer = producer;
            g->values[n->in[0]].producer = -1; /* nobody makes or uses it any more */
            free(n->name);
            continue;
        }
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o] >= 0) g->values[n->out[o]].producer = n_kept;
        g->nodes[n_kept++] = *n;
    }
    g->n_nodes = n_kept;
    free(n_uses);
    return LS_OK;
}

/* The batchnorm that can take over ADD node `add`, or -1; *other: what is added to its result. */
static int find_norm(const struct ls_graph *g, const struct ls_node *add, const int *n_uses, int *other)
{
    int best = -1;
    for (int i = 0; i < 2; i++) {
        const int producer = g->values[add->in[i]].producer, rival = g->values[add->in[1 - i]].producer;
        if (producer < 0 || producer <= rival || n_uses[add->in[i]] != 1 || add->in[i] == g->logits) continue;
        const struct ls_node *norm = &g->nodes[producer];
        if (norm->op != LS_OP_BATCHNORM || norm->n_in != 3 || norm->attrs.relu || norm->out[0] != add->in[i]) continue;
        best = producer;
        *other = add->in[1 - i];
    }
    return best;
}

enum ls_status ls_graph_fuse_adds(struct ls_graph *g)
{
    int *n_uses = count_uses(g);
    if (!n_uses) return ls_fail(LS_NOMEM, "out of memory while fusing %d nodes", g->n_nodes);
    int n_kept = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        struct ls_node *n = &g->nodes[i];
        int other = -1, norm = n->op == LS_OP_ADD ? find_norm(g, n, n_uses, &other) : -1;
        if (norm >= 0) {
            struct ls_node *into = &g->nodes[norm];
            g->values[into->out[0]].producer = -1; /* nobody makes or uses it any more */
            into->in[into->n_in++] = other;
            into->out[0] = n->out[0];
            into->attrs.relu = n->attrs.relu;
            g->values[n->out[0]].producer = norm;
            free(n->name);
            continue;
        }
        for (int o = 0; o < n->n_out; o++)
            if (n->out[o] >= 0) g->values[n->out[o]].producer = n_kept;
        g->nodes[n_kept++] = *n;
    }
    g->n_nodes = n_kept;
    free(n_uses);
    return LS_OK;
}
