/* lanes_vec512.h: vectors of 16 floats for lanes_conv.h and lanes_pool.h; lanes_vec256.h has the same words for 8. */
#ifndef LS_BACKEND_CPU_LANES_VEC_H
#define LS_BACKEND_CPU_LANES_VEC_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TARGET target("avx512f,avx512vl,avx512bw,avx512dq")
#define VEC static inline __attribute__((always_inline, TARGET))

enum { WIDTH = 16 };
typedef __m512 vec;
typedef __mmask16 vmask;
typedef uint16_t stored_mask;

/* Forward: channels at once, and vectors of a row with so many channels: 24 accumulators at most. */
enum { MAX_OC = 8, MAX_V = 7 };
#define VECTORS_WITH(n_oc) ((n_oc) <= 3 ? 7 : (n_oc) == 4 ? 6 : (n_oc) <= 6 ? 4 : 3)
/* Backward by weights: channels at once with 3 and with 5 taps. */
enum { WEIGHTS_OC_3 = 6, WEIGHTS_OC_5 = 4 };

/* Lanes of a vector that begins at `first` and lie inside a row of `len` floats. */
VEC vmask vec_inside(ptrdiff_t first, ptrdiff_t len)
{
    int skip = first < 0 ? (int)(-first < WIDTH ? -first : WIDTH) : 0;
    int keep = first + WIDTH > len ? (int)(len > first ? len - first : 0) : WIDTH;
    return (vmask)((0xffffu << skip) & ((1u << keep) - 1));
}

VEC stored_mask mask_pack(const bool lanes[WIDTH])
{
    unsigned m = 0;
    for (int l = 0; l < WIDTH; l++) m |= (unsigned)lanes[l] << l;
    return (stored_mask)m;
}

VEC vmask mask_of(const stored_mask *m)
{
    return *m;
}

VEC bool mask_is_empty(const stored_mask *m)
{
    return *m == 0;
}

VEC vec vec_zero(void)
{
    return _mm512_setzero_ps();
}

VEC vec vec_set1(float x)
{
    return _mm512_set1_ps(x);
}

VEC vec vec_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

VEC vec vec_load_in(vmask in, const float *p)
{
    return _mm512_maskz_loadu_ps(in, p);
}

VEC void vec_store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

VEC void vec_store_in(float *p, vmask in, vec v)
{
    _mm512_mask_storeu_ps(p, in, v);
}

VEC vec vec_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

VEC vec vec_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* A NaN passes: it is the second operand. */
VEC vec vec_relu(vec v)
{
    return _mm512_max_ps(_mm512_setzero_ps(), v);
}

/* The sums of 16 vectors' lanes, side by side: pairs of vectors are added half by half, four times. */
VEC vec vec_sums(const float rows[WIDTH * WIDTH])
{
    __m512 a[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(rows + i * WIDTH);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++)
        a[i] = _mm512_add_ps(_mm512_unpacklo_ps(a[2 * i], a[2 * i + 1]), _mm512_unpackhi_ps(a[2 * i], a[2 * i + 1]));
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __m512d x = _mm512_castps_pd(a[2 * i]), y = _mm512_castps_pd(a[2 * i + 1]);
        a[i] = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(x, y)), _mm512_castpd_ps(_mm512_unpackhi_pd(x, y)));
    }
    const __m512 b = _mm512_add_ps(_mm512_shuffle_f32x4(a[0], a[1], 0x88), _mm512_shuffle_f32x4(a[0], a[1], 0xdd));
    const __m512 c = _mm512_add_ps(_mm512_shuffle_f32x4(a[2], a[3], 0x88), _mm512_shuffle_f32x4(a[2], a[3], 0xdd));
    return _mm512_add_ps(_mm512_shuffle_f32x4(b, c, 0x88), _mm512_shuffle_f32x4(b, c, 0xdd));
}

/* --- pooling --- */

/* Which pixel of a window won so far. */
typedef __m512i winner;

VEC winner winner_first(void)
{
    return _mm512_setzero_si512();
}

/* v takes over where it is greater, or a NaN; a NaN that is there stays, for nothing is greater than it. */
VEC void winner_update(vec *best, winner *which, vec v, int number)
{
    __mmask16 wins = _mm512_cmp_ps_mask(v, *best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    *best = _mm512_mask_mov_ps(*best, wins, v);
    *which = _mm512_mask_mov_epi32(*which, wins, _mm512_set1_epi32(number));
}

VEC void winner_store(uint8_t *to, vmask in, winner which)
{
    _mm512_mask_cvtepi32_storeu_epi8(to, in, which);
}

VEC winner winner_load(const uint8_t *from, vmask in)
{
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(in, from));
}

/* v where the winner is `number`, else 0. */
VEC vec winner_share(winner which, int number, vec v)
{
    return _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(which, _mm512_set1_epi32(number)), v);
}

/* Pixels of n floats in two vectors a, b that follow each other: every second one, and back. n divides WIDTH. */
struct pairs {
    __m512i even, odd, first, second;
};

VEC bool pairs_are_supported(int n)
{
    return n == 1 || n == 2 || n == 4 || n == 8;
}

VEC struct pairs pairs_of(int n)
{
    int32_t even[WIDTH], odd[WIDTH], back[2 * WIDTH];
    for (int l = 0; l < WIDTH; l++) {
        even[l] = l / n * 2 * n + l % n;
        odd[l] = even[l] + n;
        back[even[l]] = l; /* from the vector of even pixels; that of the odd ones is the second operand */
        back[odd[l]] = l + WIDTH;
    }
    return (struct pairs){_mm512_loadu_si512(even), _mm512_loadu_si512(odd), _mm512_loadu_si512(back),
                          _mm512_loadu_si512(back + WIDTH)};
}

VEC void pairs_split(const struct pairs *p, vec a, vec b, vec *even, vec *odd)
{
    *even = _mm512_permutex2var_ps(a, p->even, b);
    *odd = _mm512_permutex2var_ps(a, p->odd, b);
}

VEC void pairs_join(const struct pairs *p, vec even, vec odd, vec *a, vec *b)
{
    *a = _mm512_permutex2var_ps(even, p->first, odd);
    *b = _mm512_permutex2var_ps(even, p->second, odd);
}

#endif
