/* lanes.c: see lanes.h. Blocks are sized so that all accumulators stay in the 32 vector registers. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/isa.h"

#include <string.h>

enum { OC_BLOCK = 8, MAX_ACC = 24, W_OC = 4 }; /* channels at a time; accumulators; channels in backward by weights */

static int min(int a, int b)
{
    return a < b ? a : b;
}

static int max(int a, int b)
{
    return a > b ? a : b;
}

static ptrdiff_t row_vectors(const struct lanes_conv *c)
{
    return ((ptrdiff_t)c->ow * c->n + LANES - 1) / LANES;
}

/* Vectors of a row computed at once with n_oc channels: 24 accumulators at most. */
static int vectors_with(int n_oc)
{
    return n_oc <= 4 ? 6 : n_oc <= 6 ? 4 : 3;
}

/* Output channels computed at once: the number that computes the fewest vectors twice or for nothing. */
static int block_of(const struct lanes_conv *c)
{
    ptrdiff_t n = row_vectors(c), best_cost = PTRDIFF_MAX;
    int best = 1;
    for (int size = OC_BLOCK; size >= 4; size--) {
        int n_oc = min(size, c->oc), n_v = vectors_with(n_oc), n_blocks = (c->oc + n_oc - 1) / n_oc;
        ptrdiff_t per_channel = n < n_v ? 2 * n : (n + n_v - 1) / n_v * n_v; /* single vectors wait for their sums */
        ptrdiff_t cost = per_channel * c->oc + n_blocks;                     /* and every block reads the row again */
        if (cost < best_cost) {
            best_cost = cost;
            best = n_oc;
        }
    }
    return best;
}

void lanes_pack(const struct lanes_conv *c, const float *weights, bool is_turned, float *packed)
{
    int taps = c->kh * c->kw, step = block_of(c);
    for (int first = 0; first < c->oc; first += step)
        for (int i = 0; i < c->ic; i++)
            for (int t = 0; t < taps; t++)
                for (int o = first; o < min(first + step, c->oc); o++)
                    *packed++ = is_turned ? weights[(i * c->oc + o) * taps + taps - 1 - t]
                                          : weights[(o * c->ic + i) * taps + t];
}

/* Accumulators, then which lanes of each vector and tap lie inside the source row. */
size_t lanes_acc_count(const struct lanes_conv *c)
{
    return (size_t)W_OC * (size_t)(c->kh * c->kw) * LANES + ((size_t)row_vectors(c) * (size_t)c->kw + 1) / 2;
}

/* The lanes of a vector, in a fixed order. */
static float sum_lanes(const float v[LANES])
{
    float part[8];
    for (int l = 0; l < 8; l++) part[l] = v[l] + v[l + 8];
    for (int l = 0; l < 4; l++) part[l] += part[l + 4];
    return (part[0] + part[2]) + (part[1] + part[3]);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET target("avx512f,avx512vl,avx512bw,avx512dq")
#define INLINE512 static inline __attribute__((always_inline, TARGET))

bool lanes_are_available(void)
{
    return cpu_isa_has_avx512();
}

/* Lanes of a vector that begins at `first` and lie inside a row of `len` floats. */
INLINE512 __mmask16 inside(ptrdiff_t first, ptrdiff_t len)
{
    int skip = first < 0 ? (int)(-first < LANES ? -first : LANES) : 0;
    int keep = first + LANES > len ? (int)(len > first ? len - first : 0) : LANES;
    return (__mmask16)((0xffffu << skip) & ((1u << keep) - 1));
}

/* n_oc channels of n_v vectors from float `at` of output row y on. Called with constants for n_oc and n_v, so that acc
 * is registers. With is_edge some lanes of some taps lie outside the source row: they read zeros. */
INLINE512 void forward_block(const struct lanes_conv *c, const float *src, const float *w, const float *bias, bool relu,
                             float *dst, int y, ptrdiff_t at, const int n_oc, const int n_v, const bool is_edge)
{
    __m512 acc[OC_BLOCK][6];
    __mmask16 in[LANES_MAX_KERNEL][6]; /* lanes inside the source row, by tap */
    const ptrdiff_t n = c->n, src_len = c->iw * n, dst_len = c->ow * n;
    for (int kx = 0; is_edge && kx < c->kw; kx++)
        for (int i = 0; i < n_v; i++) in[kx][i] = inside(at + (kx - c->pw) * n + i * LANES, src_len);
#pragma GCC unroll 8
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 6
        for (int i = 0; i < n_v; i++) acc[o][i] = bias ? _mm512_set1_ps(bias[o]) : _mm512_setzero_ps();
    for (int ic = 0; ic < c->ic; ic++)
        for (int ky = max(0, c->ph - y); ky < min(c->kh, c->ih + c->ph - y); ky++) {
            const float *row = src + ((ptrdiff_t)ic * c->ih + y + ky - c->ph) * src_len;
            const float *taps = w + (ic * c->kh + ky) * c->kw * n_oc;
            for (int kx = 0; kx < c->kw; kx++, taps += n_oc) {
                ptrdiff_t from = at + (kx - c->pw) * n;
                __m512 v[6];
                if (is_edge) { /* vector by vector, those wholly outside not at all */
#pragma GCC unroll 6
                    for (int i = 0; i < n_v; i++) {
                        if (!in[kx][i]) continue;
                        v[i] = _mm512_maskz_loadu_ps(in[kx][i], row + from + i * LANES);
#pragma GCC unroll 8
                        for (int o = 0; o < n_oc; o++)
                            acc[o][i] = _mm512_fmadd_ps(_mm512_set1_ps(taps[o]), v[i], acc[o][i]);
                    }
                    continue;
                }
#pragma GCC unroll 6
                for (int i = 0; i < n_v; i++) v[i] = _mm512_loadu_ps(row + from + i * LANES);
#pragma GCC unroll 8
                for (int o = 0; o < n_oc; o++) {
                    __m512 weight = _mm512_set1_ps(taps[o]);
#pragma GCC unroll 6
                    for (int i = 0; i < n_v; i++) acc[o][i] = _mm512_fmadd_ps(weight, v[i], acc[o][i]);
                }
            }
        }
#pragma GCC unroll 8
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 6
        for (int i = 0; i < n_v; i++) {
            __m512 r = acc[o][i];
            float *to = dst + ((ptrdiff_t)o * c->oh + y) * dst_len + at + i * LANES;
            if (relu) r = _mm512_max_ps(_mm512_setzero_ps(), r); /* a NaN in the second operand passes */
            if (is_edge)
                _mm512_mask_storeu_ps(to, inside(at + i * LANES, dst_len), r);
            else
                _mm512_storeu_ps(to, r);
        }
}

/* One row of outputs in blocks of n_v vectors. The last block is moved back to end with the row; what it computes again
 * comes out the same. */
INLINE512 void forward_row(const struct lanes_conv *c, const float *src, const float *w, const float *bias, bool relu,
                           float *dst, int y, const int n_oc, const int n_v)
{
    const ptrdiff_t n = c->n, src_len = c->iw * n, dst_len = c->ow * n;
    const ptrdiff_t n_vectors = (dst_len + LANES - 1) / LANES;
    if (n_vectors < n_v) {
        for (ptrdiff_t v = 0; v < n_vectors; v++)
            forward_block(c, src, w, bias, relu, dst, y, v * LANES, n_oc, 1, true);
        return;
    }
    for (ptrdiff_t v = 0; v < n_vectors; v += n_v) {
        ptrdiff_t at = (v + n_v <= n_vectors ? v : n_vectors - n_v) * LANES, end = at + n_v * LANES;
        if (at - c->pw * n >= 0 && end + (c->kw - 1 - c->pw) * n <= src_len && end <= dst_len)
            forward_block(c, src, w, bias, relu, dst, y, at, n_oc, n_v, false);
        else
            forward_block(c, src, w, bias, relu, dst, y, at, n_oc, n_v, true);
    }
}

#define ROW_CASE(n_oc, n_v)                                                                                            \
    case n_oc:                                                                                                         \
        forward_row(c, src, w, b, relu, d, y, n_oc, n_v);                                                              \
        break;

__attribute__((TARGET)) void lanes_forward(const struct lanes_conv *c, const float *src, const float *packed,
                                           const float *bias, bool relu, float *dst)
{
    int step = block_of(c);
    for (int first = 0; first < c->oc; first += step) {
        const float *w = packed + (ptrdiff_t)first * c->ic * c->kh * c->kw, *b = bias ? bias + first : NULL;
        float *d = dst + (ptrdiff_t)first * c->oh * c->ow * c->n;
        for (int y = 0; y < c->oh; y++) switch (min(step, c->oc - first)) { /* at most 24 accumulators */
                ROW_CASE(1, 6)
                ROW_CASE(2, 6)
                ROW_CASE(3, 6)
                ROW_CASE(4, 6)
                ROW_CASE(5, 4)
                ROW_CASE(6, 4)
                ROW_CASE(7, 3)
                ROW_CASE(8, 3)
            }
    }
}

/* n_oc channels of diff_dst at one row against kw taps of one source row. */
INLINE512 void weights_row(const struct lanes_conv *c, const float *src, const float *dd, ptrdiff_t dd_plane,
                           const uint16_t *in, float *acc, const int n_oc, const int kw)
{
    __m512 a[W_OC][LANES_MAX_KERNEL];
    const ptrdiff_t n = c->n, src_len = c->iw * n, len = c->ow * n, per_oc = (ptrdiff_t)c->kh * kw * LANES;
#pragma GCC unroll 4
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 7
        for (int k = 0; k < kw; k++) a[o][k] = _mm512_loadu_ps(acc + o * per_oc + k * LANES);
    for (ptrdiff_t at = 0; at < len; at += LANES, in += kw) {
        const float *s = src + at - c->pw * n;
        __m512 g[W_OC];
        if (at - c->pw * n >= 0 && at + LANES + (kw - 1 - c->pw) * n <= src_len && at + LANES <= len) {
#pragma GCC unroll 4
            for (int o = 0; o < n_oc; o++) g[o] = _mm512_loadu_ps(dd + o * dd_plane + at);
#pragma GCC unroll 7
            for (int k = 0; k < kw; k++) {
                __m512 v = _mm512_loadu_ps(s + k * n);
#pragma GCC unroll 4
                for (int o = 0; o < n_oc; o++) a[o][k] = _mm512_fmadd_ps(g[o], v, a[o][k]);
            }
        } else {
#pragma GCC unroll 4
            for (int o = 0; o < n_oc; o++) g[o] = _mm512_maskz_loadu_ps(inside(at, len), dd + o * dd_plane + at);
#pragma GCC unroll 7
            for (int k = 0; k < kw; k++) {
                __m512 v = _mm512_maskz_loadu_ps(in[k], s + k * n);
#pragma GCC unroll 4
                for (int o = 0; o < n_oc; o++) a[o][k] = _mm512_fmadd_ps(g[o], v, a[o][k]);
            }
        }
    }
#pragma GCC unroll 4
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 7
        for (int k = 0; k < kw; k++) _mm512_storeu_ps(acc + o * per_oc + k * LANES, a[o][k]);
}

#define WEIGHTS_CASE(n_oc, kw)                                                                                         \
    case (n_oc)*8 + (kw):                                                                                              \
        weights_row(c, s, d, dd_plane, in, acc + ky * (kw)*LANES, n_oc, kw);                                           \
        break;

/* acc [n_oc][kh][kw][16] for one input channel, over all rows. */
__attribute__((TARGET)) static void weights_of(const struct lanes_conv *c, const float *src, const float *dd, int n_oc,
                                               const uint16_t *in, float *acc)
{
    ptrdiff_t dd_plane = (ptrdiff_t)c->oh * c->ow * c->n;
    memset(acc, 0, (size_t)n_oc * (size_t)(c->kh * c->kw) * LANES * sizeof *acc);
    for (int y = 0; y < c->oh; y++)
        for (int ky = max(0, c->ph - y); ky < min(c->kh, c->ih + c->ph - y); ky++) {
            const float *s = src + (ptrdiff_t)(y + ky - c->ph) * c->iw * c->n;
            const float *d = dd + (ptrdiff_t)y * c->ow * c->n;
            switch (n_oc * 8 + c->kw) {
                WEIGHTS_CASE(4, 5)
                WEIGHTS_CASE(3, 5)
                WEIGHTS_CASE(2, 5)
                WEIGHTS_CASE(1, 5)
                WEIGHTS_CASE(4, 3)
                WEIGHTS_CASE(3, 3)
                WEIGHTS_CASE(2, 3)
                WEIGHTS_CASE(1, 3)
            }
        }
}

__attribute__((TARGET)) static float sum_plane(const float *plane, size_t count)
{
    float lanes[LANES];
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < count; i += LANES)
        sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(inside((ptrdiff_t)i, (ptrdiff_t)count), plane + i));
    _mm512_storeu_ps(lanes, sum);
    return sum_lanes(lanes);
}

/* in [vector][tap] */
__attribute__((TARGET)) static void find_inside(const struct lanes_conv *c, uint16_t *in)
{
    for (ptrdiff_t v = 0; v < row_vectors(c); v++)
        for (int kx = 0; kx < c->kw; kx++) *in++ = inside(v * LANES + (kx - c->pw) * c->n, (ptrdiff_t)c->iw * c->n);
}

void lanes_backward_weights(const struct lanes_conv *c, const float *src, const float *diff_dst, float *acc,
                            float *diff_weights, float *diff_bias)
{
    int taps = c->kh * c->kw;
    uint16_t *in = (uint16_t *)(acc + (size_t)W_OC * (size_t)taps * LANES);
    find_inside(c, in);
    size_t src_plane = (size_t)(c->ih * c->iw) * (size_t)c->n, dd_plane = (size_t)(c->oh * c->ow) * (size_t)c->n;
    for (int first = 0; first < c->oc; first += W_OC) {
        int n_oc = min(W_OC, c->oc - first);
        const float *dd = diff_dst + (size_t)first * dd_plane;
        for (int ic = 0; ic < c->ic; ic++) {
            weights_of(c, src + (size_t)ic * src_plane, dd, n_oc, in, acc);
            for (int o = 0; o < n_oc; o++)
                for (int t = 0; t < taps; t++)
                    diff_weights[((first + o) * c->ic + ic) * taps + t] =
                        sum_lanes(acc + (size_t)(o * taps + t) * LANES);
        }
        for (int o = 0; o < n_oc && diff_bias; o++)
            diff_bias[first + o] = sum_plane(dd + (size_t)o * dd_plane, dd_plane);
    }
}

__attribute__((TARGET)) void lanes_maxpool(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index)
{
    const ptrdiff_t n = p->n;
    for (ptrdiff_t row = 0; row < (ptrdiff_t)p->c * p->oh; row++) {
        const float *window = src + (row / p->oh * p->ih + row % p->oh * p->k) * p->iw * n;
        for (int x = 0; x < p->ow; x++, window += p->k * n)
            for (ptrdiff_t l = 0; l < n; l += LANES) {
                __mmask16 in = inside(l, n);
                __m512 best = _mm512_maskz_loadu_ps(in, window + l);
                __m512i which = _mm512_setzero_si512();
                for (int t = 1; t < p->k * p->k; t++) {
                    __m512 v = _mm512_maskz_loadu_ps(in, window + (t / p->k * p->iw + t % p->k) * n + l);
                    /* greater, or a NaN; a NaN that is there stays, for nothing is greater than it */
                    __mmask16 wins = _mm512_cmp_ps_mask(v, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
                    best = _mm512_mask_mov_ps(best, wins, v);
                    which = _mm512_mask_mov_epi32(which, wins, _mm512_set1_epi32(t));
                }
                ptrdiff_t to = (row * p->ow + x) * n + l;
                _mm512_mask_storeu_ps(dst + to, in, best);
                if (index) _mm512_mask_cvtepi32_storeu_epi8(index + to, in, which);
            }
    }
}

__attribute__((TARGET)) void lanes_maxpool_backward(const struct lanes_pool *p, const float *diff_dst,
                                                    const uint8_t *index, float *diff_src)
{
    const ptrdiff_t n = p->n;
    if (p->oh * p->k != p->ih || p->ow * p->k != p->iw) /* rows or columns no window reaches */
        memset(diff_src, 0, (size_t)p->c * (size_t)p->ih * (size_t)p->iw * (size_t)n * sizeof *diff_src);
    for (ptrdiff_t row = 0; row < (ptrdiff_t)p->c * p->oh; row++) {
        float *window = diff_src + (row / p->oh * p->ih + row % p->oh * p->k) * p->iw * n;
        for (int x = 0; x < p->ow; x++, window += p->k * n)
            for (ptrdiff_t l = 0; l < n; l += LANES) {
                __mmask16 in = inside(l, n);
                ptrdiff_t from = (row * p->ow + x) * n + l;
                __m512 g = _mm512_maskz_loadu_ps(in, diff_dst + from);
                __m512i which = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(in, index + from));
                for (int t = 0; t < p->k * p->k; t++)
                    _mm512_mask_storeu_ps(window + (t / p->k * p->iw + t % p->k) * n + l, in,
                                          _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(which, _mm512_set1_epi32(t)), g));
            }
    }
}

#else

bool lanes_are_available(void)
{
    return false;
}

void lanes_forward(const struct lanes_conv *c, const float *src, const float *packed, const float *bias, bool relu,
                   float *dst)
{
}

void lanes_backward_weights(const struct lanes_conv *c, const float *src, const float *diff_dst, float *acc,
                            float *diff_weights, float *diff_bias)
{
}

void lanes_maxpool(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index)
{
}

void lanes_maxpool_backward(const struct lanes_pool *p, const float *diff_dst, const uint8_t *index, float *diff_src)
{
}

#endif
