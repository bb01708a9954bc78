/* batchnorm.c: batch norm over the samples of one shard, with the relu that follows it, in plain order, in blocks of
 * channels or with channels last.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta, mean, var [c]; diff_dst like src
 * Out: dst like src, in its layout; mean, var [c] (biased) | diff_src, diff_gamma, diff_beta
 *
 * The library sums in float32, which is off in the fourth digit where a channel has a million elements; here channels
 * are summed as in double (batchnorm_code.h). mean[c] is rounded to float before it is subtracted; what rounding took
 * (`rest`) is put right in the variance, in the shift and in the gradients, so large means cost no digits.
 *
 * The workspace holds mean, rest and shift [c]. Together with var and gamma they give backward the very numbers forward
 * computed with, from which it finds the relu's mask again.
 */
#include "backend/cpu/batchnorm_passes.h"
#include "backend/cpu/blocking.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/isa.h"

#include <math.h>

struct bn_kernel {
    struct ls_kernel base;
    const struct bn_passes *passes;
    struct dnn_view view;
    float eps;
    bool relu;
};

static const struct bn_kernel *of(const struct ls_bound *b)
{
    return (const struct bn_kernel *)b->kernel;
}

/* --- channels and lanes --- */

static int64_t n_groups(const struct dnn_view *v)
{
    return v->is_last ? (v->c + BN_LANES - 1) / BN_LANES : v->n_blocks;
}

static struct bn_group group_of(const struct dnn_view *v, int64_t number)
{
    const int64_t left = v->c - number * BN_LANES;
    if (!v->is_last)
        return (struct bn_group){.n_runs = v->mb,
                                 .run_step = v->n_blocks * v->hw * v->block,
                                 .rows = v->hw * v->block / BN_LANES,
                                 .row_step = BN_LANES,
                                 .tail = (int)(v->hw * v->block % BN_LANES)};
    if (left >= BN_LANES) return (struct bn_group){.n_runs = 1, .rows = v->mb * v->hw, .row_step = v->c};
    return (struct bn_group){.n_runs = v->mb * v->hw, .run_step = v->c, .tail = (int)left};
}

static int64_t start_of(const struct dnn_view *v, int64_t group)
{
    return v->is_last ? group * BN_LANES : group * v->hw * v->block;
}

/* The channels of a group: channel first + i is in lane i and every period-th after it. */
struct channels {
    int64_t first;
    int n, period;
};

static struct channels channels_of(const struct dnn_view *v, int64_t group)
{
    const int period = v->is_last ? BN_LANES : (int)v->block;
    const int64_t first = group * period, left = v->c - first;
    return (struct channels){.first = first, .n = left < period ? (int)left : period, .period = period};
}

static double sum_of(const struct channels *c, const double lanes[BN_LANES], int i)
{
    double sum = 0.0;
    for (int l = i; l < BN_LANES; l += c->period) sum += lanes[l];
    return sum;
}

static void set_lanes(const struct channels *c, float lanes[BN_LANES], int i, float x)
{
    for (int l = i; l < BN_LANES; l += c->period) lanes[l] = x;
}

/* --- forward --- */

/* What a channel is multiplied with: from the variance as it is handed on, for backward must find the same. */
static float scale_of(float gamma, float var, float eps)
{
    return (float)((double)gamma / sqrt((double)var + (double)eps));
}

static void normalise_group(const struct ls_bound *b, int64_t number)
{
    const struct bn_kernel *k = of(b);
    const struct bn_group g = group_of(&k->view, number);
    const struct channels ch = channels_of(&k->view, number);
    const float *src = (const float *)b->in[0] + start_of(&k->view, number);
    const float *gamma = (const float *)b->in[1] + ch.first, *beta = (const float *)b->in[2] + ch.first;
    float *dst = (float *)b->out[0] + start_of(&k->view, number);
    float *mean = (float *)b->out[1] + ch.first, *var = (float *)b->out[2] + ch.first;
    float *kept = (float *)b->out[3] + ch.first, *rest = kept + k->view.c, *shift = rest + k->view.c;
    const double count = (double)(k->view.mb * k->view.hw);
    double sums[BN_LANES] = {0}, squares[BN_LANES] = {0};
    struct bn_affine f = {.scale = {0}};
    k->passes->add_values(src, &g, sums);
    for (int i = 0; i < ch.n; i++) {
        const double exact = sum_of(&ch, sums, i) / count;
        mean[i] = kept[i] = (float)exact;
        rest[i] = (float)(exact - (double)mean[i]);
        set_lanes(&ch, f.mean, i, mean[i]);
    }
    k->passes->add_squares(src, &g, f.mean, squares);
    for (int i = 0; i < ch.n; i++) {
        const double biased = sum_of(&ch, squares, i) / count - (double)rest[i] * (double)rest[i];
        var[i] = biased <= 0.0 ? 0.0f : (float)biased; /* NaN stays */
        const float scale = scale_of(gamma[i], var[i], k->eps);
        shift[i] = (float)((double)beta[i] - (double)rest[i] * (double)scale);
        set_lanes(&ch, f.scale, i, scale);
        set_lanes(&ch, f.shift, i, shift[i]);
    }
    k->passes->normalise(src, dst, &g, &f, k->relu);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    for (int64_t i = 0; i < n_groups(&of(b)->view); i++) normalise_group(b, i);
    return LS_OK;
}

static enum ls_status launch_eval(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct bn_kernel *k = of(b);
    for (int64_t number = 0; number < n_groups(&k->view); number++) {
        const struct bn_group g = group_of(&k->view, number);
        const struct channels ch = channels_of(&k->view, number);
        const float *gamma = (const float *)b->in[1] + ch.first, *beta = (const float *)b->in[2] + ch.first;
        const float *mean = (const float *)b->in[3] + ch.first, *var = (const float *)b->in[4] + ch.first;
        struct bn_affine f = {.scale = {0}};
        for (int i = 0; i < ch.n; i++) {
            set_lanes(&ch, f.mean, i, mean[i]);
            set_lanes(&ch, f.scale, i, scale_of(gamma[i], var[i], k->eps));
            set_lanes(&ch, f.shift, i, beta[i]);
        }
        k->passes->normalise((const float *)b->in[0] + start_of(&k->view, number),
                             (float *)b->out[0] + start_of(&k->view, number), &g, &f, k->relu);
    }
    return LS_OK;
}

/* --- backward --- */

/* With xhat = (x - mean) / std:  diff_src = gamma/std * (d - mean(d) - xhat * mean(d * xhat)) */
static void differentiate_group(const struct ls_bound *b, int64_t number)
{
    const struct bn_kernel *k = of(b);
    const struct bn_group g = group_of(&k->view, number);
    const struct channels ch = channels_of(&k->view, number);
    const int64_t start = start_of(&k->view, number);
    const float *src = (const float *)b->in[0] + start, *diff_dst = (const float *)b->in[5] + start;
    const float *gamma = (const float *)b->in[1] + ch.first, *var = (const float *)b->in[3] + ch.first;
    const float *mean = (const float *)b->in[6] + ch.first, *rest = mean + k->view.c, *shift = rest + k->view.c;
    float *diff_gamma = (float *)b->out[1] + ch.first, *diff_beta = (float *)b->out[2] + ch.first;
    const double count = (double)(k->view.mb * k->view.hw);
    double sums[BN_LANES] = {0}, sums_x[BN_LANES] = {0};
    struct bn_affine f = {.scale = {0}};
    struct bn_slope s = {.per_x = {0}};
    for (int i = 0; i < ch.n; i++) {
        set_lanes(&ch, f.mean, i, mean[i]);
        set_lanes(&ch, f.scale, i, scale_of(gamma[i], var[i], k->eps));
        set_lanes(&ch, f.shift, i, shift[i]);
    }
    k->passes->add_gradients(src, diff_dst, &g, &f, k->relu, sums, sums_x);
    for (int i = 0; i < ch.n; i++) {
        const double squared = (double)var[i] + (double)k->eps, scale = (double)gamma[i] / sqrt(squared);
        const double d = sum_of(&ch, sums, i), d_x = sum_of(&ch, sums_x, i) - (double)rest[i] * d;
        const double per_x = -scale * d_x / (squared * count);
        set_lanes(&ch, s.per_x, i, (float)per_x);
        set_lanes(&ch, s.constant, i, (float)(-scale * d / count - per_x * (double)rest[i]));
        diff_gamma[i] = (float)(d_x / sqrt(squared));
        diff_beta[i] = (float)d;
    }
    k->passes->make_gradients(src, diff_dst, (float *)b->out[0] + start, &g, &f, k->relu, &s);
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    for (int64_t i = 0; i < n_groups(&of(b)->view); i++) differentiate_group(b, i);
    return LS_OK;
}

/* --- preparing --- */

static const struct bn_passes *best_passes(void)
{
    return ls__cpu_isa_has_avx512() ? ls__bn_passes_avx512
           : ls__cpu_isa_has_avx2() ? ls__bn_passes_avx2
                                    : ls__bn_passes_any;
}

/* A kernel over input 0 in this layout, if it is one of blocking.h's; else in oneDNN's blocks, and the plan reorders.
 */
static enum ls_status make(const struct ls_prep *prep, const struct ls_impl *impl, struct ls_layout layout,
                           struct bn_kernel **k)
{
    enum dnn_blocking blocking;
    const struct ls_value *src = ls__dnn_value_in(prep, 0);
    TRY(ls__dnn_blocking_of(prep->device, &layout, src, &blocking));
    if (blocking == DNN_OTHER) {
        blocking = ls__dnn_native_blocking();
        TRY(ls__dnn_blocking_layout(prep->device, src, blocking, &layout));
    }
    TRY(ls_kernel_create(k, sizeof **k, prep, impl));
    (*k)->base.in[0] = (*k)->base.out[0] = layout;
    (*k)->passes = best_passes();
    (*k)->view = ls__dnn_view_of(&src->shape, blocking);
    if ((*k)->view.hw == 1 && blocking == DNN_PLAIN) { /* [mb,c,1,1] lies as [mb,c] does */
        (*k)->view.is_last = true;
        (*k)->view.block = src->shape.dims[1];
    }
    (*k)->eps = prep->node->attrs.eps;
    (*k)->relu = prep->node->attrs.relu;
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct bn_kernel *k = NULL;
    if (prep->node->n_in > 3) return ls_fail(LS_UNSUPPORTED, "adds nothing to batch norm");
    TRY(make(prep, &ls__cpu_batchnorm, prep->in[0], &k));
    k->base.out[3].bytes = 3 * (size_t)k->view.c * sizeof(float);
    *out = &k->base;
    return LS_OK;
}

static enum ls_status prepare_eval(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct bn_kernel *k = NULL;
    TRY(make(prep, &ls__cpu_batchnorm_eval, prep->in[0], &k));
    k->base.may_alias = true;
    k->base.alias_in = 0;
    *out = &k->base;
    return LS_OK;
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    struct bn_kernel *k = NULL;
    if (!prep->forward || prep->forward->impl != &ls__cpu_batchnorm)
        return ls_fail(LS_UNSUPPORTED, "the forward batch norm is another one's");
    TRY(make(prep, &ls__cpu_batchnorm_bwd, prep->forward->in[0], &k));
    k->base.in[4] = prep->in[4]; /* dst is not read */
    k->base.in[5] = k->base.in[0];
    k->base.in[6] = prep->forward->out[3];
    k->base.may_alias = true;
    k->base.alias_in = 5; /* diff_dst */
    *out = &k->base;
    return LS_OK;
}

const struct ls_impl ls__cpu_batchnorm = {
    .name = "own", .op = LS_OP_BATCHNORM, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_batchnorm_eval = {
    .name = "own", .op = LS_OP_BATCHNORM_EVAL, .prepare = prepare_eval, .launch = launch_eval};
const struct ls_impl ls__cpu_batchnorm_bwd = {
    .name = "own", .op = LS_OP_BATCHNORM_BWD, .prepare = prepare_bwd, .launch = launch_bwd};
