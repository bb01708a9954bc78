/* activation.c: activations element by element, as their definitions read, in double.
 *
 * In:  src | src or dst (ls_activation_reads_dst), diff_dst          (any shape)
 * Out: dst | diff_src
 *
 * exp (base/exact.h) and the error function are made of additions, multiplications and divisions: the C library's
 * differ in their last digit from machine to machine, and ref gives the same bits everywhere.
 */
#include "backend/ref/ref.h"
#include "base/exact.h"

#include <math.h>

static double sigmoid(double x)
{
    const double e = ls__exact_exp(-fabs(x));
    return x < 0 ? e / (1 + e) : 1 / (1 + e);
}

/* The probability that a normal number lies below -a, a >= 0: near 0 one half minus a series of positive terms, farther
 * out Laplace's continued fraction. */
static double normal_tail(double a)
{
    const double density = ls__exact_exp(-0.5 * a * a) * 0.39894228040143267794;
    if (a > 40) return 0.0;
    if (a > 2.5) {
        double fraction = a;
        for (int k = 80; k > 0; k--) fraction = a + k / fraction;
        return density / fraction;
    }
    double term = a, sum = a;
    for (int k = 1; k < 60; k++) {
        term *= a * a / (2 * k + 1);
        sum += term;
    }
    return 0.5 - density * sum;
}

static double normal(double x)
{
    return x < 0 ? normal_tail(-x) : 1 - normal_tail(x);
}

static const double gelu_scale = 1.5957691216057308, gelu_cubic = 0.044715; /* sqrt(8 / pi) */

static double tanh_of(double x)
{
    if (fabs(x) > 0.1) return copysign(2 * sigmoid(2 * fabs(x)) - 1, x);
    const double z = x * x; /* where the difference of two numbers near 1 would cancel */
    return x * (1 - z * (1.0 / 3 - z * (2.0 / 15 - z * (17.0 / 315 - z * (62.0 / 2835 - z * (1382.0 / 155925))))));
}

static double forward(enum ls_activation f, double x, double alpha)
{
    switch (f) {
    case LS_ACT_GELU:
        return x * normal(x);
    case LS_ACT_GELU_TANH:
        return x * sigmoid(gelu_scale * (x + gelu_cubic * x * x * x));
    case LS_ACT_SILU:
        return x * sigmoid(x);
    case LS_ACT_HARDSWISH:
        return x <= -3 ? 0 : x >= 3 ? x : x * (x + 3) / 6;
    case LS_ACT_TANH:
        return tanh_of(x);
    case LS_ACT_SIGMOID:
        return sigmoid(x);
    case LS_ACT_LEAKY_RELU:
        return x < 0 ? alpha * x : x;
    default: /* LS_ACT_RELU6 */
        return x <= 0 ? 0 : x >= 6 ? 6 : x;
    }
}

/* The derivative, given src or dst. */
static double slope(enum ls_activation f, double x, double alpha)
{
    double s;
    switch (f) {
    case LS_ACT_GELU:
        return normal(x) + x * ls__exact_exp(-0.5 * x * x) * 0.39894228040143267794;
    case LS_ACT_GELU_TANH:
        s = sigmoid(gelu_scale * (x + gelu_cubic * x * x * x));
        return s + x * s * (1 - s) * gelu_scale * (1 + 3 * gelu_cubic * x * x);
    case LS_ACT_SILU:
        s = sigmoid(x);
        return s + x * s * (1 - s);
    case LS_ACT_HARDSWISH:
        return x <= -3 ? 0 : x >= 3 ? 1 : x / 3 + 0.5;
    case LS_ACT_TANH:
        return (1 - x) * (1 + x);
    case LS_ACT_SIGMOID:
        return x * (1 - x);
    case LS_ACT_LEAKY_RELU:
        return x > 0 ? 1 : alpha;
    default: /* LS_ACT_RELU6 */
        return x > 0 && x < 6 ? 1 : 0;
    }
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n = ls_shape_count(&k->in[0]);
    const float *src = b->in[0];
    float *dst = b->out[0];
    for (int64_t i = 0; i < n; i++)
        dst[i] = (float)forward(k->attrs.activation, (double)src[i], (double)k->attrs.alpha);
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n = ls_shape_count(&k->in[0]);
    const float *x = b->in[0], *diff_dst = b->in[1];
    float *diff_src = b->out[0];
    for (int64_t i = 0; i < n; i++)
        diff_src[i] = (float)((double)diff_dst[i] * slope(k->attrs.activation, (double)x[i], (double)k->attrs.alpha));
    return LS_OK;
}

const struct ls_impl ls__ref_activation = {
    .name = "ref",
    .op = LS_OP_ACTIVATION,
    .prepare = ls__ref_prepare_in_place,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_activation_bwd = {
    .name = "ref",
    .op = LS_OP_ACTIVATION_BWD,
    .prepare = ls__ref_prepare_over_1,
    .launch = launch_bwd,
};
