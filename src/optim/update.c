/* update.c: the pass that appends the update nodes. See optim/optim.h. */
#include "optim/optim.h"

#include <stdio.h>

static enum ls_status add_state(struct ls_graph *g, const char *what, int param, int *id)
{
    char name[320];
    const struct ls_shape shape = g->values[param].shape;
    snprintf(name, sizeof name, "optimizer.%s.%s", what, g->values[param].name);
    return ls_graph_add_value(g, name, LS_VALUE_STATE, LS_F32, &shape, id);
}

static enum ls_status add_param_update(struct ls_graph *g, const struct ls_optim *o, int param)
{
    struct ls_attrs attrs = {.scale_log2 = LS_SCALE_GRAD, .weight_decay = (float)o->weight_decay};
    int in[4] = {param, g->values[param].grad, -1, -1}, n_in = 2;
    if (o->is_adamw) {
        attrs.beta1 = (float)o->beta1;
        attrs.beta2 = (float)o->beta2;
        attrs.eps = (float)o->eps;
        TRY(add_state(g, "m", param, &in[n_in++]));
        TRY(add_state(g, "v", param, &in[n_in++]));
    } else if (o->momentum > 0) {
        attrs.momentum = (float)o->momentum;
        attrs.nesterov = o->nesterov;
        TRY(add_state(g, "momentum", param, &in[n_in++]));
    }
    return ls_graph_add_node(g, o->is_adamw ? LS_OP_ADAMW : LS_OP_SGD, g->values[param].name, &attrs, in, n_in, NULL);
}

/* The momentum of the batch norm a running statistic belongs to: the node that made what its sum adds up. */
static float momentum_of(const struct ls_graph *g, int buffer)
{
    const struct ls_node *reduce = &g->nodes[g->values[g->values[buffer].grad].producer];
    return g->nodes[g->values[reduce->in[0]].producer].attrs.momentum;
}

enum ls_status ls_optim_add_update(struct ls_graph *g, const struct ls_optim *o)
{
    int n_values = g->n_values;
    for (int i = 0; i < n_values; i++) {
        if (g->values[i].grad < 0) continue;
        if (g->values[i].kind == LS_VALUE_PARAM) {
            TRY(add_param_update(g, o, i));
        } else if (g->values[i].kind == LS_VALUE_BUFFER) {
            const struct ls_attrs attrs = {.scale_log2 = LS_SCALE_RUNNING, .momentum = momentum_of(g, i)};
            const int in[2] = {i, g->values[i].grad};
            TRY(ls_graph_add_node(g, LS_OP_RUNNING_STATS, g->values[i].name, &attrs, in, 2, NULL));
        }
    }
    return LS_OK;
}
