/* fuse.c: the passes that fold a relu, or an add, into the op before it.
 *
 * conv2d, linear, batchnorm, batchnorm_eval and add can end in a relu (attrs.relu). A RELU node whose input is made by
 * one of them and used by nobody else disappears; its output becomes the output of that op. Runs before the gradient
 * pass, so backward comes out fused too. Arithmetic does not change: relu is applied to the same float either way.
 *
 * An ADD of what a batchnorm directly before it makes, and nobody else uses, becomes that batchnorm's `other`: what the
 * end of a residual block is. Gradients arrive in the same order as before, so with ref's arithmetic no bit changes.
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

/* The node stays, behind those that do. */
static void keep(struct ls_graph *g, const struct ls_node *n, int *n_kept)
{
    for (int o = 0; o < n->n_out; o++)
        if (n->out[o] >= 0) g->values[n->out[o]].producer = *n_kept;
    g->nodes[(*n_kept)++] = *n;
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
        keep(g, n, &n_kept);
    }
    g->n_nodes = n_kept;
    free(n_uses);
    return LS_OK;
}

/* What is added to the result of `norm` by `add`, the node after it, or -1: it cannot be taken over. */
static int find_other(const struct ls_graph *g, const struct ls_node *norm, const struct ls_node *add,
                      const int *n_uses)
{
    if (norm->op != LS_OP_BATCHNORM || norm->n_in != 3 || norm->attrs.relu) return -1;
    const int dst = norm->out[0];
    if (n_uses[dst] != 1 || dst == g->logits) return -1;
    return add->in[0] == dst ? add->in[1] : add->in[1] == dst ? add->in[0] : -1;
}

enum ls_status ls_graph_fuse_adds(struct ls_graph *g)
{
    int *n_uses = count_uses(g);
    if (!n_uses) return ls_fail(LS_NOMEM, "out of memory while fusing %d nodes", g->n_nodes);
    int n_kept = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        struct ls_node *n = &g->nodes[i];
        struct ls_node *into = n_kept > 0 ? &g->nodes[n_kept - 1] : NULL;
        const int other = n->op == LS_OP_ADD && into ? find_other(g, into, n, n_uses) : -1;
        if (other >= 0) {
            g->values[into->out[0]].producer = -1; /* nobody makes or uses it any more */
            into->in[into->n_in++] = other;
            into->out[0] = n->out[0];
            into->attrs.relu = n->attrs.relu;
            g->values[n->out[0]].producer = n_kept - 1;
            free(n->name);
            continue;
        }
        keep(g, n, &n_kept);
    }
    g->n_nodes = n_kept;
    free(n_uses);
    return LS_OK;
}
