/* linear_sum.c: the gradient of a large linear layer, summed over the shards in one pass (graph/ops/keep.c has the
 * idea).
 *
 * A part is a block of rows of the weights. The block's columns of diff_dst, and 32 columns of src at a time, are
 * packed side by side, for rows of a large layer lie a power of two apart and would fall onto each other in the cache.
 * Then 8 x 32 weights at a time: for every shard the sum over its rows in 16 registers, rounded to fixed point and
 * added to sums that stay in the first cache until the last shard. AVX-512; elsewhere ref does it.
 */
#include "backend/cpu/impls.h"
#include "backend/cpu/lanes.h"
#include "lockstep/backend.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK_ROWS = 64, TILE_ROWS = 8, TILE_COLUMNS = 32, FIXED_LIMIT_LOG2 = 54 };

#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq")))
#define INLINE512 static inline __attribute__((always_inline, target("avx512f,avx512vl,avx512bw,avx512dq")))

struct sum_kernel {
    struct ls_kernel base;
    int batch, ic, oc;
    float scale; /* 2^scale_log2: diff_dst is multiplied by it, exactly, so that sums come out in fixed-point units */
    char name[64];
};

static int min(int a, int b)
{
    return a < b ? a : b;
}

/* Rows of shards that are not here hold anything, NaN too: they must not be read into a sum. */
static bool is_here(const struct ls_step_ctx *ctx, int first)
{
    return !ctx->mine || ctx->mine[first / ctx->shard_size];
}

/* sum[0..15] += round(x), ties to even; the largest |x| seen goes into *largest, as bits. */
INLINE512 void add_fixed(int64_t *sum, __mmask16 in, __m512 x, __m512i *largest)
{
    const __m512i low = _mm512_cvtps_epi64(_mm512_castps512_ps256(x));
    const __m512i high = _mm512_cvtps_epi64(_mm512_extractf32x8_ps(x, 1));
    const __mmask8 in_low = (__mmask8)in, in_high = (__mmask8)(in >> 8);
    _mm512_mask_storeu_epi64(sum, in_low, _mm512_add_epi64(_mm512_maskz_loadu_epi64(in_low, sum), low));
    _mm512_mask_storeu_epi64(sum + 8, in_high, _mm512_add_epi64(_mm512_maskz_loadu_epi64(in_high, sum + 8), high));
    const __m512i bits = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
    *largest = _mm512_mask_max_epu32(*largest, in, *largest, bits);
}

/* One tile of weights: n_rows (<= 8) rows of `sums`, ic apart, and 32 columns of which `in` exist. */
TARGET static __m512i tile(const struct sum_kernel *k, const struct ls_step_ctx *ctx, const float *src /* [batch,32] */,
                           const float *diff /* [batch,64] */, int n_rows, const __mmask16 in[2], int64_t *sums,
                           __m512i largest)
{
    for (int first = 0; first < ctx->batch_n; first += ctx->shard_size) {
        if (!is_here(ctx, first)) continue;
        __m512 acc[TILE_ROWS][2];
        int end = min(first + ctx->shard_size, ctx->batch_n);
#pragma GCC unroll 8
        for (int o = 0; o < TILE_ROWS; o++) acc[o][0] = acc[o][1] = _mm512_setzero_ps();
        for (int r = first; r < end; r++) {
            const __m512 v0 = _mm512_load_ps(src + r * TILE_COLUMNS);
            const __m512 v1 = _mm512_load_ps(src + r * TILE_COLUMNS + LANES);
#pragma GCC unroll 8
            for (int o = 0; o < TILE_ROWS; o++) {
                const __m512 g = _mm512_set1_ps(diff[r * BLOCK_ROWS + o]);
                acc[o][0] = _mm512_fmadd_ps(g, v0, acc[o][0]);
                acc[o][1] = _mm512_fmadd_ps(g, v1, acc[o][1]);
            }
        }
#pragma GCC unroll 8
        for (int o = 0; o < TILE_ROWS; o++) {
            if (o >= n_rows) continue;
            add_fixed(sums + (int64_t)o * k->ic, in[0], acc[o][0], &largest);
            add_fixed(sums + (int64_t)o * k->ic + LANES, in[1], acc[o][1], &largest);
        }
    }
    return largest;
}

static __mmask16 columns_left(int left)
{
    return (__mmask16)(left >= LANES ? 0xffff : left > 0 ? (1 << left) - 1 : 0);
}

/* Columns [at, at + width) of a [n,stride] matrix as [n,width] times scale, zeros where it has none. */
TARGET static void pack(const float *from, int n, int stride, int at, int width, float scale, float *to)
{
    for (int r = 0; r < n; r++, to += width)
        for (int i = 0; i < width; i += LANES) {
            const __m512 v =
                _mm512_maskz_loadu_ps(columns_left(stride - at - i), from + (size_t)r * (size_t)stride + at + i);
            _mm512_store_ps(to + i, _mm512_mul_ps(v, _mm512_set1_ps(scale)));
        }
}

TARGET static __m512i add_bias(const struct sum_kernel *k, const struct ls_step_ctx *ctx, const float *diff, int n_rows,
                               int64_t *sums, __m512i largest)
{
    for (int o = 0; o < n_rows; o += LANES)
        for (int first = 0; first < ctx->batch_n; first += ctx->shard_size) {
            if (!is_here(ctx, first)) continue;
            __m512 acc = _mm512_setzero_ps();
            for (int r = first; r < min(first + ctx->shard_size, ctx->batch_n); r++)
                acc = _mm512_add_ps(acc, _mm512_load_ps(diff + r * BLOCK_ROWS + o));
            add_fixed(sums + o, columns_left(n_rows - o), acc, &largest);
        }
    return largest;
}

TARGET static float run_block(const struct sum_kernel *k, const struct ls_bound *b, const struct ls_step_ctx *ctx,
                              int block)
{
    int row = block * BLOCK_ROWS, n_rows = min(BLOCK_ROWS, k->oc - row);
    float *diff = b->scratch, *src = diff + (size_t)k->batch * BLOCK_ROWS;
    int64_t *sums = (int64_t *)b->out[0] + (int64_t)row * k->ic;
    __m512i largest = _mm512_setzero_si512();
    pack(b->in[1], ctx->batch_n, k->oc, row, BLOCK_ROWS, k->scale, diff);
    for (int at = 0; at < k->ic; at += TILE_COLUMNS) {
        const __mmask16 in[2] = {columns_left(k->ic - at), columns_left(k->ic - at - LANES)};
        pack(b->in[0], ctx->batch_n, k->ic, at, TILE_COLUMNS, 1, src);
        for (int o = 0; o < n_rows; o += TILE_ROWS)
            largest =
                tile(k, ctx, src, diff + o, min(TILE_ROWS, n_rows - o), in, sums + (int64_t)o * k->ic + at, largest);
    }
    if (b->out[1]) largest = add_bias(k, ctx, diff, n_rows, (int64_t *)b->out[1] + row, largest);
    /* Floats without sign order as their bits do, infinity and NaN at the top. */
    const uint32_t bits = _mm512_reduce_max_epu32(largest);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct sum_kernel *k = (const struct sum_kernel *)b->kernel;
    int n_blocks = (k->oc + BLOCK_ROWS - 1) / BLOCK_ROWS;
    for (int i = n_blocks * ctx->part / ctx->n_parts; i < n_blocks * (ctx->part + 1) / ctx->n_parts; i++)
        if (!(run_block(k, b, ctx, i) < ldexpf(1, FIXED_LIMIT_LOG2))) /* true for NaN */
            return ls_fail(LS_NONFINITE, "%s: gradient not finite or beyond the fixed-point range", k->name);
    return LS_OK;
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    const struct ls_node *n = prep->node;
    const struct ls_shape *src = &prep->graph->values[n->in[0]].shape, *diff = &prep->graph->values[n->in[1]].shape;
    struct sum_kernel *k;
    if (!lanes_are_available()) return ls_fail(LS_UNSUPPORTED, "needs AVX-512");
    TRY(ls_kernel_create(&k, sizeof *k, prep, &ls__cpu_linear_sum));
    k->batch = (int)src->dims[0];
    k->ic = (int)src->dims[1];
    k->oc = (int)diff->dims[1];
    k->scale = ldexpf(1, n->attrs.scale_log2);
    snprintf(k->name, sizeof k->name, "%s", n->name);
    k->base.scratch_bytes = (size_t)k->batch * (BLOCK_ROWS + TILE_COLUMNS) * sizeof(float);
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

const struct ls_impl ls__cpu_linear_sum = {.name = "own", .op = LS_OP_LINEAR_SUM, .prepare = prepare, .launch = launch};
