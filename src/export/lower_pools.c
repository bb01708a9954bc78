/* lower_pools.c: pools as ONNX says them; see lower.h.
 *
 * What ONNX or a runtime would round otherwise than the graph is written out: how many windows there are follows from
 * paddings at each end, never from ceil_mode. Padding that counts in a mean, and an edge that does not, are two
 * operators.
 */
#include "export/lower.h"

#include <math.h>

struct edges {
    int64_t top, left, bottom, right;
};

/* What the windows need behind the image, so that there are `out` of them; the padding in front is `pad`. */
static int64_t pad_behind(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t dilation, int64_t pad)
{
    int64_t need = (out - 1) * stride + (kernel - 1) * dilation + 1 - in - pad;
    return need > 0 ? need : 0;
}

static struct edges edges_of(const struct lowering *l, const struct ls_node *n)
{
    const struct ls_attrs *a = &n->attrs;
    const struct ls_shape *src = ls__lower_shape(l, n->in[0]), *dst = ls__lower_shape(l, n->out[0]);
    int64_t dh = a->dh > 1 ? a->dh : 1, dw = a->dw > 1 ? a->dw : 1;
    return (struct edges){a->ph, a->pw, pad_behind(src->dims[2], dst->dims[2], a->kh, a->sh, dh, a->ph),
                          pad_behind(src->dims[3], dst->dims[3], a->kw, a->sw, dw, a->pw)};
}

static void add_window(struct onnx_node *node, const struct ls_attrs *a, const struct edges *e)
{
    ls__onnx_add_ints(node, "kernel_shape", (const int64_t[]){a->kh, a->kw}, 2);
    ls__onnx_add_ints(node, "strides", (const int64_t[]){a->sh, a->sw}, 2);
    ls__onnx_add_ints(node, "pads", (const int64_t[]){e->top, e->left, e->bottom, e->right}, 4);
}

/* An edge of `value` around the image; *padded: its name. */
static enum ls_status pad(struct lowering *l, const struct ls_node *n, const struct edges *e, float value,
                          const char **padded)
{
    const int64_t pads[8] = {0, 0, e->top, e->left, 0, 0, e->bottom, e->right};
    const char *name, *filling;
    struct onnx_node *node;
    TRY(ls__onnx_name(l->net, &name, "%s.%d.pads", n->name, n->out[0]));
    TRY(ls__onnx_add_int64s(l->net, name, pads, 8));
    TRY(ls__lower_number(l, n, "filling", value, &filling));
    TRY(ls__lower_part(l, n, "Pad", "padded", &node));
    ls__onnx_add_input(node, l->names[n->in[0]]);
    ls__onnx_add_input(node, name);
    ls__onnx_add_input(node, filling);
    *padded = node->output;
    return LS_OK;
}

/* A runtime may refuse padding as large as the kernel, which windows with gaps can have: then it is put on before. */
enum ls_status ls__lower_maxpool(struct lowering *l, const struct ls_node *n)
{
    const struct ls_attrs *a = &n->attrs;
    struct edges edges = edges_of(l, n);
    const char *src = l->names[n->in[0]];
    struct onnx_node *node;
    if (edges.top >= a->kh || edges.bottom >= a->kh || edges.left >= a->kw || edges.right >= a->kw) {
        TRY(pad(l, n, &edges, -INFINITY, &src));
        edges = (struct edges){0, 0, 0, 0};
    }
    TRY(ls__lower_begin(l, n, "MaxPool", &node));
    node->inputs[0] = src;
    add_window(node, a, &edges);
    if (a->dh > 1 || a->dw > 1) ls__onnx_add_ints(node, "dilations", (const int64_t[]){a->dh, a->dw}, 2);
    return LS_OK;
}

/* --- means --- */

/* [out,in] or its transpose: each row the mean of one of PyTorch's adaptive windows, [i*in/out, ceil((i+1)*in/out)). */
static enum ls_status mean_matrix(struct lowering *l, const struct ls_node *n, const char *what, int64_t in,
                                  int64_t out, bool is_transposed, const char **name)
{
    float *data;
    const struct ls_shape shape = is_transposed ? LS_SHAPE2(in, out) : LS_SHAPE2(out, in);
    TRY(ls__onnx_name(l->net, name, "%s.%d.%s", n->name, n->out[0], what));
    TRY(ls__onnx_make_tensor(l->net, *name, &shape, &data));
    for (int64_t i = 0; i < out; i++) {
        int64_t first = i * in / out, end = ((i + 1) * in + out - 1) / out;
        for (int64_t k = first; k < end; k++)
            data[is_transposed ? k * out + i : i * in + k] = 1.0f / (float)(end - first);
    }
    return LS_OK;
}

/* Windows of unequal size: a product with matrices of shares on both sides. */
static enum ls_status adaptive(struct lowering *l, const struct ls_node *n)
{
    const struct ls_shape *src = ls__lower_shape(l, n->in[0]), *dst = ls__lower_shape(l, n->out[0]);
    const char *rows, *columns, *wide = l->names[n->in[0]], *narrow;
    struct onnx_node *node;
    TRY(mean_matrix(l, n, "rows", src->dims[2], dst->dims[2], false, &rows));
    TRY(mean_matrix(l, n, "columns", src->dims[3], dst->dims[3], true, &columns));
    TRY(ls__lower_part(l, n, "MatMul", "narrow", &node));
    ls__onnx_add_input(node, wide);
    ls__onnx_add_input(node, columns);
    narrow = node->output;
    TRY(ls__lower_begin(l, n, "MatMul", &node));
    node->inputs[0] = rows;
    ls__onnx_add_input(node, narrow);
    return LS_OK;
}

enum ls_status ls__lower_avgpool(struct lowering *l, const struct ls_node *n)
{
    const struct ls_attrs *a = &n->attrs;
    if (a->oh > 0) return adaptive(l, n);
    struct edges edges = edges_of(l, n);
    bool is_beyond = edges.bottom > a->ph || edges.right > a->pw, counts = !a->skip_pad && (a->ph > 0 || a->pw > 0);
    const char *src = l->names[n->in[0]];
    struct onnx_node *node;
    if (counts && is_beyond) { /* ceil: what lies beyond the padding does not count, the padding does */
        TRY(pad(l, n, &(struct edges){a->ph, a->pw, a->ph, a->pw}, 0, &src));
        edges = (struct edges){0, 0, edges.bottom > a->ph ? edges.bottom - a->ph : 0,
                               edges.right > a->pw ? edges.right - a->pw : 0};
        counts = false;
    }
    TRY(ls__lower_begin(l, n, "AveragePool", &node));
    node->inputs[0] = src;
    add_window(node, a, &edges);
    ls__onnx_add_int(node, "count_include_pad", counts);
    return LS_OK;
}
