/* linear.c: dst = src * weights^T + bias, and its two gradients.
 *
 * In:  src [mb,ic], weights [oc,ic], bias [oc]?, diff_dst [mb,oc]
 * Out: dst [mb,oc] | diff_src [mb,ic] | diff_weights [oc,ic], diff_bias [oc]?
 */
#include "backend/ref/ref.h"

#include <string.h>

LS_VECTORIZE
static double linear_dot(const float *a, const float *b, int64_t n)
{
    double lanes[LS_REF_LANES] = {0.0};
    ls__ref_dot(lanes, a, b, n);
    return ls__ref_lanes_sum(lanes);
}

LS_VECTORIZE
static void linear_axpy(double *restrict acc, double a, const float *restrict x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) acc[i] += a * (double)x[i];
}

static void store_row(float *dst, const double *acc, int64_t n)
{
    for (int64_t i = 0; i < n; i++) dst[i] = (float)acc[i];
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t mb = k->in[0].dims[0], ic = ls_shape_count(&k->in[0]) / mb, oc = k->in[1].dims[0];
    const float *src = b->in[0], *weights = b->in[1], *bias = b->in[2];
    float *dst = b->out[0];
    for (int64_t o = 0; o < oc; o++) {
        for (int64_t m = 0; m < mb; m++) {
            float v = (float)(linear_dot(src + m * ic, weights + o * ic, ic) + (bias ? (double)bias[o] : 0.0));
            dst[m * oc + o] = k->attrs.relu ? ls__ref_relu1(v) : v;
        }
    }
    return LS_OK;
}

/* Both gradients gather a row of ic elements in double. */
static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    const struct ls_shape *s = &((struct ls_ref_kernel *)*out)->out[0];
    (*out)->scratch_bytes = (size_t)(ls_shape_count(s) / s->dims[0]) * sizeof(double);
    return LS_OK;
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t mb = k->in[0].dims[0], oc = k->in[0].dims[1], ic = ls_shape_count(&k->out[0]) / mb;
    const float *diff_dst = b->in[0], *weights = b->in[1];
    float *diff_src = b->out[0];
    double *acc = b->scratch; /* [ic] */
    for (int64_t m = 0; m < mb; m++) {
        memset(acc, 0, (size_t)ic * sizeof *acc);
        for (int64_t o = 0; o < oc; o++) linear_axpy(acc, (double)diff_dst[m * oc + o], weights + o * ic, ic);
        store_row(diff_src + m * ic, acc, ic);
    }
    return LS_OK;
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t mb = k->in[1].dims[0], oc = k->in[1].dims[1], ic = ls_shape_count(&k->in[0]) / mb;
    const float *src = b->in[0], *diff_dst = b->in[1];
    float *diff_weights = b->out[0], *diff_bias = b->out[1];
    double *acc = b->scratch; /* [ic] */
    for (int64_t o = 0; o < oc; o++) {
        double bias = 0.0;
        memset(acc, 0, (size_t)ic * sizeof *acc);
        for (int64_t m = 0; m < mb; m++) {
            linear_axpy(acc, (double)diff_dst[m * oc + o], src + m * ic, ic);
            bias += (double)diff_dst[m * oc + o];
        }
        store_row(diff_weights + o * ic, acc, ic);
        if (diff_bias) diff_bias[o] = (float)bias;
    }
    return LS_OK;
}

const struct ls_impl ls__ref_linear = {
    .name = "ref",
    .op = LS_OP_LINEAR,
    .prepare = ls__ref_prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_linear_bwd_data = {
    .name = "ref",
    .op = LS_OP_LINEAR_BWD_DATA,
    .prepare = prepare_bwd,
    .launch = launch_bwd_data,
};

const struct ls_impl ls__ref_linear_bwd_weights = {
    .name = "ref",
    .op = LS_OP_LINEAR_BWD_WEIGHTS,
    .prepare = prepare_bwd,
    .launch = launch_bwd_weights,
};
