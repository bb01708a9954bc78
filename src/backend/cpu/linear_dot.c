/* linear_dot.c: the forward pass of a linear layer for the few samples of a shard, as dot products.
 *
 * A library's matrix product first packs the weights, which pays when they are used for hundreds of rows; a shard
 * has 16. Here src [mb,ic] and weights [oc,ic] are read as they lie, both along ic: 4 samples times 4 outputs at a
 * time, 16 dot products in 16 registers, summed across their lanes together. Long rows are cut into chunks so that four
 * rows of weights stay in the first cache for all samples, and each weight comes from memory once per shard. The order
 * of every sum is fixed. AVX-512.
 */
#include "backend/backend.h"
#include "backend/cpu/impls.h"
#include "backend/cpu/lanes.h"

#if defined(__x86_64__)
#include "backend/cpu/vec_lanes.h"

enum { SIDE = 4, CHUNK = 1024, MAX_SAMPLES = 32 };

struct dot_kernel {
    struct ls_kernel base;
    int mb, ic, oc;
    bool relu;
};

/* The four vectors' sums within each 128-bit lane: lane l of the result is [sum of v0's lane l, v1's, v2's, v3's]. */
AVX512_TARGET INLINE v16_float sum_within_lanes(const v16_float v[SIDE])
{
    const v16_float a = v16_add(_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpackhi_ps(v[0], v[1]));
    const v16_float b = v16_add(_mm512_unpacklo_ps(v[2], v[3]), _mm512_unpackhi_ps(v[2], v[3]));
    return v16_add(_mm512_shuffle_ps(a, b, 0x44), _mm512_shuffle_ps(a, b, 0xEE));
}

/* All lanes of 16 vectors: lane o, element n of the result is the sum of acc[o][n]. */
AVX512_TARGET INLINE v16_float sum_all(const v16_float acc[SIDE][SIDE])
{
    const v16_float u0 = sum_within_lanes(acc[0]), u1 = sum_within_lanes(acc[1]);
    const v16_float u2 = sum_within_lanes(acc[2]), u3 = sum_within_lanes(acc[3]);
    const v16_float a = v16_add(_mm512_shuffle_f32x4(u0, u1, 0x44), _mm512_shuffle_f32x4(u0, u1, 0xEE));
    const v16_float b = v16_add(_mm512_shuffle_f32x4(u2, u3, 0x44), _mm512_shuffle_f32x4(u2, u3, 0xEE));
    return v16_add(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xDD));
}

/* Dot products of four samples with four rows of weights over `count` elements; out[o * 4 + n]. Rows that do not exist
 * repeat the first one (the caller passes its address), so there are always four. */
AVX512_TARGET static void dots(const float *const src[SIDE], const float *const weights[SIDE], int count,
                               float out[LANES])
{
    v16_float acc[SIDE][SIDE];
#pragma GCC unroll 4
    for (int o = 0; o < SIDE; o++)
#pragma GCC unroll 4
        for (int n = 0; n < SIDE; n++) acc[o][n] = v16_zero();
    int i = 0;
    for (; i + LANES <= count; i += LANES) {
        v16_float x[SIDE];
#pragma GCC unroll 4
        for (int n = 0; n < SIDE; n++) x[n] = v16_load(src[n] + i);
#pragma GCC unroll 4
        for (int o = 0; o < SIDE; o++) {
            const v16_float w = v16_load(weights[o] + i);
#pragma GCC unroll 4
            for (int n = 0; n < SIDE; n++) acc[o][n] = v16_fma(w, x[n], acc[o][n]);
        }
    }
    if (i < count) {
        const v16_mask in = (v16_mask)((1 << (count - i)) - 1);
#pragma GCC unroll 4
        for (int o = 0; o < SIDE; o++) {
            const v16_float w = v16_load_in(in, weights[o] + i);
#pragma GCC unroll 4
            for (int n = 0; n < SIDE; n++) acc[o][n] = v16_fma(w, v16_load_in(in, src[n] + i), acc[o][n]);
        }
    }
    v16_store(out, sum_all(acc));
}

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* Outputs [o, o+4) of all samples, over elements [first, first + count): added to dst, or begun with the bias. */
static void four_outputs(const struct dot_kernel *k, const struct ls_bound *b, int o, int first, int count)
{
    const float *src = b->in[0], *weights = b->in[1], *bias = b->in[2], *rows[SIDE], *samples[SIDE];
    float *dst = b->out[0], sums[LANES];
    bool is_last = first + count == k->ic;
    int n_out = min(SIDE, k->oc - o);
    for (int i = 0; i < SIDE; i++) rows[i] = weights + (ptrdiff_t)(o + (i < n_out ? i : 0)) * k->ic + first;
    for (int n = 0; n < k->mb; n += SIDE) {
        int n_samples = min(SIDE, k->mb - n);
        for (int i = 0; i < SIDE; i++) samples[i] = src + (ptrdiff_t)(n + (i < n_samples ? i : 0)) * k->ic + first;
        dots(samples, rows, count, sums);
        for (int s = 0; s < n_samples; s++)
            for (int i = 0; i < n_out; i++) {
                float *to = dst + (ptrdiff_t)(n + s) * k->oc + o + i;
                float value = (first ? *to : bias ? bias[o + i] : 0) + sums[i * SIDE + s];
                *to = is_last && k->relu && value < 0 ? 0 : value;
            }
    }
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct dot_kernel *k = (const struct dot_kernel *)b->kernel;
    for (int first = 0; first < k->ic; first += CHUNK)
        for (int o = 0; o < k->oc; o += SIDE) four_outputs(k, b, o, first, min(CHUNK, k->ic - first));
    return LS_OK;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_node *n = prep->node;
    const struct ls_shape *src = &prep->graph->values[n->in[0]].shape, *dst = &prep->graph->values[n->out[0]].shape;
    struct dot_kernel *k;
    if (!ls__lanes_are_available()) return ls_fail(LS_UNSUPPORTED, "needs AVX-512");
    if (src->dims[0] > MAX_SAMPLES) return ls_fail(LS_UNSUPPORTED, "enough samples for a packed product");
    TRY(ls_kernel_create(&k, sizeof *k, prep, &ls__cpu_linear_dot));
    k->mb = (int)src->dims[0];
    k->ic = (int)src->dims[1];
    k->oc = (int)dst->dims[1];
    k->relu = n->attrs.relu;
    *out = &k->base;
    return LS_OK;
}

#else

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    return LS_OK;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls_fail(LS_UNSUPPORTED, "needs AVX-512");
}

#endif

const struct ls_impl ls__cpu_linear_dot = {.name = "dot", .op = LS_OP_LINEAR, .prepare = prepare, .launch = launch};
