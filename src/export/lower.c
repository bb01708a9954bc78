/* lower.c: walks the graph, calls each op's function and folds batch norm into the layer before it (lower.h). */
#include "export/lower.h"

#include "base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static lower_fn *const functions[LS_N_OPS] = {
    [LS_OP_CONV2D] = ls__lower_conv2d,
    [LS_OP_LINEAR] = ls__lower_linear,
    [LS_OP_BIAS] = ls__lower_bias,
    [LS_OP_RELU] = ls__lower_relu,
    [LS_OP_ACTIVATION] = ls__lower_activation,
    [LS_OP_MAXPOOL] = ls__lower_maxpool,
    [LS_OP_AVGPOOL] = ls__lower_avgpool,
    [LS_OP_BATCHNORM_EVAL] = ls__lower_batchnorm_eval,
    [LS_OP_GROUPNORM] = ls__lower_groupnorm,
    [LS_OP_LAYERNORM] = ls__lower_layernorm,
    [LS_OP_DROPOUT] = ls__lower_dropout,
    [LS_OP_LRN] = ls__lower_lrn,
    [LS_OP_ADD] = ls__lower_add,
    [LS_OP_CONCAT] = ls__lower_concat,
    [LS_OP_RESHAPE] = ls__lower_reshape,
};

const struct ls_shape *ls__lower_shape(const struct lowering *l, int value)
{
    return &l->g->values[value].shape;
}

struct ls_shape ls__lower_per_channel(const struct lowering *l, const struct ls_node *n)
{
    const struct ls_shape *src = ls__lower_shape(l, n->in[0]);
    struct ls_shape shape = {src->n_dims - 1, {src->dims[1], 1, 1}};
    return shape;
}

/* --- names --- */

/* The logits have the network's word for them; others the layer's, and a number that makes it unique. A layer that
 * takes a batch norm in gives what that would. */
static enum ls_status name_output(struct lowering *l, const struct ls_node *n)
{
    int norm = l->folded_by[n - l->g->nodes], out = norm >= 0 ? l->g->nodes[norm].out[0] : n->out[0];
    const char *name = l->net->output;
    if (out != l->g->logits) TRY(ls__onnx_name(l->net, &name, "%s.%d", n->name, out));
    l->names[n->out[0]] = l->names[out] = name;
    return LS_OK;
}

enum ls_status ls__lower_begin(struct lowering *l, const struct ls_node *n, const char *op, struct onnx_node **node)
{
    const char *name;
    TRY(ls__onnx_name(l->net, &name, "%s", n->name));
    TRY(name_output(l, n));
    TRY(ls__onnx_add_node(l->net, op, name, node));
    ls__onnx_add_input(*node, l->names[n->in[0]]);
    (*node)->output = l->names[n->out[0]];
    return LS_OK;
}

enum ls_status ls__lower_part(struct lowering *l, const struct ls_node *n, const char *op, const char *what,
                              struct onnx_node **node)
{
    const char *name, *output;
    TRY(ls__onnx_name(l->net, &name, "%s/%s", n->name, what));
    TRY(ls__onnx_name(l->net, &output, "%s.%d.%s", n->name, n->out[0], what));
    TRY(ls__onnx_add_node(l->net, op, name, node));
    (*node)->output = output;
    return LS_OK;
}

/* --- stored values --- */

enum ls_status ls__lower_values(const struct lowering *l, int value, const float **data)
{
    const struct ls_value *v = &l->g->values[value];
    const struct ls_ckpt_tensor *t = ls_ckpt_find(l->ckpt, v->name);
    char have[LS_SHAPE_TEXT], want[LS_SHAPE_TEXT];
    if (!t) return ls_fail(LS_CHECKPOINT, "%s holds no tensor '%s', which the model needs", l->path, v->name);
    if (t->dtype != LS_F32 || !ls_shape_is_equal(&t->shape, &v->shape))
        return ls_fail(LS_CHECKPOINT, "%s: tensor '%s' is %s %s, but the model needs f32 %s", l->path, v->name,
                       ls_dtype_name(t->dtype), ls_shape_text(&t->shape, have), ls_shape_text(&v->shape, want));
    *data = t->data;
    return LS_OK;
}

enum ls_status ls__lower_tensor(struct lowering *l, int value, const char **name)
{
    const struct ls_value *v = &l->g->values[value];
    const float *data;
    TRY(ls__lower_values(l, value, &data));
    TRY(ls__onnx_name(l->net, name, "%s", v->name));
    return ls__onnx_add_tensor(l->net,
                               &(struct onnx_tensor){.name = *name, .dtype = LS_F32, .shape = v->shape, .data = data});
}

enum ls_status ls__lower_tensor_as(struct lowering *l, int value, const struct ls_shape *shape, const char **name)
{
    const float *data;
    char text[LS_SHAPE_TEXT];
    TRY(ls__lower_values(l, value, &data));
    TRY(ls__onnx_name(l->net, name, "%s.%s", l->g->values[value].name, ls_shape_text(shape, text)));
    return ls__onnx_add_tensor(l->net,
                               &(struct onnx_tensor){.name = *name, .dtype = LS_F32, .shape = *shape, .data = data});
}

enum ls_status ls__lower_number(struct lowering *l, const struct ls_node *n, const char *what, float value,
                                const char **name)
{
    const struct ls_shape none = {.n_dims = 0};
    float *data;
    TRY(ls__onnx_name(l->net, name, "%s.%d.%s", n->name, n->out[0], what));
    TRY(ls__onnx_make_tensor(l->net, *name, &none, &data));
    *data = value;
    return LS_OK;
}

/* --- batch norm as part of the layer before it --- */

/* w' = w * s and b' = beta + (b - mean) * s with s = gamma / sqrt(var + eps), for each output channel, in double. */
static enum ls_status fold(struct lowering *l, const struct ls_node *n, const struct ls_node *norm,
                           const char **weights, const char **bias)
{
    const struct ls_shape *shape = ls__lower_shape(l, n->in[1]);
    int64_t oc = shape->dims[0], per_channel = ls_shape_count(shape) / oc;
    const float *w, *b = NULL, *gamma, *beta, *mean, *var;
    float *new_w, *new_b;
    TRY(ls__lower_values(l, n->in[1], &w));
    if (n->n_in > 2 && n->in[2] >= 0) TRY(ls__lower_values(l, n->in[2], &b));
    TRY(ls__lower_values(l, norm->in[1], &gamma));
    TRY(ls__lower_values(l, norm->in[2], &beta));
    TRY(ls__lower_values(l, norm->in[3], &mean));
    TRY(ls__lower_values(l, norm->in[4], &var));
    TRY(ls__onnx_name(l->net, weights, "%s.folded", l->g->values[n->in[1]].name));
    TRY(ls__onnx_name(l->net, bias, "%s.folded_bias", l->g->values[n->in[1]].name));
    TRY(ls__onnx_make_tensor(l->net, *weights, shape, &new_w));
    TRY(ls__onnx_make_tensor(l->net, *bias, &LS_SHAPE1(oc), &new_b));
    for (int64_t c = 0; c < oc; c++) {
        double s = (double)gamma[c] / sqrt((double)var[c] + (double)norm->attrs.eps);
        new_b[c] = (float)((double)beta[c] + ((b ? (double)b[c] : 0) - (double)mean[c]) * s);
        for (int64_t i = c * per_channel; i < (c + 1) * per_channel; i++) new_w[i] = (float)((double)w[i] * s);
    }
    return LS_OK;
}

enum ls_status ls__lower_weights(struct lowering *l, const struct ls_node *n, const char **weights, const char **bias)
{
    int norm = l->folded_by[n - l->g->nodes];
    *bias = NULL;
    if (norm >= 0) return fold(l, n, &l->g->nodes[norm], weights, bias);
    TRY(ls__lower_tensor(l, n->in[1], weights));
    return n->n_in > 2 && n->in[2] >= 0 ? ls__lower_tensor(l, n->in[2], bias) : LS_OK;
}

static int count_readers(const struct ls_graph *g, int value)
{
    int n_readers = value == g->logits;
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++) n_readers += g->nodes[i].in[k] == value;
    return n_readers;
}

static void find_folds(struct lowering *l)
{
    const struct ls_graph *g = l->g;
    for (int i = 0; i < g->n_nodes; i++) {
        const struct ls_node *n = &g->nodes[i];
        int before = n->op == LS_OP_BATCHNORM_EVAL ? g->values[n->in[0]].producer : -1;
        if (before < 0 || n->attrs.relu || g->nodes[before].attrs.relu || count_readers(g, n->in[0]) != 1) continue;
        if (g->nodes[before].op == LS_OP_CONV2D || g->nodes[before].op == LS_OP_LINEAR) l->folded_by[before] = i;
    }
}

static bool is_folded(const struct lowering *l, int node)
{
    for (int i = 0; i < node; i++)
        if (l->folded_by[i] == node) return true;
    return false;
}

/* --- the walk --- */

/* A relu that is part of the node, where a pass has put it there. */
static enum ls_status add_relu(struct lowering *l, const struct ls_node *n)
{
    struct onnx_node *last = &l->net->nodes[l->net->n_nodes - 1], *relu;
    const char *before, *name, *after = last->output;
    TRY(ls__onnx_name(l->net, &before, "%s.%d.before_relu", n->name, n->out[0]));
    TRY(ls__onnx_name(l->net, &name, "%s/relu", n->name));
    last->output = before;
    TRY(ls__onnx_add_node(l->net, "Relu", name, &relu));
    ls__onnx_add_input(relu, before);
    relu->output = after;
    return LS_OK;
}

static enum ls_status lower_node(struct lowering *l, int i)
{
    const struct ls_node *n = &l->g->nodes[i];
    if (is_folded(l, i)) return LS_OK;
    if (!functions[n->op])
        return ls_fail(LS_UNSUPPORTED, "layer '%s': no way is known to say '%s' in ONNX", n->name, ls_op_name(n->op));
    TRY(functions[n->op](l, n));
    return n->attrs.relu ? add_relu(l, n) : LS_OK;
}

static enum ls_status lower_all(struct lowering *l, bool with_fold, const char *input)
{
    const struct ls_graph *g = l->g;
    TRY(ls__calloc(&l->names, (size_t)g->n_values, sizeof *l->names));
    TRY(ls__calloc(&l->folded_by, (size_t)g->n_nodes + 1, sizeof *l->folded_by));
    for (int i = 0; i < g->n_nodes; i++) l->folded_by[i] = -1;
    if (with_fold) find_folds(l);
    l->names[g->input] = input;
    for (int i = 0; i < g->n_nodes; i++) TRY(lower_node(l, i));
    return LS_OK;
}

enum ls_status ls__lower(const struct ls_graph *g, const struct ls_ckpt *ckpt, const char *path, bool with_fold,
                         const char *input, struct onnx_network *net)
{
    struct lowering l = {.g = g, .ckpt = ckpt, .path = path, .net = net};
    enum ls_status status = lower_all(&l, with_fold, input);
    free(l.names);
    free(l.folded_by);
    return status;
}
