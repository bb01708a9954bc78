/* build_layers.c: one function per kind of layer: what it asks of its input, its parameters, its nodes; see build.h.
 *
 * Layers that compute nothing (dropout when evaluating, flatten of a vector, pooling of 1x1) make no node: their tensor
 * is their input's value. Parameters are added in PyTorch's order, with PyTorch's names and default initialisation.
 */
#include "model/build.h"

#include <math.h>

static int64_t outputs(const struct ls_builder *b, const struct ls_layer *l)
{
    return l->out ? l->out : b->options->n_classes;
}

/* weight and bias as torch.nn.Conv2d and Linear make them: uniform within 1/sqrt(fan_in). in[1] and in[2] get the ids.
 */
static enum ls_status add_weights(struct ls_builder *b, const struct ls_layer *l, const struct ls_shape *shape,
                                  int in[3])
{
    int64_t fan_in = ls__dims_product(shape->dims + 1, shape->n_dims - 1, LS_MOST_PARAMETERS);
    double bound = 1 / sqrt((double)fan_in);
    if (fan_in < 0) return FAIL(b, l, "the model would have more than 2^33 parameters");
    in[2] = -1;
    TRY(ls__build_add_param(b, l, "weight", shape, LS_INIT_UNIFORM, bound, &in[1]));
    if (!l->has_bias) return LS_OK;
    return ls__build_add_param(b, l, "bias", &LS_SHAPE1(shape->dims[0]), LS_INIT_UNIFORM, bound, &in[2]);
}

static enum ls_status build_conv(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    TRY(ls__build_need_image(b, l));
    const struct ls_attrs *a = &l->attrs;
    const struct ls_shape *src = ls__build_shape(b, l->src);
    int64_t ic = src->dims[1], oc = outputs(b, l), oh, ow;
    if (ic % a->groups || oc % a->groups)
        return FAIL(b, l, "%lld input and %lld output channels do not divide into %d groups", (long long)ic,
                    (long long)oc, a->groups);
    if (a->ph > (a->kh - 1) * a->dh || a->pw > (a->kw - 1) * a->dw)
        return FAIL(b, l, "padding %dx%d must be smaller than the kernel, %dx%d", a->ph, a->pw, (a->kh - 1) * a->dh + 1,
                    (a->kw - 1) * a->dw + 1);
    TRY(ls__build_slide(b, l, &oh, &ow));
    TRY(ls__build_check_size(b, l, &LS_SHAPE4(b->g->mb, oc, oh, ow)));
    int in[3] = {b->values[l->src]};
    TRY(add_weights(b, l, &LS_SHAPE4(oc, ic / a->groups, a->kh, a->kw), in));
    return ls__build_add_node(b, l, LS_OP_CONV2D, a, in, 3, dst);
}

static enum ls_status build_linear(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    char text[LS_SHAPE_TEXT];
    const struct ls_shape *src = ls__build_shape(b, l->src);
    if (src->n_dims != 2)
        return FAIL(b, l, "needs a vector, but the input is %s here; put `flatten` before it",
                    ls__image_text(src, text));
    int in[3] = {b->values[l->src]};
    TRY(add_weights(b, l, &LS_SHAPE2(outputs(b, l), src->dims[1]), in));
    return ls__build_add_node(b, l, LS_OP_LINEAR, &l->attrs, in, 3, dst);
}

static enum ls_status build_bias(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    int in[2] = {b->values[l->src]};
    TRY(ls__build_add_param(b, l, "bias", &LS_SHAPE1(ls__build_shape(b, l->src)->dims[1]), LS_INIT_ZERO, 0, &in[1]));
    return ls__build_add_node(b, l, LS_OP_BIAS, &l->attrs, in, 2, dst);
}

/* The running statistics are in the graph either way; in training the gradient pass finds them by name. */
static enum ls_status build_bn(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    int64_t c = ls__build_shape(b, l->src)->dims[1];
    int in[5] = {b->values[l->src]};
    TRY(ls__build_add_param(b, l, "weight", &LS_SHAPE1(c), LS_INIT_ONE, 0, &in[1]));
    TRY(ls__build_add_param(b, l, "bias", &LS_SHAPE1(c), LS_INIT_ZERO, 0, &in[2]));
    TRY(ls__build_add_buffer(b, l, "running_mean", c, LS_INIT_ZERO, &in[3]));
    TRY(ls__build_add_buffer(b, l, "running_var", c, LS_INIT_ONE, &in[4]));
    if (b->options->is_training) return ls__build_add_node(b, l, LS_OP_BATCHNORM, &l->attrs, in, 3, dst);
    return ls__build_add_node(b, l, LS_OP_BATCHNORM_EVAL, &l->attrs, in, 5, dst);
}

/* The mean of one value is that value: such a layer gives its bias whatever comes in, and no gradient comes through it.
 * n_values: of which a mean is taken. */
static enum ls_status check_means(const struct ls_builder *b, const struct ls_layer *l, int64_t n_values,
                                  const char *way_out)
{
    char here[LS_SHAPE_TEXT];
    if (n_values > 1) return LS_OK;
    return FAIL(b, l, "%s here, so each mean is of one value, and nothing before it could be trained; %s",
                ls__image_text(ls__build_shape(b, l->src), here), way_out);
}

static enum ls_status build_groupnorm(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    const struct ls_shape *src = ls__build_shape(b, l->src);
    const int64_t c = src->dims[1];
    int in[3] = {b->values[l->src]};
    if (c % l->attrs.groups)
        return FAIL(b, l, "%lld channels do not divide into %d groups", (long long)c, l->attrs.groups);
    TRY(check_means(b, l, ls_shape_count(src) / src->dims[0] / l->attrs.groups,
                    l->attrs.groups > 1 ? "take fewer groups, or a larger image"
                                        : "take more channels, or leave it out"));
    TRY(ls__build_add_param(b, l, "weight", &LS_SHAPE1(c), LS_INIT_ONE, 0, &in[1]));
    TRY(ls__build_add_param(b, l, "bias", &LS_SHAPE1(c), LS_INIT_ZERO, 0, &in[2]));
    return ls__build_add_node(b, l, LS_OP_GROUPNORM, &l->attrs, in, 3, dst);
}

static enum ls_status build_layernorm(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    const struct ls_shape *src = ls__build_shape(b, l->src);
    struct ls_shape shape = LS_SHAPE1(src->dims[1]);
    int in[3] = {b->values[l->src]};
    if (l->is_whole && src->n_dims == 4)
        shape = (struct ls_shape){.n_dims = 3, .dims = {src->dims[1], src->dims[2], src->dims[3]}};
    TRY(check_means(b, l, ls_shape_count(&shape),
                    ls_shape_count(src) > src->dims[0] && !l->is_whole ? "take more channels, or image=yes"
                                                                       : "take more channels, or leave it out"));
    TRY(ls__build_add_param(b, l, "weight", &shape, LS_INIT_ONE, 0, &in[1]));
    TRY(ls__build_add_param(b, l, "bias", &shape, LS_INIT_ZERO, 0, &in[2]));
    return ls__build_add_node(b, l, LS_OP_LAYERNORM, &l->attrs, in, 3, dst);
}

/* gelu's own attribute says which of the two it is. */
static enum ls_status build_activation(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    static const enum ls_activation of_word[] = {
        [LS_WORD_SILU] = LS_ACT_SILU,       [LS_WORD_HARDSWISH] = LS_ACT_HARDSWISH,  [LS_WORD_TANH] = LS_ACT_TANH,
        [LS_WORD_SIGMOID] = LS_ACT_SIGMOID, [LS_WORD_LEAKYRELU] = LS_ACT_LEAKY_RELU, [LS_WORD_RELU6] = LS_ACT_RELU6,
    };
    struct ls_attrs attrs = l->attrs;
    if (l->kind != LS_WORD_GELU) attrs.activation = of_word[l->kind];
    return ls__build_add_node(b, l, LS_OP_ACTIVATION, &attrs, &b->values[l->src], 1, dst);
}

static enum ls_status build_pool(struct ls_builder *b, const struct ls_layer *l, enum ls_op op, int *dst)
{
    const struct ls_attrs *a = &l->attrs;
    int64_t oh, ow;
    TRY(ls__build_need_image(b, l));
    if (2 * a->ph > a->kh || 2 * a->pw > a->kw)
        return FAIL(b, l, "padding %dx%d is more than half of the kernel, %dx%d", a->ph, a->pw, a->kh, a->kw);
    TRY(ls__build_slide(b, l, &oh, &ow));
    return ls__build_add_simple(b, l, op, dst);
}

/* The mean over oh x ow parts of the image, as PyTorch cuts them: equal where it divides, else some overlap. */
static enum ls_status build_parts(struct ls_builder *b, const struct ls_layer *l, int oh, int ow, int *dst)
{
    TRY(ls__build_need_image(b, l));
    int64_t h = ls__build_shape(b, l->src)->dims[2], w = ls__build_shape(b, l->src)->dims[3];
    struct ls_attrs attrs = {.dh = 1, .dw = 1};
    if (h % oh || w % ow) {
        attrs.oh = oh;
        attrs.ow = ow;
        return ls__build_add_node(b, l, LS_OP_AVGPOOL, &attrs, &b->values[l->src], 1, dst);
    }
    attrs.kh = attrs.sh = (int)(h / oh);
    attrs.kw = attrs.sw = (int)(w / ow);
    if (attrs.kh == 1 && attrs.kw == 1) {
        *dst = b->values[l->src];
        return LS_OK;
    }
    return ls__build_add_node(b, l, LS_OP_AVGPOOL, &attrs, &b->values[l->src], 1, dst);
}

static enum ls_status build_dropout(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    struct ls_attrs attrs = l->attrs;
    *dst = b->values[l->src];
    attrs.layer = b->g->n_dropouts++; /* also when it makes no node: numbers belong to the model */
    if (!b->options->is_training || !(attrs.p > 0)) return LS_OK;
    return ls__build_add_node(b, l, LS_OP_DROPOUT, &attrs, &b->values[l->src], 1, dst);
}

static enum ls_status build_add(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    char here[LS_SHAPE_TEXT], there[LS_SHAPE_TEXT];
    const struct ls_ref *ref = &l->refs[0];
    const struct ls_shape *s = ls__build_shape(b, l->src), *t = ls__build_shape(b, ref->tensor);
    if (!ls_shape_is_equal(s, t))
        return FAIL(b, l, "%s here, but %s is %s (line %d)", ls__image_text(s, here), ref->label,
                    ls__image_text(t, there), ref->line);
    const int in[2] = {b->values[l->src], b->values[ref->tensor]};
    return ls__build_add_node(b, l, LS_OP_ADD, &l->attrs, in, 2, dst);
}

static enum ls_status build_concat(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    char here[LS_SHAPE_TEXT], there[LS_SHAPE_TEXT];
    int in[LS_MAX_IN] = {b->values[l->src]};
    const struct ls_shape *s = ls__build_shape(b, l->src);
    for (int i = 0; i < l->n_refs; i++) {
        const struct ls_ref *ref = &l->refs[i];
        const struct ls_shape *t = ls__build_shape(b, ref->tensor);
        struct ls_shape same = *t;
        same.dims[1] = s->dims[1];
        if (!ls_shape_is_equal(s, &same))
            return FAIL(b, l, "%s here, but %s is %s (line %d); only the channels may differ", ls__image_text(s, here),
                        ref->label, ls__image_text(t, there), ref->line);
        in[1 + i] = b->values[ref->tensor];
    }
    return ls__build_add_node(b, l, LS_OP_CONCAT, &l->attrs, in, 1 + l->n_refs, dst);
}

static enum ls_status build_flatten(struct ls_builder *b, const struct ls_layer *l, int *dst)
{
    *dst = b->values[l->src];
    if (ls__build_shape(b, l->src)->n_dims == 2) return LS_OK;
    return ls__build_add_simple(b, l, LS_OP_RESHAPE, dst);
}

enum ls_status ls__build_layer(struct ls_builder *b, const struct ls_layer *l, int *dst)
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
        return ls__build_add_simple(b, l, LS_OP_RELU, dst);
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
        TRY(ls__build_need_image(b, l));
        return ls__build_add_simple(b, l, LS_OP_LRN, dst);
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
