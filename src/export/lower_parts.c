/* lower_parts.c: activations, group and layer norm: where opset 17 has no operator of its own, several; see lower.h. */
#include "export/lower.h"

#include <math.h>

/* --- activations --- */

/* dst = x * y, the last step of several activations. */
static enum ls_status multiply(struct lowering *l, const struct ls_node *n, const char *y)
{
    struct onnx_node *node;
    TRY(ls__lower_begin(l, n, "Mul", &node));
    ls__onnx_add_input(node, y);
    return LS_OK;
}

/* An operator over one or two values; *out: the result's name. */
static enum ls_status step(struct lowering *l, const struct ls_node *n, const char *op, const char *what, const char *x,
                           const char *y, const char **out)
{
    struct onnx_node *node;
    TRY(ls__lower_part(l, n, op, what, &node));
    ls__onnx_add_input(node, x);
    if (y) ls__onnx_add_input(node, y);
    *out = node->output;
    return LS_OK;
}

/* x * (1 + y) / 2. */
static enum ls_status half_of_one_and(struct lowering *l, const struct ls_node *n, const char *y)
{
    const char *one, *half, *sum, *share;
    TRY(ls__lower_number(l, n, "one", 1, &one));
    TRY(ls__lower_number(l, n, "half", 0.5f, &half));
    TRY(step(l, n, "Add", "sum", y, one, &sum));
    TRY(step(l, n, "Mul", "share", sum, half, &share));
    return multiply(l, n, share);
}

static enum ls_status gelu(struct lowering *l, const struct ls_node *n)
{
    const char *root, *scaled, *erf;
    TRY(ls__lower_number(l, n, "root", (float)M_SQRT2, &root));
    TRY(step(l, n, "Div", "scaled", l->names[n->in[0]], root, &scaled));
    TRY(step(l, n, "Erf", "erf", scaled, NULL, &erf));
    return half_of_one_and(l, n, erf);
}

/* tanh(sqrt(2 / pi) * (x + 0.044715 x^3)) instead of the error function. */
static enum ls_status gelu_tanh(struct lowering *l, const struct ls_node *n)
{
    const char *x = l->names[n->in[0]], *cubic, *root, *square, *cube, *small, *inner, *scaled, *tanh;
    TRY(ls__lower_number(l, n, "cubic", 0.044715f, &cubic));
    TRY(ls__lower_number(l, n, "root", (float)sqrt(2 / M_PI), &root));
    TRY(step(l, n, "Mul", "square", x, x, &square));
    TRY(step(l, n, "Mul", "cube", square, x, &cube));
    TRY(step(l, n, "Mul", "small", cube, cubic, &small));
    TRY(step(l, n, "Add", "inner", x, small, &inner));
    TRY(step(l, n, "Mul", "scaled", inner, root, &scaled));
    TRY(step(l, n, "Tanh", "tanh", scaled, NULL, &tanh));
    return half_of_one_and(l, n, tanh);
}

static enum ls_status silu(struct lowering *l, const struct ls_node *n)
{
    const char *sigmoid;
    TRY(step(l, n, "Sigmoid", "sigmoid", l->names[n->in[0]], NULL, &sigmoid));
    return multiply(l, n, sigmoid);
}

static enum ls_status plain(struct lowering *l, const struct ls_node *n, const char *op)
{
    struct onnx_node *node;
    TRY(ls__lower_begin(l, n, op, &node));
    if (n->attrs.activation == LS_ACT_LEAKY_RELU) ls__onnx_add_float(node, "alpha", n->attrs.alpha);
    return LS_OK;
}

static enum ls_status relu6(struct lowering *l, const struct ls_node *n)
{
    const char *low, *high;
    struct onnx_node *node;
    TRY(ls__lower_number(l, n, "low", 0, &low));
    TRY(ls__lower_number(l, n, "high", 6, &high));
    TRY(ls__lower_begin(l, n, "Clip", &node));
    ls__onnx_add_input(node, low);
    ls__onnx_add_input(node, high);
    return LS_OK;
}

enum ls_status ls__lower_activation(struct lowering *l, const struct ls_node *n)
{
    switch (n->attrs.activation) {
    case LS_ACT_GELU:
        return gelu(l, n);
    case LS_ACT_GELU_TANH:
        return gelu_tanh(l, n);
    case LS_ACT_SILU:
        return silu(l, n);
    case LS_ACT_HARDSWISH:
        return plain(l, n, "HardSwish");
    case LS_ACT_TANH:
        return plain(l, n, "Tanh");
    case LS_ACT_SIGMOID:
        return plain(l, n, "Sigmoid");
    case LS_ACT_LEAKY_RELU:
        return plain(l, n, "LeakyRelu");
    case LS_ACT_RELU6:
        return relu6(l, n);
    case LS_N_ACTIVATIONS:
        break;
    }
    return ls_fail(LS_UNSUPPORTED, "layer '%s': no way is known to say activation %d in ONNX", n->name,
                   (int)n->attrs.activation);
}

/* --- norms --- */

static enum ls_status reshape(struct lowering *l, const struct ls_node *n, const char *what, const char *x,
                              const int64_t *dims, int n_dims, const char **out)
{
    const char *shape;
    TRY(ls__onnx_name(l->net, &shape, "%s.%d.%s_shape", n->name, n->out[0], what));
    TRY(ls__onnx_add_int64s(l->net, shape, dims, n_dims));
    return step(l, n, "Reshape", what, x, shape, out);
}

/* Ones or zeros, one for each group. */
static enum ls_status constants(struct lowering *l, const struct ls_node *n, const char *what, float value,
                                const char **name)
{
    float *data;
    TRY(ls__onnx_name(l->net, name, "%s.%d.%s", n->name, n->out[0], what));
    TRY(ls__onnx_make_tensor(l->net, *name, &LS_SHAPE1(n->attrs.groups), &data));
    for (int i = 0; i < n->attrs.groups; i++) data[i] = value;
    return LS_OK;
}

/* Groups of channels become channels, which InstanceNormalization makes even; 0 in a shape: as many as there are. */
enum ls_status ls__lower_groupnorm(struct lowering *l, const struct ls_node *n)
{
    const struct ls_shape *src = ls__lower_shape(l, n->in[0]), each = ls__lower_per_channel(l, n);
    const int64_t apart[3] = {0, n->attrs.groups, -1}, back[4] = {0, src->dims[1], src->dims[2], src->dims[3]};
    const char *ones, *zeros, *grouped, *even, *whole, *scaled, *gamma, *beta;
    struct onnx_node *node;
    TRY(constants(l, n, "ones", 1, &ones));
    TRY(constants(l, n, "zeros", 0, &zeros));
    TRY(ls__lower_tensor_as(l, n->in[1], &each, &gamma));
    TRY(ls__lower_tensor_as(l, n->in[2], &each, &beta));
    TRY(reshape(l, n, "grouped", l->names[n->in[0]], apart, 3, &grouped));
    TRY(ls__lower_part(l, n, "InstanceNormalization", "even", &node));
    ls__onnx_add_input(node, grouped);
    ls__onnx_add_input(node, ones);
    ls__onnx_add_input(node, zeros);
    ls__onnx_add_float(node, "epsilon", n->attrs.eps);
    even = node->output;
    TRY(reshape(l, n, "whole", even, back, src->n_dims, &whole));
    TRY(step(l, n, "Mul", "scaled", whole, gamma, &scaled));
    TRY(ls__lower_begin(l, n, "Add", &node));
    node->inputs[0] = scaled;
    ls__onnx_add_input(node, beta);
    return LS_OK;
}

static void add_norm(struct onnx_node *node, const char *gamma, const char *beta, int64_t axis, float eps)
{
    ls__onnx_add_input(node, gamma);
    ls__onnx_add_input(node, beta);
    ls__onnx_add_int(node, "axis", axis);
    ls__onnx_add_float(node, "epsilon", eps);
}

/* The channels of each pixel lie last while they are made even. */
static enum ls_status norm_of_pixels(struct lowering *l, const struct ls_node *n, const char *gamma, const char *beta)
{
    struct onnx_node *node;
    const char *last, *even;
    TRY(ls__lower_part(l, n, "Transpose", "last", &node));
    ls__onnx_add_input(node, l->names[n->in[0]]);
    ls__onnx_add_ints(node, "perm", (const int64_t[]){0, 2, 3, 1}, 4);
    last = node->output;
    TRY(ls__lower_part(l, n, "LayerNormalization", "even", &node));
    ls__onnx_add_input(node, last);
    add_norm(node, gamma, beta, 3, n->attrs.eps);
    even = node->output;
    TRY(ls__lower_begin(l, n, "Transpose", &node));
    node->inputs[0] = even;
    ls__onnx_add_ints(node, "perm", (const int64_t[]){0, 3, 1, 2}, 4);
    return LS_OK;
}

enum ls_status ls__lower_layernorm(struct lowering *l, const struct ls_node *n)
{
    const char *gamma, *beta;
    struct onnx_node *node;
    TRY(ls__lower_tensor(l, n->in[1], &gamma));
    TRY(ls__lower_tensor(l, n->in[2], &beta));
    bool is_image = ls__lower_shape(l, n->in[0])->n_dims == 4;
    if (is_image && ls__lower_shape(l, n->in[1])->n_dims == 1) return norm_of_pixels(l, n, gamma, beta);
    TRY(ls__lower_begin(l, n, "LayerNormalization", &node));
    add_norm(node, gamma, beta, 1, n->attrs.eps);
    return LS_OK;
}
