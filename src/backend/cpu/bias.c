/* bias.c: a number per channel added, and the gradient of those numbers, in plain order, in blocks of channels or with
 * channels last.
 *
 * In:  src [mb,c,h,w] or [mb,c], bias [c] | diff_dst like src
 * Out: dst like src, in its layout | diff_bias [c]
 *
 * The gradient is summed in double, in a fixed number of partial sums: one per place in a row and residue of the row
 * number (blocks), or one per residue of the position (plain).
 */
#include "backend/cpu/blocking.h"
#include "backend/cpu/impls.h"
#include "base/simd.h"

#include <string.h>

enum { LANES = 16, MAX_BLOCK = 16 };

struct bias_kernel {
    struct ls_kernel base;
    struct dnn_view view;
};

static enum ls_status prepare(const struct ls_prep *prep, const struct ls_impl *impl, struct ls_kernel **out)
{
    struct bias_kernel *k;
    struct ls_layout layout;
    struct dnn_view view;
    TRY(ls__dnn_view_input(prep, &layout, &view));
    TRY(ls_kernel_create(&k, sizeof *k, prep, impl));
    k->base.in[0] = layout;
    k->view = view;
    *out = &k->base;
    return LS_OK;
}

/* --- forward --- */

/* dst [rows,width] = src + bias, which is the same for every row. */
LS_VECTORIZE static void bias_rows(const float *src, const float *bias, float *dst, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows; i++, src += width, dst += width) {
        LS_INDEPENDENT
        for (int64_t j = 0; j < width; j++) dst[j] = src[j] + bias[j];
    }
}

/* The same for rows of 16, which the compiler would not see as a vector. */
typedef float vec16 __attribute__((vector_size(64), aligned(4), may_alias));

LS_VECTORIZE static void bias_rows16(const float *src, const float *bias, float *dst, int64_t rows)
{
    const vec16 b = *(const vec16 *)bias;
    for (int64_t i = 0; i < rows; i++) *(vec16 *)(dst + 16 * i) = *(const vec16 *)(src + 16 * i) + b;
}

LS_VECTORIZE static void bias_plane(const float *src, float bias, float *dst, int64_t n)
{
    LS_INDEPENDENT
    for (int64_t i = 0; i < n; i++) dst[i] = src[i] + bias;
}

/* Zero where a block is only filled up, so that zeros stay zeros. */
static void bias_of_block(const float *bias, const struct dnn_view *v, int64_t block, float out[MAX_BLOCK])
{
    const int64_t first = block * v->block, n = v->c - first < v->block ? v->c - first : v->block;
    memset(out, 0, MAX_BLOCK * sizeof *out);
    memcpy(out, bias + first, (size_t)n * sizeof *out);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct dnn_view *v = &((const struct bias_kernel *)b->kernel)->view;
    const float *src = b->in[0], *bias = b->in[1];
    float *dst = b->out[0], padded[MAX_BLOCK];
    if (v->is_last) {
        bias_rows(src, bias, dst, v->mb * v->hw, v->c);
        return LS_OK;
    }
    const int64_t step = v->hw * v->block;
    for (int64_t n = 0; n < v->mb; n++)
        for (int64_t block = 0; block < v->n_blocks; block++, src += step, dst += step) {
            if (v->block == 1) {
                bias_plane(src, bias[block], dst, v->hw);
                continue;
            }
            bias_of_block(bias, v, block, padded);
            if (v->block == 16)
                bias_rows16(src, padded, dst, v->hw);
            else
                bias_rows(src, padded, dst, v->hw, v->block);
        }
    return LS_OK;
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, &ls__cpu_bias, out));
    (*out)->out[0] = (*out)->in[0];
    (*out)->may_alias = true;
    (*out)->alias_in = 0;
    return LS_OK;
}

const struct ls_impl ls__cpu_bias = {
    .name = "own", .op = LS_OP_BIAS, .prepare = prepare_forward, .launch = launch_forward};

/* --- backward --- */

/* sums [width] += the rows of x [rows,width]. */
LS_VECTORIZE static void bias_sum_rows(const float *restrict x, double *restrict sums, int64_t rows, int64_t width)
{
    for (int64_t i = 0; i < rows; i++, x += width)
        for (int64_t j = 0; j < width; j++) sums[j] += (double)x[j];
}

/* lanes [LANES] += x [n], element i to lane i % LANES. */
LS_VECTORIZE static void bias_sum_lanes(const float *restrict x, double *restrict sums, int64_t n)
{
    double lanes[LANES];
    int64_t i = 0;
    memcpy(lanes, sums, sizeof lanes);
    for (; i + LANES <= n; i += LANES)
        for (int l = 0; l < LANES; l++) lanes[l] += (double)x[i + l];
    for (int l = 0; i < n; i++, l++) lanes[l] += (double)x[i];
    memcpy(sums, lanes, sizeof lanes);
}

static void sum_last(const struct dnn_view *v, const float *diff_dst, double *sums, float *diff_bias)
{
    memset(sums, 0, (size_t)v->c * sizeof *sums);
    bias_sum_rows(diff_dst, sums, v->mb * v->hw, v->c);
    for (int64_t c = 0; c < v->c; c++) diff_bias[c] = (float)sums[c];
}

/* LANES is a multiple of the block, so lane l belongs to channel l % block of the block. */
static void sum_block(const struct dnn_view *v, const float *diff_dst, int64_t block, float *diff_bias)
{
    double lanes[LANES] = {0};
    for (int64_t n = 0; n < v->mb; n++)
        bias_sum_lanes(diff_dst + (n * v->n_blocks + block) * v->hw * v->block, lanes, v->hw * v->block);
    for (int64_t j = 0; j < v->block && block * v->block + j < v->c; j++) {
        double sum = 0.0;
        for (int64_t l = j; l < LANES; l += v->block) sum += lanes[l];
        diff_bias[block * v->block + j] = (float)sum;
    }
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct dnn_view *v = &((const struct bias_kernel *)b->kernel)->view;
    if (v->is_last)
        sum_last(v, b->in[0], b->scratch, b->out[0]);
    else
        for (int64_t block = 0; block < v->n_blocks; block++) sum_block(v, b->in[0], block, b->out[0]);
    return LS_OK;
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(prepare(prep, &ls__cpu_bias_bwd, out));
    (*out)->scratch_bytes = (size_t)((struct bias_kernel *)*out)->view.c * sizeof(double);
    return LS_OK;
}

const struct ls_impl ls__cpu_bias_bwd = {
    .name = "own", .op = LS_OP_BIAS_BWD, .prepare = prepare_bwd, .launch = launch_bwd};
