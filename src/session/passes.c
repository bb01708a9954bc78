/* passes.c: the order of the passes; see passes.h. */
#include "session/passes.h"

#include "settings/patterns.h"

#include <stdio.h>
#include <string.h>

static void sum_in_float(struct ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++)
        if (g->nodes[i].op == LS_OP_REDUCE && g->nodes[i].attrs.scale_log2 == LS_SCALE_GRAD)
            g->nodes[i].attrs.float_sum = true;
}

/* A batch norm's running statistics stay with its weights: frozen by name, or when weight and bias are. */
static bool is_frozen(const struct ls_passes *p, const struct ls_value *v)
{
    const char *dot = strrchr(v->name, '.');
    char weight[256], bias[256];
    if (ls__patterns_match(p->freeze, v->name)) return true;
    if (v->kind != LS_VALUE_BUFFER || !dot) return false;
    snprintf(weight, sizeof weight, "%.*s.weight", (int)(dot - v->name), v->name);
    snprintf(bias, sizeof bias, "%.*s.bias", (int)(dot - v->name), v->name);
    return ls__patterns_match(p->freeze, weight) && ls__patterns_match(p->freeze, bias);
}

static bool is_stored(const struct ls_value *v)
{
    return v->kind == LS_VALUE_PARAM || v->kind == LS_VALUE_BUFFER;
}

static enum ls_status check_patterns(const struct ls_graph *g, const char *option, const char *list)
{
    char pattern[LS_PATTERN_BYTES];
    for (int i = 0; ls__pattern_at(list, i, pattern); i++) {
        const char *last = NULL;
        bool is_used = false;
        for (int v = 0; v < g->n_values && !is_used; v++) {
            if (!is_stored(&g->values[v])) continue;
            last = g->values[v].name;
            is_used = ls__pattern_matches(pattern, last);
        }
        if (!is_used)
            return ls_fail(LS_USAGE, "--%s %s: no parameter has such a name; the last one is called %s", option,
                           pattern, last ? last : "nothing");
    }
    return LS_OK;
}

static enum ls_status freeze(const struct ls_passes *p, struct ls_graph *g)
{
    int n_trained = 0;
    TRY(check_patterns(g, "freeze", p->freeze));
    TRY(check_patterns(g, "lr-of", p->lr_of));
    for (int i = 0; i < g->n_values; i++) {
        struct ls_value *v = &g->values[i];
        v->is_frozen = is_stored(v) && is_frozen(p, v);
        n_trained += v->kind == LS_VALUE_PARAM && !v->is_frozen;
    }
    return n_trained > 0 ? LS_OK : ls_fail(LS_USAGE, "--freeze %s leaves nothing to train", p->freeze);
}

/* An update node has its parameter's name. */
static void set_rates(const struct ls_passes *p, struct ls_graph *g)
{
    for (int i = 0; i < g->n_nodes; i++) {
        struct ls_node *n = &g->nodes[i];
        if (n->op != LS_OP_SGD && n->op != LS_OP_ADAMW) continue;
        double factor = ls__rate_factor(p->lr_of, n->name, p->lr);
        if (factor != 1) n->attrs.lr_factor = factor > 0 ? factor : 1e-300; /* 0 would be none */
    }
}

static enum ls_status append(const struct ls_passes *p, struct ls_graph *g)
{
    const bool is_training = p->build.is_training;
    TRY(ls_graph_fuse(g));
    if (p->has_norm_add && is_training) TRY(ls_graph_fuse_adds(g));
    TRY(ls_graph_add_loss(g, is_training ? (float)p->label_smoothing : 0));
    if (!is_training) return LS_OK;
    if (p->freeze || p->lr_of) TRY(freeze(p, g));
    TRY(ls_graph_add_gradient(g));
    TRY(ls_optim_add_update(g, &p->optim));
    if (p->lr_of) set_rates(p, g);
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
