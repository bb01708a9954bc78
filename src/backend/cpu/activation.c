/* activation.c: activations and their gradients, over tensors in any layout.
 *
 * Like elementwise.c: every element alike, so the layout of the first input is taken and the storage run over, padding
 * included. Of all activations only the sigmoid makes something else than 0 of a padding zero; it asks for plain order
 * where a layout has padding.
 */
#include "backend/cpu/activation_math.h"
#include "backend/cpu/impls.h"

struct activation {
    struct ls_kernel base;
    size_t n; /* stored elements */
    enum ls_activation function;
    float alpha;
};

static const struct activation *of(const struct ls_bound *b)
{
    return (const struct activation *)b->kernel;
}

LS_INLINE float tanh_slope(float dst)
{
    return (1.0f - dst) * (1.0f + dst);
}

LS_INLINE float sigmoid(float x)
{
    float other;
    return ls__cpu_sigmoid(x, &other);
}

LS_INLINE float sigmoid_slope(float dst)
{
    return dst * (1.0f - dst);
}

LS_INLINE float hardswish(float x)
{
    return x <= -3.0f ? 0.0f : x >= 3.0f ? x : x * (x + 3.0f) * 0x1.555556p-3f;
}

LS_INLINE float hardswish_slope(float x)
{
    return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : x * 0x1.555556p-2f + 0.5f;
}

LS_INLINE float relu6(float x)
{
    return x <= 0.0f ? 0.0f : x >= 6.0f ? 6.0f : x;
}

LS_INLINE float relu6_slope(float dst)
{
    return ((dst > 0.0f) & (dst < 6.0f)) ? 1.0f : 0.0f;
}

/* One loop per function, so that each is inlined into its clones. */
#define LOOPS(name, forward, slope)                                                                                    \
    LS_VECTORIZE static void activation_##name(const float *src, float *dst, size_t n)                                 \
    {                                                                                                                  \
        LS_INDEPENDENT                                                                                                 \
        for (size_t i = 0; i < n; i++) dst[i] = forward(src[i]);                                                       \
    }                                                                                                                  \
    LS_VECTORIZE static void activation_##name##_bwd(const float *x, const float *diff_dst, float *diff_src, size_t n) \
    {                                                                                                                  \
        LS_INDEPENDENT                                                                                                 \
        for (size_t i = 0; i < n; i++) diff_src[i] = diff_dst[i] * slope(x[i]);                                        \
    }

LOOPS(gelu, ls__cpu_gelu, ls__cpu_gelu_slope)
LOOPS(gelu_tanh, ls__cpu_gelu_tanh, ls__cpu_gelu_tanh_slope)
LOOPS(silu, ls__cpu_silu, ls__cpu_silu_slope)
LOOPS(hardswish, hardswish, hardswish_slope)
LOOPS(tanh, ls__cpu_tanh, tanh_slope)
LOOPS(sigmoid, sigmoid, sigmoid_slope)
LOOPS(relu6, relu6, relu6_slope)

LS_VECTORIZE static void activation_leaky_relu(const float *src, float alpha, float *dst, size_t n)
{
    LS_INDEPENDENT
    for (size_t i = 0; i < n; i++) dst[i] = src[i] < 0.0f ? alpha * src[i] : src[i];
}

LS_VECTORIZE static void activation_leaky_relu_bwd(const float *dst, float alpha, const float *diff_dst,
                                                   float *diff_src, size_t n)
{
    LS_INDEPENDENT
    for (size_t i = 0; i < n; i++) diff_src[i] = dst[i] > 0.0f ? diff_dst[i] : alpha * diff_dst[i];
}

static const struct {
    void (*forward)(const float *src, float *dst, size_t n);
    void (*bwd)(const float *x, const float *diff_dst, float *diff_src, size_t n);
} loops[LS_N_ACTIVATIONS] = {
    [LS_ACT_GELU] = {activation_gelu, activation_gelu_bwd},
    [LS_ACT_GELU_TANH] = {activation_gelu_tanh, activation_gelu_tanh_bwd},
    [LS_ACT_SILU] = {activation_silu, activation_silu_bwd},
    [LS_ACT_HARDSWISH] = {activation_hardswish, activation_hardswish_bwd},
    [LS_ACT_TANH] = {activation_tanh, activation_tanh_bwd},
    [LS_ACT_SIGMOID] = {activation_sigmoid, activation_sigmoid_bwd},
    [LS_ACT_RELU6] = {activation_relu6, activation_relu6_bwd},
};

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, int n_in, struct ls_kernel **out)
{
    struct activation *k;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl)); /* everything plain */
    const bool has_padding = prep->in[0].bytes != k->base.in[0].bytes;
    k->function = prep->node->attrs.activation;
    k->alpha = prep->node->attrs.alpha;
    if (!(has_padding && k->function == LS_ACT_SIGMOID)) {
        for (int i = 0; i < n_in; i++) k->base.in[i] = prep->in[0];
        k->base.out[0] = prep->in[0];
    }
    k->base.may_alias = true;
    k->base.alias_in = n_in - 1;
    k->n = k->base.in[0].bytes / sizeof(float);
    *out = &k->base;
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_activation, 1, out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct activation *k = of(b);
    if (k->function == LS_ACT_LEAKY_RELU)
        activation_leaky_relu(b->in[0], k->alpha, b->out[0], k->n);
    else
        loops[k->function].forward(b->in[0], b->out[0], k->n);
    return LS_OK;
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_activation_bwd, 2, out);
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct activation *k = of(b);
    if (k->function == LS_ACT_LEAKY_RELU)
        activation_leaky_relu_bwd(b->in[0], k->alpha, b->in[1], b->out[0], k->n);
    else
        loops[k->function].bwd(b->in[0], b->in[1], b->out[0], k->n);
    return LS_OK;
}

const struct ls_impl ls__cpu_activation = {
    .name = "own", .op = LS_OP_ACTIVATION, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_activation_bwd = {
    .name = "own", .op = LS_OP_ACTIVATION_BWD, .prepare = prepare_bwd, .launch = launch_bwd};
