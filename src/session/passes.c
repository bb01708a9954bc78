/* passes.c: the order of the passes; see passes.h. */
#include "session/passes.h"

static void sum_in_float(struct ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == LS_OP_REDUCE && g->nodes[i].attrs.scale_log2 == LS_SCALE_GRAD)
            g->nodes[i].attrs.float_sum = true;
}

static enum ls_status append(const struct ls_passes *p, struct ls_graph *g)
{
    const bool is_training = p->build.is_training;
    TRY(ls_graph_fuse(g));
    TRY(ls_graph_add_loss(g, is_training ? (float)p->label_smoothing : 0));
    if (!is_training) return LS_OK;
    TRY(ls_graph_add_gradient(g));
    TRY(ls_optim_add_update(g, &p->optim));
    if (p->sums_in_float) sum_in_float(g);
    return LS_OK;
}

enum ls_status ls__passes_run(const struct ls_passes *p, const struct ls_model *model, struct ls_graph **out)
{
    *out = NULL;
    TRY(ls_model_build(model, &p->build, out));
    (*out)->batch_size = p->batch_size;
    (*out)->is_low_memory = p->is_low_memory;
    (*out)->is_mixing = p->is_mixing;
    enum ls_status status = append(p, *out);
    if (status != LS_OK) ls_graph_destroy(out);
    return status;
}
