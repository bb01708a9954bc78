/* groupnorm.c: group norm and its gradient, in plain order, in blocks of channels or with channels last.
 *
 * In:  src [mb,c,h,w] or [mb,c]; gamma, beta [c]; diff_dst like src
 * Out: dst like src, in its layout | diff_src, diff_gamma, diff_beta
 *
 * A sample at a time: sums per channel, in double and in a fixed order, become statistics per group, these become
 * numbers per channel, and one pass applies them. So a group may begin inside a block. The channels that only fill up
 * the last block have factors of 0 and stay 0.
 */
#include "backend/cpu/blocking.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/norm.h"

#include <math.h>
#include <string.h>

struct groupnorm {
    struct ls_kernel base;
    struct dnn_view view;
    int64_t n_groups;
    double eps;
};

/* One number per channel, the filled-up block included. mean, inv_std: of its group. by_*: over the samples so far. */
struct channels {
    double *sums, *sums_x, *by_gamma, *by_beta;
    float *mean, *inv_std, *scale, *shift, *slope;
};
enum { N_DOUBLES = 4, N_FLOATS = 5 };

static const struct groupnorm *of(const struct ls_bound *b)
{
    return (const struct groupnorm *)b->kernel;
}

static int64_t padded(const struct dnn_view *v)
{
    return v->n_blocks * v->block;
}

static struct channels channels_of(const struct groupnorm *k, void *scratch)
{
    const int64_t n = padded(&k->view);
    double *d = scratch;
    float *f = (float *)(d + N_DOUBLES * n);
    memset(scratch, 0, (size_t)n * (N_DOUBLES * sizeof *d + N_FLOATS * sizeof *f));
    return (struct channels){.sums = d,
                             .sums_x = d + n,
                             .by_gamma = d + 2 * n,
                             .by_beta = d + 3 * n,
                             .mean = f,
                             .inv_std = f + n,
                             .scale = f + 2 * n,
                             .shift = f + 3 * n,
                             .slope = f + 4 * n};
}

/* --- loops: over a plane of one channel, and over rows of `width` channels --- */

LS_VECTORIZE static double groupnorm_plane_sum(const float *x, int64_t n)
{
    double sum;
    NORM_SUM(sum, n, (double)x[i]);
    return sum;
}

LS_VECTORIZE static double groupnorm_plane_squares(const float *x, float mean, int64_t n)
{
    double sum;
    NORM_SUM(sum, n, (double)(x[i] - mean) * (double)(x[i] - mean));
    return sum;
}

LS_VECTORIZE static double groupnorm_plane_product(const float *x, const float *d, float mean, int64_t n)
{
    double sum;
    NORM_SUM(sum, n, (double)d[i] * (double)(x[i] - mean));
    return sum;
}

LS_VECTORIZE static void groupnorm_rows_sum(const float *restrict x, double *restrict sums, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, x += width)
        for (int64_t j = 0; j < width; j++) sums[j] += (double)x[j];
}

LS_VECTORIZE static void groupnorm_rows_squares(const float *restrict x, const float *restrict mean,
                                                double *restrict sums, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, x += width)
        for (int64_t j = 0; j < width; j++) sums[j] += (double)(x[j] - mean[j]) * (double)(x[j] - mean[j]);
}

LS_VECTORIZE static void groupnorm_rows_product(const float *restrict x, const float *restrict d,
                                                const float *restrict mean, double *restrict sums, int64_t rows,
                                                int64_t width)
{
    for (int64_t r = 0; r < rows; r++, x += width, d += width)
        for (int64_t j = 0; j < width; j++) sums[j] += (double)d[j] * (double)(x[j] - mean[j]);
}

LS_VECTORIZE static void groupnorm_plane_apply(const float *src, float mean, float scale, float shift, float *dst,
                                               int64_t n)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < n; i++) dst[i] = (src[i] - mean) * scale + shift;
}

LS_VECTORIZE static void groupnorm_rows_apply(const float *src, const float *mean, const float *scale,
                                              const float *shift, float *dst, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++, src += width, dst += width) {
        LS_INDEPENDENT
        for (int64_t j = 0; j < width; j++) dst[j] = (src[j] - mean[j]) * scale[j] + shift[j];
    }
}

/* diff_src = diff_dst * scale - (src - mean) * slope - shift */
LS_VECTORIZE static void groupnorm_plane_bwd(const float *src, const float *d, float mean, float scale, float slope,
                                             float shift, float *diff_src, int64_t n)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < n; i++) diff_src[i] = d[i] * scale - (src[i] - mean) * slope - shift;
}

LS_VECTORIZE static void groupnorm_rows_bwd(const float *src, const float *d, const float *mean, const float *scale,
                                            const float *slope, const float *shift, float *diff_src, int64_t rows,
                                            int64_t width)
{
    for (int64_t r = 0; r < rows; r++, src += width, d += width, diff_src += width) {
        LS_INDEPENDENT
        for (int64_t j = 0; j < width; j++) diff_src[j] = d[j] * scale[j] - (src[j] - mean[j]) * slope[j] - shift[j];
    }
}

/* --- statistics of one sample --- */

/* The sum of sums[] over the channels of a group. */
static double group_sum(const struct groupnorm *k, const double *sums, int64_t group)
{
    const int64_t n = k->view.c / k->n_groups;
    double sum = 0.0;
    for (int64_t c = group * n; c < (group + 1) * n; c++) sum += sums[c];
    return sum;
}

static void fill_group(const struct groupnorm *k, float *values, int64_t group, double value)
{
    const int64_t n = k->view.c / k->n_groups;
    for (int64_t c = group * n; c < (group + 1) * n; c++) values[c] = (float)value;
}

static double group_count(const struct groupnorm *k)
{
    const int64_t n_channels = k->view.c / k->n_groups;
    return (double)(n_channels * k->view.hw);
}

static void sum_channels(const struct dnn_view *v, const float *x, double *sums)
{
    memset(sums, 0, (size_t)padded(v) * sizeof *sums);
    for (int64_t block = 0; block < v->n_blocks; block++, x += v->hw * v->block) {
        if (v->block == 1)
            sums[block] = groupnorm_plane_sum(x, v->hw);
        else
            groupnorm_rows_sum(x, sums + block * v->block, v->hw, v->block);
    }
}

static void sum_squares(const struct dnn_view *v, const float *x, const float *mean, double *sums)
{
    memset(sums, 0, (size_t)padded(v) * sizeof *sums);
    for (int64_t block = 0; block < v->n_blocks; block++, x += v->hw * v->block) {
        if (v->block == 1)
            sums[block] = groupnorm_plane_squares(x, mean[block], v->hw);
        else
            groupnorm_rows_squares(x, mean + block * v->block, sums + block * v->block, v->hw, v->block);
    }
}

static void sum_products(const struct dnn_view *v, const float *x, const float *d, const float *mean, double *sums)
{
    memset(sums, 0, (size_t)padded(v) * sizeof *sums);
    for (int64_t block = 0; block < v->n_blocks; block++, x += v->hw * v->block, d += v->hw * v->block) {
        if (v->block == 1)
            sums[block] = groupnorm_plane_product(x, d, mean[block], v->hw);
        else
            groupnorm_rows_product(x, d, mean + block * v->block, sums + block * v->block, v->hw, v->block);
    }
}

/* mean and inv_std of every channel's group. */
static void measure(const struct groupnorm *k, const float *x, struct channels *ch)
{
    sum_channels(&k->view, x, ch->sums);
    for (int64_t g = 0; g < k->n_groups; g++) fill_group(k, ch->mean, g, group_sum(k, ch->sums, g) / group_count(k));
    sum_squares(&k->view, x, ch->mean, ch->sums);
    for (int64_t g = 0; g < k->n_groups; g++)
        fill_group(k, ch->inv_std, g, 1.0 / sqrt(group_sum(k, ch->sums, g) / group_count(k) + k->eps));
}

/* --- forward --- */

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, struct ls_kernel **out)
{
    struct groupnorm *k;
    struct ls_layout layout;
    struct dnn_view view;
    TRY(ls__dnn_view_input(prep, &layout, &view));
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    k->base.in[0] = layout;
    k->base.out[0] = layout;
    k->view = view;
    k->n_groups = prep->node->attrs.groups;
    k->eps = (double)prep->node->attrs.eps;
    k->base.scratch_bytes = (size_t)padded(&k->view) * (N_DOUBLES * sizeof(double) + N_FLOATS * sizeof(float));
    *out = &k->base;
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return prepare(prep, &ls__cpu_groupnorm, out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct groupnorm *k = of(b);
    const struct dnn_view *v = &k->view;
    const float *src = b->in[0], *gamma = b->in[1], *beta = b->in[2];
    float *dst = b->out[0];
    struct channels ch = channels_of(k, b->scratch);
    for (int64_t n = 0; n < v->mb; n++) {
        measure(k, src, &ch);
        for (int64_t c = 0; c < v->c; c++) {
            ch.scale[c] = gamma[c] * ch.inv_std[c];
            ch.shift[c] = beta[c];
        }
        for (int64_t block = 0; block < v->n_blocks; block++, src += v->hw * v->block, dst += v->hw * v->block) {
            const int64_t c = block * v->block;
            if (v->block == 1)
                groupnorm_plane_apply(src, ch.mean[c], ch.scale[c], ch.shift[c], dst, v->hw);
            else
                groupnorm_rows_apply(src, ch.mean + c, ch.scale + c, ch.shift + c, dst, v->hw, v->block);
        }
    }
    return LS_OK;
}

/* --- backward --- */

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, &ls__cpu_groupnorm_bwd, out));
    (*out)->in[2] = (*out)->in[0];
    (*out)->may_alias = true;
    (*out)->alias_in = 2; /* diff_dst */
    return LS_OK;
}

/* With xhat = (x - mean) / std and dy = gamma * diff_dst:
 *     diff_src = (dy - mean(dy) - xhat * mean(dy * xhat)) / std */
static void factors(const struct groupnorm *k, const float *gamma, struct channels *ch)
{
    const int64_t n = k->view.c / k->n_groups;
    for (int64_t g = 0; g < k->n_groups; g++) {
        double sum = 0.0, sum_x = 0.0;
        const double inv_std = (double)ch->inv_std[g * n];
        for (int64_t c = g * n; c < (g + 1) * n; c++) {
            sum += (double)gamma[c] * ch->sums[c];
            sum_x += (double)gamma[c] * ch->sums_x[c];
        }
        fill_group(k, ch->shift, g, sum / group_count(k) * inv_std);
        fill_group(k, ch->slope, g, sum_x / group_count(k) * inv_std * inv_std * inv_std);
    }
    for (int64_t c = 0; c < k->view.c; c++) {
        ch->scale[c] = gamma[c] * ch->inv_std[c];
        ch->by_gamma[c] += ch->sums_x[c] * (double)ch->inv_std[c];
        ch->by_beta[c] += ch->sums[c];
    }
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct groupnorm *k = of(b);
    const struct dnn_view *v = &k->view;
    const float *src = b->in[0], *gamma = b->in[1], *diff_dst = b->in[2];
    float *diff_src = b->out[0], *diff_gamma = b->out[1], *diff_beta = b->out[2];
    struct channels ch = channels_of(k, b->scratch);
    const int64_t step = v->hw * v->block;
    for (int64_t n = 0; n < v->mb; n++) {
        measure(k, src, &ch);
        sum_channels(v, diff_dst, ch.sums);
        sum_products(v, src, diff_dst, ch.mean, ch.sums_x);
        factors(k, gamma, &ch);
        for (int64_t block = 0; block < v->n_blocks; block++, src += step, diff_dst += step, diff_src += step) {
            const int64_t c = block * v->block;
            if (v->block == 1)
                groupnorm_plane_bwd(src, diff_dst, ch.mean[c], ch.scale[c], ch.slope[c], ch.shift[c], diff_src, v->hw);
            else
                groupnorm_rows_bwd(src, diff_dst, ch.mean + c, ch.scale + c, ch.slope + c, ch.shift + c, diff_src,
                                   v->hw, v->block);
        }
    }
    for (int64_t c = 0; c < v->c; c++) {
        diff_gamma[c] = (float)ch.by_gamma[c];
        diff_beta[c] = (float)ch.by_beta[c];
    }
    return LS_OK;
}

const struct ls_impl ls__cpu_groupnorm = {
    .name = "own", .op = LS_OP_GROUPNORM, .prepare = prepare_forward, .launch = launch_forward};
const struct ls_impl ls__cpu_groupnorm_bwd = {
    .name = "own", .op = LS_OP_GROUPNORM_BWD, .prepare = prepare_bwd, .launch = launch_bwd};
