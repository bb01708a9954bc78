/* norm.c: group norm and layer norm: sets of one sample's elements are brought to mean 0 and variance 1, then scaled by
 * gamma and shifted by beta; and their gradients.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta [c], or of layer norm like a sample; diff_dst like src
 * Out: dst like src | diff_src, diff_gamma, diff_beta
 *
 * The two differ only in which elements are a set:
 *
 *     group norm            mb * groups sets, each the pixels of c / groups channels
 *     layer norm, gamma [c] mb * h * w sets, each the channels of a pixel
 *     layer norm, else      mb sets, each a whole sample
 */
#include "backend/ref/ref.h"

#include <math.h>
#include <string.h>

struct sets {
    int64_t n, count;   /* sets, elements of each */
    int64_t stride;     /* from one element of a set to the next */
    int64_t per_param;  /* elements that share a gamma */
    int64_t n_first;    /* set s begins with parameter s % n_first * count / per_param */
    int64_t hw, sample; /* pixels, elements of a sample */
    int64_t n_params;
};

static struct sets sets_of(const struct ls_ref_kernel *k, enum ls_op op)
{
    const struct ls_ref_nchw n = ls__ref_nchw(&k->in[0]);
    struct sets s = {.stride = 1, .per_param = 1, .n_first = 1, .hw = n.hw, .sample = n.c * n.hw};
    s.n_params = ls_shape_count(&k->in[1]);
    if (op == LS_OP_GROUPNORM || op == LS_OP_GROUPNORM_BWD) {
        s.n = n.mb * k->attrs.groups;
        s.count = n.c / k->attrs.groups * n.hw;
        s.per_param = n.hw;
        s.n_first = k->attrs.groups;
    } else if (s.n_params == n.c) {
        s.n = n.mb * n.hw;
        s.count = n.c;
        s.stride = n.hw;
    } else {
        s.n = n.mb;
        s.count = s.sample;
    }
    return s;
}

static int64_t begin_of(const struct sets *s, int64_t set)
{
    return s->stride == 1 ? set * s->count : set / s->hw * s->sample + set % s->hw;
}

static int64_t param_of(const struct sets *s, int64_t set, int64_t j)
{
    return (set % s->n_first * s->count + j) / s->per_param;
}

struct moments {
    double mean, inv_std;
};

/* Two passes: the variance from the differences to the mean, which never cancels. */
static struct moments moments_of(const struct sets *s, const float *x, double eps)
{
    double sum = 0.0, squares = 0.0;
    for (int64_t j = 0; j < s->count; j++) sum += (double)x[j * s->stride];
    const double mean = sum / (double)s->count;
    for (int64_t j = 0; j < s->count; j++) {
        const double d = (double)x[j * s->stride] - mean;
        squares += d * d;
    }
    return (struct moments){mean, 1.0 / sqrt(squares / (double)s->count + eps)};
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct sets s = sets_of(k, k->base.impl->op);
    const float *gamma = b->in[1], *beta = b->in[2];
    for (int64_t set = 0; set < s.n; set++) {
        const float *src = (const float *)b->in[0] + begin_of(&s, set);
        float *dst = (float *)b->out[0] + begin_of(&s, set);
        const struct moments m = moments_of(&s, src, (double)k->attrs.eps);
        for (int64_t j = 0; j < s.count; j++) {
            const int64_t p = param_of(&s, set, j);
            const double x = ((double)src[j * s.stride] - m.mean) * m.inv_std;
            dst[j * s.stride] = (float)(x * (double)gamma[p] + (double)beta[p]);
        }
    }
    return LS_OK;
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    const struct ls_ref_kernel *k = (const struct ls_ref_kernel *)*out;
    (*out)->scratch_bytes = 2 * (size_t)ls_shape_count(&k->in[1]) * sizeof(double);
    (*out)->may_alias = true;
    (*out)->alias_in = 2; /* diff_dst */
    return LS_OK;
}

/* With xhat = (x - mean) / std and dy = gamma * diff_dst:
 *     diff_src = (dy - mean(dy) - xhat * mean(dy * xhat)) / std */
static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct sets s = sets_of(k, k->base.impl->op);
    const float *gamma = b->in[1];
    float *diff_gamma = b->out[1], *diff_beta = b->out[2];
    double *by_gamma = b->scratch, *by_beta = by_gamma + s.n_params;
    memset(b->scratch, 0, 2 * (size_t)s.n_params * sizeof(double));
    for (int64_t set = 0; set < s.n; set++) {
        const int64_t begin = begin_of(&s, set);
        const float *src = (const float *)b->in[0] + begin, *diff_dst = (const float *)b->in[2] + begin;
        float *diff_src = (float *)b->out[0] + begin;
        const struct moments m = moments_of(&s, src, (double)k->attrs.eps);
        double sum = 0.0, sum_x = 0.0;
        for (int64_t j = 0; j < s.count; j++) {
            const int64_t p = param_of(&s, set, j);
            const double x = ((double)src[j * s.stride] - m.mean) * m.inv_std, d = (double)diff_dst[j * s.stride];
            sum += d * (double)gamma[p];
            sum_x += d * (double)gamma[p] * x;
            by_gamma[p] += d * x;
            by_beta[p] += d;
        }
        for (int64_t j = 0; j < s.count; j++) {
            const double x = ((double)src[j * s.stride] - m.mean) * m.inv_std;
            const double dy = (double)diff_dst[j * s.stride] * (double)gamma[param_of(&s, set, j)];
            diff_src[j * s.stride] = (float)((dy - (sum + x * sum_x) / (double)s.count) * m.inv_std);
        }
    }
    for (int64_t p = 0; p < s.n_params; p++) {
        diff_gamma[p] = (float)by_gamma[p];
        diff_beta[p] = (float)by_beta[p];
    }
    return LS_OK;
}

const struct ls_impl ls__ref_groupnorm = {
    .name = "ref",
    .op = LS_OP_GROUPNORM,
    .prepare = ls__ref_prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_groupnorm_bwd = {
    .name = "ref",
    .op = LS_OP_GROUPNORM_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};

const struct ls_impl ls__ref_layernorm = {
    .name = "ref",
    .op = LS_OP_LAYERNORM,
    .prepare = ls__ref_prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_layernorm_bwd = {
    .name = "ref",
    .op = LS_OP_LAYERNORM_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
