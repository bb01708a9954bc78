/* build.c: a model's layers into the forward graph for one shape of input.
 *
 * Everything that depends on shapes is checked here, in the words of the model text; the graph's own rules stand
 * behind. Layers that compute nothing (dropout when evaluating, flatten of a vector, pooling of 1x1) make no node:
 * their tensor is their input's value. Parameters are added in PyTorch's order, with PyTorch's names and default
 * initialisation.
 */
#include "base/mem.h"
#include "model/internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIXELS = 65536, MOST_CLASSES = 1 << 20 };
#define MOST_ELEMENTS ((int64_t)1 << 31)   /* of one tensor, per image */
#define MOST_PARAMETERS ((int64_t)1 << 33) /* of the model */
#define MOST_SAMPLES ((int64_t)1 << 24)

struct builder {
    const struct ls_model *model;
    const struct ls_model_options *options;
    struct ls_graph *g;
    int *values;           /* of tensors: [n_layers + 1] */
    struct ls_mark *marks; /* [n_layers + 1], or NULL */
    int64_t n_parameters;
};

#define FAIL(b, l, ...) layer_fail((b)->model, l, __VA_ARGS__)

static enum ls_status layer_fail(const struct ls_model *m, const struct ls_layer *l, const char *fmt, ...)
    LS_PRINTF(3, 4);

static enum ls_status layer_fail(const struct ls_model *m, const struct ls_layer *l, const char *fmt, ...)
{
    char made[640];
    va_list args;
    va_start(args, fmt);
    vsnprintf(made, sizeof made, fmt, args);
    va_end(args);
    return ls__text_fail(m->origin, l->line, "%s: %s", l->title, made);
}

/* --- shapes --- */

static const struct ls_shape *shape_of(const struct builder *b, int tensor)
{
    return &b->g->values[b->values[tensor]].shape;
}

/* "64x32x32": one image's part of a shape. */
static const char *image_text(const struct ls_shape *s, char out[LS_SHAPE_TEXT])
{
    struct ls_shape image = {.n_dims = s->n_dims - 1};
    memcpy(image.dims, s->dims + 1, sizeof image.dims[0] * (size_t)image.n_dims);
    return ls_shape_text(&image, out);
}

/* Product of n dims, or -1 if above `most`. */
static int64_t product(const int64_t *dims, int n, int64_t most)
{
    int64_t p = 1;
    for (int i = 0; i < n; i++)
        if (__builtin_mul_overflow(p, dims[i], &p) || p > most) return -1;
    return p;
}

static enum ls_status check_size(const struct builder *b, const struct ls_layer *l, const struct ls_shape *s)
{
    char text[LS_SHAPE_TEXT];
    if (product(s->dims + 1, s->n_dims - 1, MOST_ELEMENTS) >= 0) return LS_OK;
    return FAIL(b, l, "the result %s has more than 2^31 elements per image", image_text(s, text));
}

static enum ls_status need_image(const struct builder *b, const struct ls_layer *l)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_shape *src = shape_of(b, l->src);
    if (src->n_dims == 4) return LS_OK;
    return FAIL(b, l, "needs an image, but the input is a vector of %s here", image_text(src, text));
}

static const char *pair_text(int a, int c, char out[32])
{
    if (a == c)
        snprintf(out, 32, "%d", a);
    else
        snprintf(out, 32, "%dx%d", a, c);
    return out;
}

/* The window must fit the padded input once; *oh and *ow say how often it fits. */
static enum ls_status slide(const struct builder *b, const struct ls_layer *l, int64_t *oh, int64_t *ow)
{
    const struct ls_attrs *a = &l->attrs;
    const struct ls_shape *src = shape_of(b, l->src);
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

static enum ls_status add_stored(struct builder *b, const struct ls_layer *l, const char *suffix,
                                 enum ls_value_kind kind, const struct ls_shape *shape, int *id)
{
    char name[LS_WORD_BYTES + 32];
    snprintf(name, sizeof name, "%s.%s", l->name, suffix);
    int64_t n = product(shape->dims, shape->n_dims, MOST_PARAMETERS);
    if (n < 0 || b->n_parameters + n >= MOST_PARAMETERS)
        return FAIL(b, l, "the model would have more than 2^33 parameters");
    b->n_parameters += n;
    return ls_graph_add_value(b->g, name, kind, LS_F32, shape, id);
}

/* A trained parameter: uniform in [-bound, bound), or a constant. */
static enum ls_status add_param(struct builder *b, const struct ls_layer *l, const char *suffix,
                                const struct ls_shape *shape, enum ls_init init, double bound, int *id)
{
    TRY(add_stored(b, l, suffix, LS_VALUE_PARAM, shape, id));
    b->g->values[*id].init = init;
    b->g->values[*id].init_bound = (float)bound;
    return LS_OK;
}

static enum ls_status add_buffer(struct builder *b, const struct ls_layer *l, const char *suffix, int64_t channels,
                                 enum ls_init init, int *id)
{
    TRY(add_stored(b, l, suffix, LS_VALUE_BUFFER, &LS_SHAPE1(channels), id));
    b->g->values[*id].init = init;
    return LS_OK;
}

static enum ls_status add_node(struct builder *b, const struct ls_layer *l, enum ls_op op, const struct ls_attrs *attrs,
                               const int *in, int n_in, int *dst)
{
    enum ls_status status = ls_graph_add_node(b->g, op, l->name, attrs, in, n_in, dst);
    if (status != LS_OK) return ls_fail_in(status, "%s:%d: %s", b->model->origin, l->line, l->title);
    b->g->nodes[b->g->n_nodes - 1].line = l->line;
    return check_size(b, l, &b->g->values[*dst].shape);
}

static enum ls_status add_simple(struct builder *b, const struct ls_layer *l, enum ls_op op, int *dst)
{
    return add_node(b, l, op, &l->attrs, &b->values[l->src], 1, dst);
}

/* --- one function per kind of layer --- */

static int64_t outputs(const struct builder *b, const struct ls_layer *l)
{
    return l->out ? l->out : b->options->n_classes;
}

/* weight and bias as torch.nn.Conv2d and Linear make them: uniform within 1/sqrt(fan_in). in[1] and in[2] get the ids.
 */
static enum ls_status add_weights(struct builder *b, const struct ls_layer *l, const struct ls_shape *shape, int in[3])
{
    int64_t fan_in = product(shape->dims + 1, shape->n_dims - 1, MOST_PARAMETERS);
    double bound = 1 / sqrt((double)fan_in);
    if (fan_in < 0) return FAIL(b, l, "the model would have more than 2^33 parameters");
    in[2] = -1;
    TRY(add_param(b, l, "weight", shape, LS_INIT_UNIFORM, bound, &in[1]));
    if (!l->has_bias) return LS_OK;
    return add_param(b, l, "bias", &LS_SHAPE1(shape->dims[0]), LS_INIT_UNIFORM, bound, &in[2]);
}

static enum ls_status build_conv(struct builder *b, const struct ls_layer *l, int *dst)
{
    TRY(need_image(b, l));
    const struct ls_attrs *a = &l->attrs;
    const struct ls_shape *src = shape_of(b, l->src);
    int64_t ic = src->dims[1], oc = outputs(b, l), oh, ow;
    if (ic % a->groups || oc % a->groups)
        return FAIL(b, l, "%lld input and %lld output channels do not divide into %d groups", (long long)ic,
                    (long long)oc, a->groups);
    if (a->ph > (a->kh - 1) * a->dh || a->pw > (a->kw - 1) * a->dw)
        return FAIL(b, l, "padding %dx%d must be smaller than the kernel, %dx%d", a->ph, a->pw, (a->kh - 1) * a->dh + 1,
                    (a->kw - 1) * a->dw + 1);
    TRY(slide(b, l, &oh, &ow));
    TRY(check_size(b, l, &LS_SHAPE4(b->g->mb, oc, oh, ow)));
    int in[3] = {b->values[l->src]};
    TRY(add_weights(b, l, &LS_SHAPE4(oc, ic / a->groups, a->kh, a->kw), in));
    return add_node(b, l, LS_OP_CONV2D, a, in, 3, dst);
}

static enum ls_status build_linear(struct builder *b, const struct ls_layer *l, int *dst)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_shape *src = shape_of(b, l->src);
    if (src->n_dims != 2)
        return FAIL(b, l, "needs a vector, but the input is %s here; put `flatten` before it", image_text(src, text));
    int in[3] = {b->values[l->src]};
    TRY(add_weights(b, l, &LS_SHAPE2(outputs(b, l), src->dims[1]), in));
    return add_node(b, l, LS_OP_LINEAR, &l->attrs, in, 3, dst);
}

static enum ls_status build_bias(struct builder *b, const struct ls_layer *l, int *dst)
{
    int in[2] = {b->values[l->src]};
    TRY(add_param(b, l, "bias", &LS_SHAPE1(shape_of(b, l->src)->dims[1]), LS_INIT_ZERO, 0, &in[1]));
    return add_node(b, l, LS_OP_BIAS, &l->attrs, in, 2, dst);
}

/* The running statistics are in the graph either way; in training the gradient pass finds them by name. */
static enum ls_status build_bn(struct builder *b, const struct ls_layer *l, int *dst)
{
    int64_t c = shape_of(b, l->src)->dims[1];
    int in[5] = {b->values[l->src]};
    TRY(add_param(b, l, "weight", &LS_SHAPE1(c), LS_INIT_ONE, 0, &in[1]));
    TRY(add_param(b, l, "bias", &LS_SHAPE1(c), LS_INIT_ZERO, 0, &in[2]));
    TRY(add_buffer(b, l, "running_mean", c, LS_INIT_ZERO, &in[3]));
    TRY(add_buffer(b, l, "running_var", c, LS_INIT_ONE, &in[4]));
    if (b->options->is_training) return add_node(b, l, LS_OP_BATCHNORM, &l->attrs, in, 3, dst);
    return add_node(b, l, LS_OP_BATCHNORM_EVAL, &l->attrs, in, 5, dst);
}

static enum ls_status build_groupnorm(struct builder *b, const struct ls_layer *l, int *dst)
{
    const int64_t c = shape_of(b, l->src)->dims[1];
    int in[3] = {b->values[l->src]};
    if (c % l->attrs.groups)
        return FAIL(b, l, "%lld channels do not divide into %d groups", (long long)c, l->attrs.groups);
    TRY(add_param(b, l, "weight", &LS_SHAPE1(c), LS_INIT_ONE, 0, &in[1]));
    TRY(add_param(b, l, "bias", &LS_SHAPE1(c), LS_INIT_ZERO, 0, &in[2]));
    return add_node(b, l, LS_OP_GROUPNORM, &l->attrs, in, 3, dst);
}

static enum ls_status build_layernorm(struct builder *b, const struct ls_layer *l, int *dst)
{
    const struct ls_shape *src = shape_of(b, l->src);
    struct ls_shape shape = LS_SHAPE1(src->dims[1]);
    int in[3] = {b->values[l->src]};
    if (l->is_whole && src->n_dims == 4)
        shape = (struct ls_shape){.n_dims = 3, .dims = {src->dims[1], src->dims[2], src->dims[3]}};
    TRY(add_param(b, l, "weight", &shape, LS_INIT_ONE, 0, &in[1]));
    TRY(add_param(b, l, "bias", &shape, LS_INIT_ZERO, 0, &in[2]));
    return add_node(b, l, LS_OP_LAYERNORM, &l->attrs, in, 3, dst);
}

/* gelu's own attribute says which of the two it is. */
static enum ls_status build_activation(struct builder *b, const struct ls_layer *l, int *dst)
{
    static const enum ls_activation of_word[] = {
        [LS_WORD_SILU] = LS_ACT_SILU,       [LS_WORD_HARDSWISH] = LS_ACT_HARDSWISH,  [LS_WORD_TANH] = LS_ACT_TANH,
        [LS_WORD_SIGMOID] = LS_ACT_SIGMOID, [LS_WORD_LEAKYRELU] = LS_ACT_LEAKY_RELU, [LS_WORD_RELU6] = LS_ACT_RELU6,
    };
    struct ls_attrs attrs = l->attrs;
    if (l->kind != LS_WORD_GELU) attrs.activation = of_word[l->kind];
    return add_node(b, l, LS_OP_ACTIVATION, &attrs, &b->values[l->src], 1, dst);
}

static enum ls_status build_pool(struct builder *b, const struct ls_layer *l, enum ls_op op, int *dst)
{
    const struct ls_attrs *a = &l->attrs;
    int64_t oh, ow;
    TRY(need_image(b, l));
    if (2 * a->ph > a->kh || 2 * a->pw > a->kw)
        return FAIL(b, l, "padding %dx%d is more than half of the kernel, %dx%d", a->ph, a->pw, a->kh, a->kw);
    TRY(slide(b, l, &oh, &ow));
    return add_simple(b, l, op, dst);
}

/* The mean over oh x ow parts of the image, as PyTorch cuts them: equal where it divides, else some overlap. */
static enum ls_status build_parts(struct builder *b, const struct ls_layer *l, int oh, int ow, int *dst)
{
    TRY(need_image(b, l));
    int64_t h = shape_of(b, l->src)->dims[2], w = shape_of(b, l->src)->dims[3];
    struct ls_attrs attrs = {.dh = 1, .dw = 1};
    if (h % oh || w % ow) {
        attrs.oh = oh;
        attrs.ow = ow;
        return add_node(b, l, LS_OP_AVGPOOL, &attrs, &b->values[l->src], 1, dst);
    }
    attrs.kh = attrs.sh = (int)(h / oh);
    attrs.kw = attrs.sw = (int)(w / ow);
    if (attrs.kh == 1 && attrs.kw == 1) {
        *dst = b->values[l->src];
        return LS_OK;
    }
    return add_node(b, l, LS_OP_AVGPOOL, &attrs, &b->values[l->src], 1, dst);
}

static enum ls_status build_dropout(struct builder *b, const struct ls_layer *l, int *dst)
{
    struct ls_attrs attrs = l->attrs;
    *dst = b->values[l->src];
    attrs.layer = b->g->n_dropouts++; /* also when it makes no node: numbers belong to the model */
    if (!b->options->is_training || !(attrs.p > 0)) return LS_OK;
    return add_node(b, l, LS_OP_DROPOUT, &attrs, &b->values[l->src], 1, dst);
}

static enum ls_status build_add(struct builder *b, const struct ls_layer *l, int *dst)
{
    char here[LS_SHAPE_TEXT], there[LS_SHAPE_TEXT];
    const struct ls_ref *ref = &l->refs[0];
    const struct ls_shape *s = shape_of(b, l->src), *t = shape_of(b, ref->tensor);
    if (!ls_shape_is_equal(s, t))
        return FAIL(b, l, "%s here, but %s is %s (line %d)", image_text(s, here), ref->label, image_text(t, there),
                    ref->line);
    const int in[2] = {b->values[l->src], b->values[ref->tensor]};
    return add_node(b, l, LS_OP_ADD, &l->attrs, in, 2, dst);
}

static enum ls_status build_concat(struct builder *b, const struct ls_layer *l, int *dst)
{
    char here[LS_SHAPE_TEXT], there[LS_SHAPE_TEXT];
    int in[LS_MAX_IN] = {b->values[l->src]};
    const struct ls_shape *s = shape_of(b, l->src);
    for (int i = 0; i < l->n_refs; i++) {
        const struct ls_ref *ref = &l->refs[i];
        const struct ls_shape *t = shape_of(b, ref->tensor);
        struct ls_shape same = *t;
        same.dims[1] = s->dims[1];
        if (!ls_shape_is_equal(s, &same))
            return FAIL(b, l, "%s here, but %s is %s (line %d); only the channels may differ", image_text(s, here),
                        ref->label, image_text(t, there), ref->line);
        in[1 + i] = b->values[ref->tensor];
    }
    return add_node(b, l, LS_OP_CONCAT, &l->attrs, in, 1 + l->n_refs, dst);
}

static enum ls_status build_flatten(struct builder *b, const struct ls_layer *l, int *dst)
{
    *dst = b->values[l->src];
    if (shape_of(b, l->src)->n_dims == 2) return LS_OK;
    return add_simple(b, l, LS_OP_RESHAPE, dst);
}

static enum ls_status build_layer(struct builder *b, const struct ls_layer *l, int *dst)
{
    const struct ls_attrs *a = &l->attrs;
    switch (l->kind) {
    case LS_WORD_CONV:
        return build_conv(b, l, dst);
    case LS_WORD_LINEAR:
        return build_linear(b, l, dst);
    case LS_WORD_BIAS:
        return build_bias(b, l, dst);
    case LS_WORD_BN:
        return build_bn(b, l, dst);
    case LS_WORD_RELU:
        return add_simple(b, l, LS_OP_RELU, dst);
    case LS_WORD_GELU:
    case LS_WORD_SILU:
    case LS_WORD_HARDSWISH:
    case LS_WORD_TANH:
    case LS_WORD_SIGMOID:
    case LS_WORD_LEAKYRELU:
    case LS_WORD_RELU6:
        return build_activation(b, l, dst);
    case LS_WORD_GROUPNORM:
        return build_groupnorm(b, l, dst);
    case LS_WORD_LAYERNORM:
        return build_layernorm(b, l, dst);
    case LS_WORD_MAXPOOL:
        return build_pool(b, l, LS_OP_MAXPOOL, dst);
    case LS_WORD_AVGPOOL:
        return build_pool(b, l, LS_OP_AVGPOOL, dst);
    case LS_WORD_GLOBALAVGPOOL:
        return build_parts(b, l, 1, 1, dst);
    case LS_WORD_ADAPTIVEAVGPOOL:
        return build_parts(b, l, a->kh, a->kw, dst);
    case LS_WORD_DROPOUT:
        return build_dropout(b, l, dst);
    case LS_WORD_LRN:
        TRY(need_image(b, l));
        return add_simple(b, l, LS_OP_LRN, dst);
    case LS_WORD_ADD:
        return build_add(b, l, dst);
    case LS_WORD_CONCAT:
        return build_concat(b, l, dst);
    case LS_WORD_FLATTEN:
        return build_flatten(b, l, dst);
    default:
        return ls_fail(LS_INTERNAL, "layer kind %d", l->kind);
    }
}

/* --- the model --- */

/* What does not fit is told at the line of `input`, the only one that speaks of images. */
static enum ls_status check_options(const struct ls_model *m, const struct ls_model_options *o)
{
    const int got[3] = {o->c, o->h, o->w};
    bool fits = true;
    char want[3][16];
    if (o->mb < 1 || o->mb > MOST_SAMPLES)
        return ls_fail(LS_USAGE, "%s:%d: shards of %lld samples; at least 1 and at most 2^24 are possible", m->origin,
                       m->input_line, (long long)o->mb);
    if (o->n_classes < 1 || o->n_classes > MOST_CLASSES)
        return ls__text_fail(m->origin, m->input_line, "%d classes; at least 1 and at most 2^20 are possible",
                             o->n_classes);
    for (int i = 0; i < 3; i++) {
        if (got[i] < 1 || got[i] > MOST_PIXELS)
            return ls__text_fail(m->origin, m->input_line, "input: images of %dx%dx%d; each size must be 1 to %d", o->c,
                                 o->h, o->w, MOST_PIXELS);
        fits = fits && (!m->is_input_fixed || m->input[i] == 0 || m->input[i] == got[i]);
        if (m->input[i])
            snprintf(want[i], sizeof want[i], "%d", m->input[i]);
        else
            snprintf(want[i], sizeof want[i], "*");
    }
    if (product((int64_t[3]){o->c, o->h, o->w}, 3, MOST_ELEMENTS) < 0)
        return ls__text_fail(m->origin, m->input_line, "input: images of %dx%dx%d have more than 2^31 elements", o->c,
                             o->h, o->w);
    if (fits) return LS_OK;
    return ls__text_fail(m->origin, m->input_line,
                         "input: the model takes images of %sx%sx%s, but the data have %dx%dx%d", want[0], want[1],
                         want[2], o->c, o->h, o->w);
}

/* A result that nobody reads is a mistake in the text, and its parameters would never be trained. */
static enum ls_status check_all_read(const struct builder *b)
{
    const struct ls_graph *g = b->g;
    bool *is_read;
    enum ls_status status = LS_OK;
    TRY(ls__calloc(&is_read, (size_t)g->n_values, sizeof *is_read));
    for (int i = 0; i < g->n_nodes; i++)
        for (int k = 0; k < g->nodes[i].n_in; k++)
            if (g->nodes[i].in[k] >= 0) is_read[g->nodes[i].in[k]] = true;
    is_read[b->values[b->model->result]] = true;
    for (int i = 0; i < b->model->n_layers && status == LS_OK; i++)
        if (!is_read[b->values[i + 1]]) status = FAIL(b, &b->model->layers[i], "the result is never used");
    free(is_read);
    return status;
}

static enum ls_status check_result(struct builder *b)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_model *m = b->model;
    const struct ls_layer *last = &m->layers[m->n_layers - 1];
    const struct ls_shape *s = shape_of(b, m->result);
    if (s->n_dims != 2 || s->dims[1] != b->options->n_classes)
        return ls__text_fail(
            m->origin, last->line,
            "the model ends in %s, but must end in one number per class (%d)%s; end it with `linear NAME "
            "classes`",
            image_text(s, text), b->options->n_classes, s->n_dims == 4 ? ", as a vector" : "");
    if (b->n_parameters == 0) return ls__text_fail(m->origin, last->line, "the model has nothing to train");
    b->g->logits = b->values[m->result];
    return check_all_read(b);
}

/* Before layer `layer`, or at the end; its predecessor's tensor is known by now. */
static void mark(struct builder *b, int layer)
{
    if (!b->marks) return;
    if (layer > 0) b->marks[layer - 1].out = b->values[layer];
    b->marks[layer].node = b->g->n_nodes;
    b->marks[layer].value = b->g->n_values;
}

static enum ls_status build(struct builder *b)
{
    const struct ls_model_options *o = b->options;
    TRY(ls_graph_add_value(b->g, "input", LS_VALUE_INPUT, LS_F32, &LS_SHAPE4(o->mb, o->c, o->h, o->w), &b->g->input));
    b->values[0] = b->g->input;
    for (int i = 0; i < b->model->n_layers; i++) {
        mark(b, i);
        TRY(build_layer(b, &b->model->layers[i], &b->values[i + 1]));
    }
    mark(b, b->model->n_layers);
    return check_result(b);
}

enum ls_status ls_model_build(const struct ls_model *model, const struct ls_model_options *options,
                              struct ls_graph **out)
{
    return ls__build(model, options, NULL, out);
}

enum ls_status ls__build(const struct ls_model *model, const struct ls_model_options *options, struct ls_mark *marks,
                         struct ls_graph **out)
{
    struct builder b = {.model = model, .options = options, .marks = marks};
    *out = NULL;
    if (!options) return ls_fail(LS_USAGE, "%s: built without options", model->origin);
    TRY(check_options(model, options));
    TRY(ls__calloc(&b.values, (size_t)model->n_layers + 1, sizeof *b.values));
    enum ls_status status = ls_graph_create(&b.g, options->mb, options->is_training);
    if (status == LS_OK) status = build(&b);
    free(b.values);
    if (status != LS_OK) ls_graph_destroy(&b.g);
    *out = b.g;
    return status;
}
