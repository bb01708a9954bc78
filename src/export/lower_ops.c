/* lower_ops.c: each op as ONNX says it (opset 17); see lower.h. Pools are in lower_pools.c, activations and norms that
 * take several operators in lower_parts.c.
 */
#include "export/lower.h"

/* --- layers with weights --- */

enum ls_status ls__lower_conv2d(struct lowering *l, const struct ls_node *n)
{
    const struct ls_attrs *a = &n->attrs;
    const char *weights, *bias;
    struct onnx_node *node;
    TRY(ls__lower_weights(l, n, &weights, &bias));
    TRY(ls__lower_begin(l, n, "Conv", &node));
    ls__onnx_add_input(node, weights);
    if (bias) ls__onnx_add_input(node, bias);
    ls__onnx_add_ints(node, "kernel_shape", (const int64_t[]){a->kh, a->kw}, 2);
    ls__onnx_add_ints(node, "strides", (const int64_t[]){a->sh, a->sw}, 2);
    ls__onnx_add_ints(node, "pads", (const int64_t[]){a->ph, a->pw, a->ph, a->pw}, 4);
    ls__onnx_add_ints(node, "dilations", (const int64_t[]){a->dh, a->dw}, 2);
    ls__onnx_add_int(node, "group", a->groups);
    return LS_OK;
}

enum ls_status ls__lower_linear(struct lowering *l, const struct ls_node *n)
{
    const char *weights, *bias;
    struct onnx_node *node;
    TRY(ls__lower_weights(l, n, &weights, &bias));
    TRY(ls__lower_begin(l, n, "Gemm", &node));
    ls__onnx_add_input(node, weights);
    if (bias) ls__onnx_add_input(node, bias);
    ls__onnx_add_int(node, "transB", 1);
    return LS_OK;
}

enum ls_status ls__lower_bias(struct lowering *l, const struct ls_node *n)
{
    const struct ls_shape shape = ls__lower_per_channel(l, n);
    const char *bias;
    struct onnx_node *node;
    TRY(ls__lower_tensor_as(l, n->in[1], &shape, &bias));
    TRY(ls__lower_begin(l, n, "Add", &node));
    ls__onnx_add_input(node, bias);
    return LS_OK;
}

enum ls_status ls__lower_batchnorm_eval(struct lowering *l, const struct ls_node *n)
{
    const char *names[4];
    struct onnx_node *node;
    for (int i = 0; i < 4; i++) TRY(ls__lower_tensor(l, n->in[1 + i], &names[i]));
    TRY(ls__lower_begin(l, n, "BatchNormalization", &node));
    for (int i = 0; i < 4; i++) ls__onnx_add_input(node, names[i]);
    ls__onnx_add_float(node, "epsilon", n->attrs.eps);
    return LS_OK;
}

/* --- the rest --- */

enum ls_status ls__lower_relu(struct lowering *l, const struct ls_node *n)
{
    struct onnx_node *node;
    return ls__lower_begin(l, n, "Relu", &node);
}

/* It does nothing when evaluating. */
enum ls_status ls__lower_dropout(struct lowering *l, const struct ls_node *n)
{
    struct onnx_node *node;
    return ls__lower_begin(l, n, "Identity", &node);
}

enum ls_status ls__lower_lrn(struct lowering *l, const struct ls_node *n)
{
    struct onnx_node *node;
    TRY(ls__lower_begin(l, n, "LRN", &node));
    ls__onnx_add_float(node, "alpha", n->attrs.alpha);
    ls__onnx_add_float(node, "beta", n->attrs.beta);
    ls__onnx_add_float(node, "bias", n->attrs.k);
    ls__onnx_add_int(node, "size", n->attrs.size);
    return LS_OK;
}

enum ls_status ls__lower_add(struct lowering *l, const struct ls_node *n)
{
    struct onnx_node *node;
    TRY(ls__lower_begin(l, n, "Add", &node));
    ls__onnx_add_input(node, l->names[n->in[1]]);
    return LS_OK;
}

enum ls_status ls__lower_concat(struct lowering *l, const struct ls_node *n)
{
    struct onnx_node *node;
    TRY(ls__lower_begin(l, n, "Concat", &node));
    for (int i = 1; i < n->n_in; i++) ls__onnx_add_input(node, l->names[n->in[i]]);
    ls__onnx_add_int(node, "axis", 1);
    return LS_OK;
}

/* Every sample becomes a vector; the number of samples stays free. */
enum ls_status ls__lower_reshape(struct lowering *l, const struct ls_node *n)
{
    struct onnx_node *node;
    if (ls__lower_shape(l, n->out[0])->n_dims != 2)
        return ls_fail(LS_UNSUPPORTED, "layer '%s': a reshape that is no flatten has no ONNX form here", n->name);
    TRY(ls__lower_begin(l, n, "Flatten", &node));
    ls__onnx_add_int(node, "axis", 1);
    return LS_OK;
}
