/* lower_ops.c: each op as ONNX says it (opset 17); see lower.h.
 *
 * Sizes that ONNX would count otherwise than the graph are written out: windows of pools as paddings at each end, so
 * that nobody's idea of rounding matters.
 */
#include "export/lower.h"

/* --- layers with weights --- */

static void add_window(struct onnx_node *node, const struct ls_attrs *a)
{
    ls__onnx_add_ints(node, "kernel_shape", (const int64_t[]){a->kh, a->kw}, 2);
    ls__onnx_add_ints(node, "strides", (const int64_t[]){a->sh, a->sw}, 2);
}

enum ls_status ls__lower_conv2d(struct lowering *l, const struct ls_node *n)
{
    const struct ls_attrs *a = &n->attrs;
    const char *weights, *bias;
    struct onnx_node *node;
    TRY(ls__lower_weights(l, n, &weights, &bias));
    TRY(ls__lower_begin(l, n, "Conv", &node));
    ls__onnx_add_input(node, weights);
    if (bias) ls__onnx_add_input(node, bias);
    add_window(node, a);
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

/* [c] beside images: [c,1,1]. */
static struct ls_shape per_channel(const struct lowering *l, const struct ls_node *n)
{
    const struct ls_shape *src = ls__lower_shape(l, n->in[0]);
    struct ls_shape shape = {src->n_dims - 1, {src->dims[1], 1, 1}};
    return shape;
}

enum ls_status ls__lower_bias(struct lowering *l, const struct ls_node *n)
{
    const struct ls_shape shape = per_channel(l, n);
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

/* --- pools --- */

/* What the windows need behind the image, so that there are `out` of them; the padding in front is `pad`. */
static int64_t pad_behind(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad)
{
    int64_t need = (out - 1) * stride + (kernel - 1) * dilation + 1 - in - pad;
    return need > 0 ? need : 0;
}

enum ls_status ls__lower_maxpool(struct lowering *l, const struct ls_node *n)
{
    const struct ls_attrs *a = &n->attrs;
    const struct ls_shape *src = ls__lower_shape(l, n->in[0]), *dst = ls__lower_shape(l, n->out[0]);
    struct onnx_node *node;
    TRY(ls__lower_begin(l, n, "MaxPool", &node));
    add_window(node, a);
    const int64_t pads[4] = {a->ph, a->pw, pad_behind(src->dims[2], dst->dims[2], a->kh, a->sh, 1, a->ph),
                             pad_behind(src->dims[3], dst->dims[3], a->kw, a->sw, 1, a->pw)};
    ls__onnx_add_ints(node, "pads", pads, 4);
    return LS_OK;
}

enum ls_status ls__lower_avgpool(struct lowering *l, const struct ls_node *n)
{
    const struct ls_attrs *a = &n->attrs;
    struct onnx_node *node;
    TRY(ls__lower_begin(l, n, "AveragePool", &node));
    add_window(node, a);
    ls__onnx_add_ints(node, "pads", (const int64_t[]){a->ph, a->pw, a->ph, a->pw}, 4);
    ls__onnx_add_int(node, "count_include_pad", 1);
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
