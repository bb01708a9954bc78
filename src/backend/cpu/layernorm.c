/* layernorm.c: layer norm and its gradient, row by row.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta [c] or [c,h,w]; diff_dst like src
 * Out: dst like src | diff_src, diff_gamma, diff_beta
 *
 * A row is what shares a mean: with gamma [c] the channels of a pixel, so images are asked for with channels last; else
 * a whole sample in plain order. Statistics and parameter gradients are summed in double, rows in their order.
 */
#include "backend/cpu/blocking.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/norm.h"

#include <math.h>
#include <string.h>

struct layernorm {
    struct ls_kernel base;
    int64_t n_rows, width; /* src as [n_rows,width] */
    double eps;
};

static const struct layernorm *of(const struct ls_bound *b)
{
    return (const struct layernorm *)b->kernel;
}

struct row {
    float mean, inv_std;
};

LS_VECTORIZE static void layernorm_moments(const float *x, int64_t n, double eps, struct row *out)
{
    double sum, squares;
    NORM_SUM(sum, n, (double)x[i]);
    const double mean = sum / (double)n;
    NORM_SUM(squares, n, ((double)x[i] - mean) * ((double)x[i] - mean));
    *out = (struct row){(float)mean, (float)(1.0 / sqrt(squares / (double)n + eps))};
}

LS_VECTORIZE static void layernorm_apply(const float *src, struct row r, const float *gamma, const float *beta,
                                         float *dst, int64_t n)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < n; i++) dst[i] = (src[i] - r.mean) * r.inv_std * gamma[i] + beta[i];
}

static enum ls_status build(const struct ls_prep *prep, struct layernorm *k, int n_images, const int *images)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *gamma = ls__dnn_value_in(prep, 1);
    const int64_t count = ls_shape_count(&src->shape);
    k->width = ls_shape_count(&gamma->shape);
    k->n_rows = count / k->width;
    k->eps = (double)prep->node->attrs.eps;
    if (src->shape.n_dims != 4 || gamma->shape.n_dims != 1) return LS_OK;
    for (int i = 0; i < n_images; i++)
        TRY(ls__dnn_blocking_layout(prep->device, src, DNN_LAST, &k->base.in[images[i]]));
    return ls__dnn_blocking_layout(prep->device, src, DNN_LAST, &k->base.out[0]);
}

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, int n_images, const int *images,
                              struct ls_kernel **out)
{
    struct layernorm *k;
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    *out = &k->base;
    enum ls_status status = build(prep, k, n_images, images);
    if (status != LS_OK) ls_kernel_destroy(out);
    return status;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_layernorm, 1, (const int[]){0}, out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct layernorm *k = of(b);
    const float *src = b->in[0]; /* [n_rows,width] */
    float *dst = b->out[0];
    for (int64_t r = 0; r < k->n_rows; r++, src += k->width, dst += k->width) {
        struct row row;
        layernorm_moments(src, k->width, k->eps, &row);
        layernorm_apply(src, row, b->in[1], b->in[2], dst, k->width);
    }
    return LS_OK;
}

/* --- backward --- */

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, &ls__cpu_layernorm_bwd, 2, (const int[]){0, 2}, out));
    (*out)->scratch_bytes = 2 * (size_t)((struct layernorm *)*out)->width * sizeof(double);
    (*out)->may_alias = true;
    (*out)->alias_in = 2; /* diff_dst */
    return LS_OK;
}

/* The two means that backward subtracts: of gamma dy, and of gamma dy xhat. */
LS_VECTORIZE static void layernorm_means(const float *src, const float *gamma, const float *diff_dst, struct row r,
                                         int64_t n, float out[2])
{
    double sum, sum_x;
    NORM_SUM(sum, n, (double)(diff_dst[i] * gamma[i]));
    NORM_SUM(sum_x, n, (double)(diff_dst[i] * gamma[i]) * (double)((src[i] - r.mean) * r.inv_std));
    out[0] = (float)(sum / (double)n);
    out[1] = (float)(sum_x / (double)n);
}

LS_VECTORIZE static void layernorm_bwd_params(const float *restrict src, const float *restrict diff_dst, struct row r,
                                              double *restrict by_gamma, double *restrict by_beta, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        by_gamma[i] += (double)diff_dst[i] * (double)((src[i] - r.mean) * r.inv_std);
        by_beta[i] += (double)diff_dst[i];
    }
}

LS_VECTORIZE static void layernorm_bwd_row(const float *src, const float *gamma, const float *diff_dst, struct row r,
                                           const float means[2], float *diff_src, int64_t n)
{
    const float mean_dy = means[0], mean_dy_x = means[1];
    LS_INDEPENDENT
    for (int64_t i = 0; i < n; i++) {
        const float x = (src[i] - r.mean) * r.inv_std;
        diff_src[i] = (diff_dst[i] * gamma[i] - mean_dy - x * mean_dy_x) * r.inv_std;
    }
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct layernorm *k = of(b);
    const float *src = b->in[0], *gamma = b->in[1], *diff_dst = b->in[2]; /* [n_rows,width], [width] */
    float *diff_src = b->out[0], *diff_gamma = b->out[1], *diff_beta = b->out[2];
    double *by_gamma = b->scratch, *by_beta = by_gamma + k->width;
    memset(by_gamma, 0, 2 * (size_t)k->width * sizeof *by_gamma);
    for (int64_t r = 0; r < k->n_rows; r++, src += k->width, diff_dst += k->width, diff_src += k->width) {
        struct row row;
        float means[2];
        layernorm_moments(src, k->width, k->eps, &row);
        layernorm_means(src, gamma, diff_dst, row, k->width, means);
        layernorm_bwd_params(src, diff_dst, row, by_gamma, by_beta, k->width);
        layernorm_bwd_row(src, gamma, diff_dst, row, means, diff_src, k->width);
    }
    for (int64_t i = 0; i < k->width; i++) {
        diff_gamma[i] = (float)by_gamma[i];
        diff_beta[i] = (float)by_beta[i];
    }
    return LS_OK;
}

const struct ls_impl ls__cpu_layernorm = {
    .name = "own", .op = LS_OP_LAYERNORM, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_layernorm_bwd = {
    .name = "own", .op = LS_OP_LAYERNORM_BWD, .prepare = prepare_bwd, .launch = launch_bwd};
