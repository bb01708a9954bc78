/* batchnorm.c: normalisation per channel over the samples and pixels of the shard, for evaluation by given statistics,
 * and the gradient of the first.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta, mean, var [c]; other?, dst, diff_dst, diff_more? like src
 * Out: dst like src, mean, var [c] (biased) | diff_src, diff_gamma, diff_beta, diff_other?
 *
 * The workspace of the contract stays empty: the mask of a fused relu is read from dst.
 */
#include "backend/ref/ref.h"

#include <math.h>

struct channel {
    double mean, var;
};

LS_VECTORIZE
static void batchnorm_add_plane(const float *x, int64_t n, double lanes[LS_REF_LANES])
{
    int64_t i = 0;
    for (; i + LS_REF_LANES <= n; i += LS_REF_LANES)
        for (int l = 0; l < LS_REF_LANES; l++) lanes[l] += (double)x[i + l];
    for (int l = 0; i < n; i++, l++) lanes[l] += (double)x[i];
}

LS_INLINE double square(double x)
{
    return x * x;
}

LS_VECTORIZE
static void batchnorm_add_squares(const float *x, int64_t n, double mean, double lanes[LS_REF_LANES])
{
    int64_t i = 0;
    for (; i + LS_REF_LANES <= n; i += LS_REF_LANES)
        for (int l = 0; l < LS_REF_LANES; l++) lanes[l] += square((double)x[i + l] - mean);
    for (int l = 0; i < n; i++, l++) lanes[l] += square((double)x[i] - mean);
}

/* Two passes: the variance from the differences to the mean, which never cancels. */
static struct channel statistics(const float *src, struct ls_ref_nchw n, int64_t c)
{
    struct channel out;
    double sums[LS_REF_LANES] = {0.0}, squares[LS_REF_LANES] = {0.0};
    const double count = (double)(n.mb * n.hw);
    for (int64_t mb = 0; mb < n.mb; mb++) batchnorm_add_plane(src + (mb * n.c + c) * n.hw, n.hw, sums);
    out.mean = ls__ref_lanes_sum(sums) / count;
    for (int64_t mb = 0; mb < n.mb; mb++) batchnorm_add_squares(src + (mb * n.c + c) * n.hw, n.hw, out.mean, squares);
    out.var = ls__ref_lanes_sum(squares) / count;
    return out;
}

LS_VECTORIZE
static void batchnorm_normalise(const float *src, float *dst, int64_t n, double mean, double scale, double shift,
                                bool relu)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = (float)(((double)src[i] - mean) * scale + shift);
        dst[i] = relu ? ls__ref_relu1(v) : v;
    }
}

/* As an add behind the batch norm would do it. */
static void add_other(const float *other, float *dst, int64_t n, bool relu)
{
    for (int64_t i = 0; i < n; i++) {
        const float v = dst[i] + other[i];
        dst[i] = relu ? ls__ref_relu1(v) : v;
    }
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    (*out)->out[3].bytes = 0; /* workspace */
    return LS_OK;
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_nchw n = ls__ref_nchw(&k->in[0]);
    const float *src = b->in[0], *gamma = b->in[1], *beta = b->in[2], *other = b->in[3];
    float *dst = b->out[0], *mean = b->out[1], *var = b->out[2];
    for (int64_t c = 0; c < n.c; c++) {
        const struct channel s = statistics(src, n, c);
        const double scale = (double)gamma[c] / sqrt(s.var + (double)k->attrs.eps);
        mean[c] = (float)s.mean;
        var[c] = (float)s.var;
        for (int64_t mb = 0; mb < n.mb; mb++) {
            const int64_t at = (mb * n.c + c) * n.hw;
            batchnorm_normalise(src + at, dst + at, n.hw, s.mean, scale, (double)beta[c], k->attrs.relu && !other);
            if (other) add_other(other + at, dst + at, n.hw, k->attrs.relu);
        }
    }
    return LS_OK;
}

static enum ls_status launch_eval(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_nchw n = ls__ref_nchw(&k->in[0]);
    const float *src = b->in[0], *gamma = b->in[1], *beta = b->in[2], *mean = b->in[3], *var = b->in[4];
    float *dst = b->out[0];
    for (int64_t plane = 0; plane < n.mb * n.c; plane++) {
        const int64_t c = plane % n.c;
        const double scale = (double)gamma[c] / sqrt((double)var[c] + (double)k->attrs.eps);
        batchnorm_normalise(src + plane * n.hw, dst + plane * n.hw, n.hw, (double)mean[c], scale, (double)beta[c],
                            k->attrs.relu);
    }
    return LS_OK;
}

/* Sums over one channel of dy and of dy * (x - mean), where dy is diff_dst behind the relu. */
struct sums {
    double dy, dy_x;
};

LS_INLINE double masked(const float *dst, const float *diff_dst, int64_t i)
{
    const double d = (double)diff_dst[i];
    return !dst || dst[i] > 0.0f ? d : 0.0;
}

/* dst is NULL when there is no relu. */
static struct sums gradient_sums(const float *src, const float *dst, const float *diff_dst, struct ls_ref_nchw n,
                                 int64_t c, double mean)
{
    struct sums s = {0.0, 0.0};
    for (int64_t mb = 0; mb < n.mb; mb++) {
        const int64_t at = (mb * n.c + c) * n.hw;
        for (int64_t i = at; i < at + n.hw; i++) {
            const double dy = masked(dst, diff_dst, i);
            s.dy += dy;
            s.dy_x += dy * ((double)src[i] - mean);
        }
    }
    return s;
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    if (prep->node->n_in > 6 && prep->forward) (*out)->in[6] = prep->forward->out[3]; /* workspace: not read */
    (*out)->may_alias = true;
    (*out)->alias_in = 5; /* diff_dst */
    return LS_OK;
}

/* The gradient of what was added: both parts of diff_dst, behind the relu. */
static void make_diff_other(const struct ls_bound *b, const float *dst, int64_t n)
{
    const float *diff_dst = b->in[5], *more = b->in[7];
    float *diff_other = b->out[3];
    for (int64_t i = 0; i < n; i++) {
        const float d = more ? diff_dst[i] + more[i] : diff_dst[i];
        diff_other[i] = !dst || dst[i] > 0.0f ? d : 0.0f;
    }
}

/* With xhat = (x - mean) / std:  diff_src = gamma/std * (dy - mean(dy) - xhat * mean(dy * xhat))
 * The statistics are made again: mean and var as they are handed on are rounded to float. */
static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_nchw n = ls__ref_nchw(&k->in[0]);
    const float *src = b->in[0], *gamma = b->in[1];
    const float *dst = k->attrs.relu ? b->in[4] : NULL, *diff_dst = b->in[5];
    float *diff_src = b->out[0], *diff_gamma = b->out[1], *diff_beta = b->out[2];
    const double count = (double)(n.mb * n.hw);
    if (b->out[3]) {
        make_diff_other(b, dst, n.mb * n.c * n.hw);
        diff_dst = b->out[3];
        dst = NULL;
    }
    for (int64_t c = 0; c < n.c; c++) {
        const struct channel x_of = statistics(src, n, c);
        const double m = x_of.mean, inv_std = 1.0 / sqrt(x_of.var + (double)k->attrs.eps);
        const struct sums s = gradient_sums(src, dst, diff_dst, n, c, m);
        const double mean_dy = s.dy / count, slope = s.dy_x * inv_std * inv_std / count;
        for (int64_t mb = 0; mb < n.mb; mb++) {
            const int64_t at = (mb * n.c + c) * n.hw;
            for (int64_t i = at; i < at + n.hw; i++) {
                const double dy = masked(dst, diff_dst, i), x = (double)src[i] - m;
                diff_src[i] = (float)((double)gamma[c] * inv_std * (dy - mean_dy - x * slope));
            }
        }
        if (diff_gamma) diff_gamma[c] = (float)(s.dy_x * inv_std);
        if (diff_beta) diff_beta[c] = (float)s.dy;
    }
    return LS_OK;
}

const struct ls_impl ls__ref_batchnorm = {
    .name = "ref",
    .op = LS_OP_BATCHNORM,
    .prepare = prepare_forward,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_batchnorm_eval = {
    .name = "ref",
    .op = LS_OP_BATCHNORM_EVAL,
    .prepare = ls__ref_prepare_in_place,
    .launch = launch_eval,
};

const struct ls_impl ls__ref_batchnorm_bwd = {
    .name = "ref",
    .op = LS_OP_BATCHNORM_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
