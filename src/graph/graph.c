/* graph.c: values, nodes and the helpers of the op rules. See graph/graph.h. */
#include "graph/graph.h"

#include "base/mem.h"
#include "graph/op.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[LS_N_OPS] = {
#define LS_OP_NAME(NAME, name) [LS_OP_##NAME] = #name,
    LS_OP_MAP(LS_OP_NAME)
#undef LS_OP_NAME
};

const char *ls_op_name(enum ls_op op)
{
    return op_names[op];
}

enum ls_status ls_graph_create(struct ls_graph **out, int64_t mb, bool is_training)
{
    *out = NULL;
    TRY(ls__calloc(out, 1, sizeof **out));
    **out = (struct ls_graph){.mb = mb,
                              .is_training = is_training,
                              .input = -1,
                              .labels = -1,
                              .logits = -1,
                              .stats = -1,
                              .stats_sum = -1,
                              .mix_labels = -1,
                              .mix_shares = -1};
    return LS_OK;
}

void ls_graph_destroy(struct ls_graph **graph)
{
    struct ls_graph *g = *graph;
    if (!g) return;
    for (int i = 0; i < g->n_values; i++) free(g->values[i].name);
    for (int i = 0; i < g->n_nodes; i++) free(g->nodes[i].name);
    free(g->values);
    free(g->nodes);
    free(g);
    *graph = NULL;
}

/* Room for one more in an array that doubles: full exactly when n is 0 or a power of two >= 16. */
static enum ls_status room_for_one(void *array, int n, size_t size)
{
    if (n == 0) return ls__grow(array, 0, 16, size);
    if (n >= 16 && (n & (n - 1)) == 0) return ls__grow(array, (size_t)n, 2 * (size_t)n, size);
    return LS_OK;
}

enum ls_status ls_graph_add_value(struct ls_graph *g, const char *name, enum ls_value_kind kind, enum ls_dtype dtype,
                                  const struct ls_shape *shape, int *id)
{
    char made[32];
    snprintf(made, sizeof made, "t%d", g->n_values);
    TRY(room_for_one(&g->values, g->n_values, sizeof *g->values));
    struct ls_value *v = &g->values[g->n_values];
    *v = (struct ls_value){.kind = kind, .dtype = dtype, .shape = *shape, .producer = -1, .grad = -1};
    TRY(ls__strdup(&v->name, name ? name : made));
    *id = g->n_values++;
    return LS_OK;
}

static enum ls_status check_inputs(const struct ls_graph *g, const struct ls_node *n, const struct ls_op_def *def)
{
    if (n->n_in < def->min_in || n->n_in > def->max_in)
        return ls_fail(LS_INTERNAL, "%s takes %d to %d inputs, not %d", ls_op_name(n->op), def->min_in, def->max_in,
                       n->n_in);
    for (int i = 0; i < n->n_in; i++)
        if (n->in[i] < -1 || n->in[i] >= g->n_values || (i < def->min_in && n->in[i] == -1))
            return ls_fail(LS_INTERNAL, "%s: input %d is no value", ls_op_name(n->op), i);
    return LS_OK;
}

/* Completes a node whose op, attrs, inputs and forward are set: infers the outputs and appends everything. */
static enum ls_status append(struct ls_graph *g, struct ls_node *n, const char *name)
{
    const struct ls_op_def *def = ls__op_def(n->op);
    struct ls_out out[LS_MAX_OUT] = {0};
    TRY(check_inputs(g, n, def));
    TRY(def->infer(g, n, out));
    TRY(room_for_one(&g->nodes, g->n_nodes, sizeof *g->nodes));
    for (int i = 0; i < n->n_out; i++) {
        n->out[i] = -1;
        if (!out[i].is_present) continue;
        enum ls_value_kind kind = out[i].kind ? out[i].kind : LS_VALUE_TEMP;
        TRY(ls_graph_add_value(g, NULL, kind, out[i].dtype, &out[i].shape, &n->out[i]));
        g->values[n->out[i]].producer = g->n_nodes;
        g->values[n->out[i]].is_workspace = out[i].is_workspace;
    }
    TRY(ls__strdup(&n->name, name ? name : ls_op_name(n->op)));
    g->nodes[g->n_nodes++] = *n;
    return LS_OK;
}

enum ls_status ls_graph_add_node(struct ls_graph *g, enum ls_op op, const char *name, const struct ls_attrs *attrs,
                                 const int *in, int n_in, int *dst)
{
    struct ls_node n = {.op = op, .attrs = *attrs, .n_in = n_in, .forward = -1};
    if (n_in > LS_MAX_IN) return ls_fail(LS_INTERNAL, "%s: %d inputs", ls_op_name(op), n_in);
    memcpy(n.in, in, (size_t)n_in * sizeof *in);
    TRY(append(g, &n, name));
    if (dst) *dst = g->nodes[g->n_nodes - 1].out[0];
    return LS_OK;
}

enum ls_status ls__gradient_node(struct ls_gradient *gr, enum ls_op op, int forward, const int *in, int n_in,
                                 int out[LS_MAX_OUT])
{
    struct ls_graph *g = gr->g;
    struct ls_node n = {.op = op, .attrs = g->nodes[forward].attrs, .n_in = n_in, .forward = forward};
    memcpy(n.in, in, (size_t)n_in * sizeof *in);
    TRY(append(g, &n, g->nodes[forward].name));
    memcpy(out, g->nodes[g->n_nodes - 1].out, sizeof n.out);
    return LS_OK;
}

int ls_graph_find_value(const struct ls_graph *g, const char *name)
{
    for (int i = 0; i < g->n_values; i++)
        if (ls_value_is_stored(&g->values[i]) && strcmp(g->values[i].name, name) == 0) return i;
    return -1;
}

/* --- helpers of the op rules --- */

const struct ls_shape *ls__in_shape(const struct ls_graph *g, const struct ls_node *n, int index)
{
    return &g->values[n->in[index]].shape;
}

bool ls__in_is_present(const struct ls_node *n, int index)
{
    return index < n->n_in && n->in[index] >= 0;
}

enum ls_status ls__like_forward(const struct ls_graph *g, const struct ls_node *n, int index, struct ls_out *out)
{
    if (n->forward < 0) return ls_fail(LS_INTERNAL, "%s without its forward node", ls_op_name(n->op));
    const struct ls_node *f = &g->nodes[n->forward];
    if (!ls__in_is_present(f, index)) return LS_OK;
    out->is_present = true;
    out->shape = *ls__in_shape(g, f, index);
    return LS_OK;
}

enum ls_status ls__like_input(const struct ls_graph *g, struct ls_node *n, int index, struct ls_out out[LS_MAX_OUT])
{
    n->n_out = 1;
    out[0].is_present = true;
    out[0].shape = *ls__in_shape(g, n, index);
    return LS_OK;
}

enum ls_status ls__need_image(const struct ls_graph *g, const struct ls_node *n)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_shape *src = ls__in_shape(g, n, 0);
    if (src->n_dims == 4) return LS_OK;
    return ls_fail(LS_DATA, "%s needs an image (channels x height x width), but gets the vector %s", ls_op_name(n->op),
                   ls_shape_text(src, text));
}

/* How often a window of `extent` fits; rounded up only if the last one begins before `begin_end`, as in PyTorch. */
static int64_t windows_of(int64_t padded, int64_t extent, int64_t stride, bool ceil, int64_t begin_end)
{
    int64_t n = (padded - extent) / stride + 1;
    return ceil && (padded - extent) % stride && n * stride < begin_end ? n + 1 : n;
}

enum ls_status ls__window_out(const struct ls_attrs *a, const struct ls_shape *src, int64_t *oh, int64_t *ow)
{
    int64_t dh = a->dh ? a->dh : 1, dw = a->dw ? a->dw : 1;
    int64_t eh = (a->kh - 1) * dh + 1, ew = (a->kw - 1) * dw + 1; /* extent of the dilated window */
    int64_t h = src->dims[2] + 2 * (int64_t)a->ph, w = src->dims[3] + 2 * (int64_t)a->pw;
    if (a->kh < 1 || a->kw < 1 || a->sh < 1 || a->sw < 1 || a->ph < 0 || a->pw < 0)
        return ls_fail(LS_DATA, "kernel and stride must be at least 1 and padding at least 0");
    if (eh > h || ew > w)
        return ls_fail(LS_DATA, "kernel %lldx%lld does not fit the %lldx%lld input (with padding %dx%d)", (long long)eh,
                       (long long)ew, (long long)src->dims[2], (long long)src->dims[3], a->ph, a->pw);
    *oh = windows_of(h, eh, a->sh, a->ceil, src->dims[2] + a->ph);
    *ow = windows_of(w, ew, a->sw, a->ceil, src->dims[3] + a->pw);
    return LS_OK;
}

enum ls_status ls__pool_out(const struct ls_graph *g, const struct ls_node *n, struct ls_shape *dst)
{
    const struct ls_attrs *a = &n->attrs;
    int64_t oh, ow;
    TRY(ls__need_image(g, n));
    const struct ls_shape *src = ls__in_shape(g, n, 0);
    if (a->oh > 0) { /* adaptive: windows follow from the sizes, and may overlap */
        *dst = LS_SHAPE4(src->dims[0], src->dims[1], a->oh, a->ow);
        return LS_OK;
    }
    TRY(ls__window_out(a, src, &oh, &ow));
    if (a->ph * 2 > a->kh || a->pw * 2 > a->kw)
        return ls_fail(LS_DATA, "padding %dx%d is more than half of the %dx%d window", a->ph, a->pw, a->kh, a->kw);
    *dst = LS_SHAPE4(src->dims[0], src->dims[1], oh, ow);
    return LS_OK;
}

double ls__count_flops(const struct ls_graph *g, int value, double per_element)
{
    return value < 0 ? 0 : per_element * (double)ls_shape_count(&g->values[value].shape);
}

double ls_node_flops(const struct ls_graph *g, const struct ls_node *n)
{
    const struct ls_op_def *def = ls__op_def(n->op);
    if (def->flops) return def->flops(g, n);
    return n->n_out ? ls__count_flops(g, n->out[0], 1) : 0;
}
