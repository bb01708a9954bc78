/* build_values.c: shapes, parameters and nodes of a graph that is being built, each checked in the words of the model
 * text; see build.h.
 */
#include "model/build.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum ls_status ls__layer_fail(const struct ls_model *m, const struct ls_layer *l, const char *fmt, ...)
{
    char made[640];
    va_list args;
    va_start(args, fmt);
    vsnprintf(made, sizeof made, fmt, args);
    va_end(args);
    return ls__text_fail(m->origin, l->line, "%s: %s", l->title, made);
}

/* --- shapes --- */

const struct ls_shape *ls__build_shape(const struct ls_builder *b, int tensor)
{
    return &b->g->values[b->values[tensor]].shape;
}

const char *ls__image_text(const struct ls_shape *s, char out[LS_SHAPE_TEXT])
{
    struct ls_shape image = {.n_dims = s->n_dims - 1};
    memcpy(image.dims, s->dims + 1, sizeof image.dims[0] * (size_t)image.n_dims);
    return ls_shape_text(&image, out);
}

int64_t ls__dims_product(const int64_t *dims, int n, int64_t most)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(p, dims[i], &p) || p > most) return -1;
    return p;
}

enum ls_status ls__build_check_size(const struct ls_builder *b, const struct ls_layer *l, const struct ls_shape *s)
{
    char text[LS_SHAPE_TEXT];
    if (ls__dims_product(s->dims + 1, s->n_dims - 1, LS_MOST_ELEMENTS) >= 0) return LS_OK;
    return FAIL(b, l, "the result %s has more than 2^31 elements per image", ls__image_text(s, text));
}

enum ls_status ls__build_need_image(const struct ls_builder *b, const struct ls_layer *l)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_shape *src = ls__build_shape(b, l->src);
    if (src->n_dims == 4) return LS_OK;
    return FAIL(b, l, "needs an image, but the input is a vector of %s here", ls__image_text(src, text));
}

static const char *pair_text(int a, int c, char out[32])
{
    if (a == c)
        snprintf(out, 32, "%d", a);
    else
        snprintf(out, 32, "%dx%d", a, c);
    return out;
}

enum ls_status ls__build_slide(const struct ls_builder *b, const struct ls_layer *l, int64_t *oh, int64_t *ow)
{
    const struct ls_attrs *a = &l->attrs;
    const struct ls_shape *src = ls__build_shape(b, l->src);
    int64_t eh = (int64_t)(a->kh - 1) * a->dh + 1, ew = (int64_t)(a->kw - 1) * a->dw + 1;
    int64_t h = src->dims[2] + 2L * a->ph, w = src->dims[3] + 2L * a->pw;
    char pad[32], dilation[32], with[48] = "";
    if (a->dh > 1 || a->dw > 1) snprintf(with, sizeof with, " (dilation %s)", pair_text(a->dh, a->dw, dilation));
    if (eh > h || ew > w)
        return FAIL(b, l, "kernel %dx%d%s does not fit the %lldx%lld input (with padding %s)", a->kh, a->kw, with,
                    (long long)src->dims[2], (long long)src->dims[3], pair_text(a->ph, a->pw, pad));
    *oh = (h - eh) / a->sh + 1; /* at least: with `ceil` the graph's rule may add one */
    *ow = (w - ew) / a->sw + 1;
    return LS_OK;
}

/* --- values and nodes --- */

static enum ls_status add_stored(struct ls_builder *b, const struct ls_layer *l, const char *suffix,
                                 enum ls_value_kind kind, const struct ls_shape *shape, int *id)
{
    char name[LS_WORD_BYTES + 32];
    snprintf(name, sizeof name, "%s.%s", l->name, suffix);
    int64_t n = ls__dims_product(shape->dims, shape->n_dims, LS_MOST_PARAMETERS);
    if (n < 0 || b->n_parameters + n >= LS_MOST_PARAMETERS)
        return FAIL(b, l, "the model would have more than 2^33 parameters");
    b->n_parameters += n;
    return ls_graph_add_value(b->g, name, kind, LS_F32, shape, id);
}

enum ls_status ls__build_add_param(struct ls_builder *b, const struct ls_layer *l, const char *suffix,
                                   const struct ls_shape *shape, enum ls_init init, double bound, int *id)
{
    TRY(add_stored(b, l, suffix, LS_VALUE_PARAM, shape, id));
    b->g->values[*id].init = init;
    b->g->values[*id].init_bound = (float)bound;
    return LS_OK;
}

enum ls_status ls__build_add_buffer(struct ls_builder *b, const struct ls_layer *l, const char *suffix,
                                    int64_t channels, enum ls_init init, int *id)
{
    TRY(add_stored(b, l, suffix, LS_VALUE_BUFFER, &LS_SHAPE1(channels), id));
    b->g->values[*id].init = init;
    return LS_OK;
}

enum ls_status ls__build_add_node(struct ls_builder *b, const struct ls_layer *l, enum ls_op op,
                                  const struct ls_attrs *attrs, const int *in, int n_in, int *dst)
{
    enum ls_status status = ls_graph_add_node(b->g, op, l->name, attrs, in, n_in, dst);
    if (status != LS_OK) return ls_fail_in(status, "%s:%d: %s", b->model->origin, l->line, l->title);
    b->g->nodes[b->g->n_nodes - 1].line = l->line;
    return ls__build_check_size(b, l, &b->g->values[*dst].shape);
}

enum ls_status ls__build_add_simple(struct ls_builder *b, const struct ls_layer *l, enum ls_op op, int *dst)
{
    return ls__build_add_node(b, l, op, &l->attrs, &b->values[l->src], 1, dst);
}
