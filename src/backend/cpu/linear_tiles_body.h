/* linear_tiles_body.h: ls__linear_tiles.h, written once for vectors of VEC floats. Included by linear_avx512.c and
 * linear_avx2.c, which define
 *
 *     VEC, VEC_TARGET   width and instruction set
 *     SAMPLES           samples that forward does at once: SAMPLES * 16 / VEC accumulators
 *     AHEAD_BYTES       how far before its use a weight is fetched in forward
 */
#include "backend/cpu/linear_tiles.h"
#include "backend/cpu/vec.h"

#include <math.h>
#include <string.h>

enum { PER_BLOCK = TILE_OUTPUTS / VEC, BLOCKS_AHEAD = 3 };

static int min(int a, int b)
{
    return a < b ? a : b;
}

VEC_TARGET static void to_lanes(const float *from, int n, ptrdiff_t stride, int count, float *to)
{
    memset(to, 0, (size_t)(n < TILE_SAMPLES ? count : 0) * TILE_SAMPLES * sizeof *to);
    for (int s = 0; s < n; s += 8)
        for (int i = 0; i < count; i += 8) {
            const float *f = from + s * stride + i;
            float *t = to + i * TILE_SAMPLES + s;
            if (n - s >= 8 && count - i >= 8) {
                v8_float r[8];
                for (int k = 0; k < 8; k++) r[k] = v8_load(f + k * stride);
                v8_transpose(r);
                for (int k = 0; k < 8; k++) v8_store(t + k * TILE_SAMPLES, r[k]);
                continue;
            }
            for (int k = 0; k < min(8, n - s); k++)
                for (int c = 0; c < min(8, count - i); c++) t[c * TILE_SAMPLES + k] = f[k * stride + c];
        }
}

VEC_TARGET static void from_lanes(const float *from, int n, int count, float *to, ptrdiff_t stride)
{
    for (int s = 0; s < n; s += 8)
        for (int i = 0; i < count; i += 8) {
            const float *f = from + i * TILE_SAMPLES + s;
            float *t = to + s * stride + i;
            if (n - s >= 8 && count - i >= 8) {
                v8_float r[8];
                for (int k = 0; k < 8; k++) r[k] = v8_load(f + k * TILE_SAMPLES);
                v8_transpose(r);
                for (int k = 0; k < 8; k++) v8_store(t + k * stride, r[k]);
                continue;
            }
            for (int k = 0; k < min(8, n - s); k++)
                for (int c = 0; c < min(8, count - i); c++) t[k * stride + c] = f[c * TILE_SAMPLES + k];
        }
}

/* `size` samples of a group, of which n are wanted. */
VEC_TARGET INLINE void forward_samples(int size, const float *x, const float *w, int ic, int n, const float *bias,
                                       bool relu, float *dst, ptrdiff_t stride)
{
    V(float) acc[TILE_SAMPLES][PER_BLOCK];
#pragma GCC unroll 16
    for (int s = 0; s < size; s++)
#pragma GCC unroll 2
        for (int p = 0; p < PER_BLOCK; p++) acc[s][p] = V(zero)();
    for (int i = 0; i < ic; i++, x += TILE_SAMPLES, w += TILE_OUTPUTS) {
        V(float) row[PER_BLOCK];
        _mm_prefetch((const char *)w + AHEAD_BYTES, _MM_HINT_T0);
#pragma GCC unroll 2
        for (int p = 0; p < PER_BLOCK; p++) row[p] = V(load)(w + p * VEC);
#pragma GCC unroll 16
        for (int s = 0; s < size; s++)
#pragma GCC unroll 2
            for (int p = 0; p < PER_BLOCK; p++) acc[s][p] = V(fma)(V(all)(x[s]), row[p], acc[s][p]);
    }
#pragma GCC unroll 16
    for (int s = 0; s < size; s++)
#pragma GCC unroll 2
        for (int p = 0; p < PER_BLOCK; p++) {
            if (s >= n) continue;
            const V(float) y = V(add)(acc[s][p], V(load)(bias + p * VEC));
            V(store)(dst + s * stride + p * VEC, relu ? V(relu)(y) : y);
        }
}

VEC_TARGET static void forward(const float *x, const float *w, int ic, int n, const float *bias, bool relu, float *dst,
                               ptrdiff_t stride)
{
    for (int s = 0; s < n; s += SAMPLES)
        if (n - s > SAMPLES / 2)
            forward_samples(SAMPLES, x + s, w, ic, n - s, bias, relu, dst + s * stride, stride);
        else
            forward_samples(SAMPLES / 2, x + s, w, ic, n - s, bias, relu, dst + s * stride, stride);
}

/* Columns at `at` of one row, some of which may not exist. */
static void pack_rest(const float *from, int n, int width, float scale, float *to)
{
    for (int i = 0; i < width; i++) to[i] = i < n ? from[i] * scale : 0;
}

VEC_TARGET static void pack(const float *from, int n, int stride, int at, int width, float scale, float *to)
{
    const bool is_whole = stride - at >= width;
    for (int r = 0; r < n; r++, to += width) {
        const float *row = from + (ptrdiff_t)r * stride + at;
        if (!is_whole)
            pack_rest(row, stride - at, width, scale, to);
        else
            for (int i = 0; i < width; i += VEC) V(store)(to + i, V(mul)(V(load)(row + i), V(all)(scale)));
    }
}

/* Row by row, for rows are far apart. Four numbers are copied where three are wanted; the next row overwrites the
 * fourth. */
VEC_TARGET static void pack_narrow(const float *from, int n, int stride, int at, int count, float scale, float *to,
                                   ptrdiff_t step)
{
    for (int r = 0; r < n; r++, to += SUM_ROWS) {
        const float *row = from + (ptrdiff_t)r * stride + at;
        float *t = to;
        int k = 0;
        for (; k < count && stride - at - k > SUM_ROWS; k += SUM_ROWS, t += step)
            _mm_storeu_ps(t, _mm_mul_ps(_mm_loadu_ps(row + k), _mm_set1_ps(scale)));
        for (; k < count; k += SUM_ROWS, t += step)
            pack_rest(row + k, min(SUM_ROWS, stride - at - k), SUM_ROWS, scale, t);
    }
}

/* Where vector p of row j goes: 16 elements apart are step_v apart. */
INLINE int64_t *sum_place(const struct linear_sum_tile *t, int j, int p)
{
    return t->to + j * t->step_b + p * VEC / 16 * t->step_v + p * VEC % 16;
}

/* A number x below 2^44 is upper * 2^22 + lower, both below 2^22, lower rounded to nearest, ties to even. Adding
 * 1.5 * 2^45 leaves upper in the last bits of the sum's representation, adding 1.5 * 2^23 does the same for lower, so
 * that the representations, added up as integers, hold the sums of both and n times the constants. No step but the
 * wanted rounding is inexact. */
enum { UPPER_MAGIC = 0x56400000, LOWER_MAGIC = 0x4B400000, LOWER_BITS = 22 }; /* the constants' representations */
enum { SIGN_AND_EXPONENT = -(1 << 23) };
static const float upper_magic = 0x1.8p45f, both_magics = 0x1.8p45f + 0x1.8p23f;

VEC_TARGET INLINE void add_rounded(V(float) x, V(int) * upper, V(int) * lower, V(int) * unlike)
{
    const V(float) u = V(add)(x, V(all)(upper_magic));
    *upper = V(add32)(*upper, V(as_int)(u));
    *lower = V(add32)(*lower, V(as_int)(V(add)(x, V(sub)(V(all)(both_magics), u))));
    *unlike =
        V(or_differences)(*unlike, V(as_int)(u), V(all_int)(UPPER_MAGIC)); /* in sign or exponent: too large, NaN */
}

/* The sums of one shard's n rows into acc. Meanwhile those of the shard before are rounded and added up, a sixth of
 * them after every sixth of the rows: done in one go they would hold up the multiplications behind them. */
VEC_TARGET INLINE void sum_rows(const float *v, const float *b, int n, V(float) acc[SUM_ROWS][2],
                                V(float) before[SUM_ROWS][2], V(int) upper[SUM_ROWS][2], V(int) lower[SUM_ROWS][2],
                                V(int) * unlike)
{
    int r = 0;
#pragma GCC unroll 3
    for (int j = 0; j < SUM_ROWS; j++) acc[j][0] = acc[j][1] = V(zero)();
#pragma GCC unroll 6
    for (int q = 0; q < 2 * SUM_ROWS; q++) {
        add_rounded(before[q / 2][q % 2], &upper[q / 2][q % 2], &lower[q / 2][q % 2], unlike);
        for (int end = n * (q + 1) / (2 * SUM_ROWS); r < end; r++, v += 2 * VEC, b += SUM_ROWS) {
            V(float) v0 = V(load)(v), v1 = V(load)(v + VEC);
            __asm__("" : "+v"(v0), "+v"(v1)); /* or the compiler loads them anew for every multiplication */
#pragma GCC unroll 3
            for (int j = 0; j < SUM_ROWS; j++) {
                const V(float) x = V(all)(b[j]);
                acc[j][0] = V(fma)(x, v0, acc[j][0]);
                acc[j][1] = V(fma)(x, v1, acc[j][1]);
            }
        }
    }
}

/* to[0..VEC-1] += upper * 2^22 + lower. */
VEC_TARGET INLINE void add_total(int64_t *to, V(int) upper, V(int) lower)
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++, to += VEC / 2) {
        const V(int) wide = V(add64)(V(shift_left64)(V(widen)(upper, half), LOWER_BITS), V(widen)(lower, half));
        V(store_int)(to, V(add64)(V(load_int)(to), wide));
    }
}

static void fetch_sums(const struct linear_sum_tile *t)
{
    for (int j = 0; j < SUM_ROWS; j++)
        for (int i = 0; i < 2 * VEC; i += 8) __builtin_prefetch(t->to + j * t->step_b + i / 16 * t->step_v + i % 16, 1);
}

/* The same sums where add_rounded has met a number that is too large for it, one by one. */
VEC_TARGET static uint32_t sum_large(const struct linear_sum_tile *t)
{
    uint32_t largest = 0;
    for (int s = 0; s < t->n_shards; s++) {
        const struct linear_rows rows = t->shards[s];
        for (int j = 0; j < SUM_ROWS; j++)
            for (int i = 0; i < 2 * VEC; i++) {
                int64_t *to = t->to + j * t->step_b + i / 16 * t->step_v + i % 16;
                float x = 0;
                uint32_t bits;
                for (int r = rows.first; r < rows.first + rows.n; r++)
                    x = fmaf(t->b[r * SUM_ROWS + j], t->v[r * 2 * VEC + i], x);
                memcpy(&bits, &x, sizeof bits);
                bits &= 0x7fffffff;
                largest = bits > largest ? bits : largest;
                *to = (int64_t)((uint64_t)*to + (uint64_t)llrintf(x));
            }
    }
    return largest;
}

INLINE const float *row_of_v(const struct linear_sum_tile *t, int shard)
{
    return t->v + (ptrdiff_t)t->shards[shard].first * 2 * VEC;
}

INLINE const float *row_of_b(const struct linear_sum_tile *t, int shard)
{
    return t->b + (ptrdiff_t)t->shards[shard].first * SUM_ROWS;
}

/* Two sets of accumulators take turns. The first shard finds zeros before it. */
VEC_TARGET static uint32_t sum(const struct linear_sum_tile *t)
{
    V(int) upper[SUM_ROWS][2], lower[SUM_ROWS][2], unlike = V(zero_int)();
    V(float) even[SUM_ROWS][2], odd[SUM_ROWS][2];
    int s = 0;
    fetch_sums(t);
#pragma GCC unroll 3
    for (int j = 0; j < SUM_ROWS; j++)
#pragma GCC unroll 2
        for (int p = 0; p < 2; p++) {
            upper[j][p] = V(all_int)(-(int)((unsigned)(t->n_shards + 1) * UPPER_MAGIC));
            lower[j][p] = V(all_int)(-(int)((unsigned)(t->n_shards + 1) * LOWER_MAGIC));
            odd[j][p] = V(zero)();
        }
    for (; s + 1 < t->n_shards; s += 2) {
        sum_rows(row_of_v(t, s), row_of_b(t, s), t->shards[s].n, even, odd, upper, lower, &unlike);
        sum_rows(row_of_v(t, s + 1), row_of_b(t, s + 1), t->shards[s + 1].n, odd, even, upper, lower, &unlike);
    }
    if (s < t->n_shards) {
        sum_rows(row_of_v(t, s), row_of_b(t, s), t->shards[s].n, even, odd, upper, lower, &unlike);
        memcpy(odd, even, sizeof odd);
    }
#pragma GCC unroll 3
    for (int j = 0; j < SUM_ROWS; j++)
#pragma GCC unroll 2
        for (int p = 0; p < 2; p++) add_rounded(odd[j][p], &upper[j][p], &lower[j][p], &unlike);
    if (V(any_of)(unlike, SIGN_AND_EXPONENT)) return sum_large(t);
#pragma GCC unroll 3
    for (int j = 0; j < SUM_ROWS; j++)
#pragma GCC unroll 2
        for (int p = 0; p < 2; p++) add_total(sum_place(t, j, p), upper[j][p], lower[j][p]);
    return 0;
}
