/* vec_lanes.h: more of vec.h, for kernels that keep samples side by side in the lanes (lanes.h): lanes that count, the
 * winners of pooling windows, pairs of pixels.
 *
 *     V(mask)         lanes that count: V(load_in), V(store_in); V(stored_mask) is one in memory
 *     V(winner)       which pixel of a window is the greatest so far, per lane
 *     struct V(pairs) how two vectors that follow each other are parted into every second pixel and the others
 *
 * What a word means is said where it stands for 16; those for 8 are the same.
 */
#ifndef LS_BACKEND_CPU_VEC_LANES_H
#define LS_BACKEND_CPU_VEC_LANES_H

#include "backend/cpu/vec.h"

#include <stddef.h>
#include <string.h>

/* --- 16: AVX-512 --- */

typedef __mmask16 v16_mask;
typedef uint16_t v16_stored_mask;

/* Lanes of a vector that begins at `first` and lie inside a row of `len` floats. */
AVX512_TARGET INLINE v16_mask v16_inside(ptrdiff_t first, ptrdiff_t len)
{
    int skip = first < 0 ? (int)(-first < 16 ? -first : 16) : 0;
    int keep = first + 16 > len ? (int)(len > first ? len - first : 0) : 16;
    return (v16_mask)((0xffffu << skip) & ((1u << keep) - 1));
}

AVX512_TARGET INLINE v16_stored_mask v16_mask_pack(const bool lanes[16])
{
    unsigned m = 0;
    for (int l = 0; l < 16; l++) m |= (unsigned)lanes[l] << l;
    return (v16_stored_mask)m;
}

AVX512_TARGET INLINE v16_mask v16_mask_of(const v16_stored_mask *m)
{
    return *m;
}

AVX512_TARGET INLINE bool v16_mask_is_empty(const v16_stored_mask *m)
{
    return *m == 0;
}

AVX512_TARGET INLINE v16_float v16_load_in(v16_mask in, const float *p)
{
    return _mm512_maskz_loadu_ps(in, p);
}

AVX512_TARGET INLINE void v16_store_in(float *p, v16_mask in, v16_float v)
{
    _mm512_mask_storeu_ps(p, in, v);
}

/* The sums of 16 vectors' lanes, side by side: pairs of vectors are added half by half, four times. */
AVX512_TARGET INLINE v16_float v16_sums(const float rows[16 * 16])
{
    __m512 a[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(rows + i * 16);
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

/* Which pixel of a window won so far. */
typedef __m512i v16_winner;

AVX512_TARGET INLINE v16_winner v16_winner_first(void)
{
    return _mm512_setzero_si512();
}

/* v takes over where it is greater, or a NaN; a NaN that is there stays, for nothing is greater than it. */
AVX512_TARGET INLINE void v16_winner_update(v16_float *best, v16_winner *which, v16_float v, int number)
{
    __mmask16 wins = _mm512_cmp_ps_mask(v, *best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    *best = _mm512_mask_mov_ps(*best, wins, v);
    *which = _mm512_mask_mov_epi32(*which, wins, _mm512_set1_epi32(number));
}

AVX512_TARGET INLINE void v16_winner_store(uint8_t *to, v16_mask in, v16_winner which)
{
    _mm512_mask_cvtepi32_storeu_epi8(to, in, which);
}

AVX512_TARGET INLINE v16_winner v16_winner_load(const uint8_t *from, v16_mask in)
{
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(in, from));
}

/* v where the winner is `number`, else 0. */
AVX512_TARGET INLINE v16_float v16_winner_share(v16_winner which, int number, v16_float v)
{
    return _mm512_maskz_mov_ps(_mm512_cmpeq_epi32_mask(which, _mm512_set1_epi32(number)), v);
}

/* Pixels of n floats in two vectors a, b that follow each other: every second one, and back. n divides 16. */
struct v16_pairs {
    __m512i even, odd, first, second;
};

AVX512_TARGET INLINE bool v16_pairs_are_supported(int n)
{
    return n == 1 || n == 2 || n == 4 || n == 8;
}

AVX512_TARGET INLINE struct v16_pairs v16_pairs_of(int n)
{
    int32_t even[16], odd[16], back[2 * 16];
    for (int l = 0; l < 16; l++) {
        even[l] = l / n * 2 * n + l % n;
        odd[l] = even[l] + n;
        back[even[l]] = l; /* from the vector of even pixels; that of the odd ones is the second operand */
        back[odd[l]] = l + 16;
    }
    return (struct v16_pairs){_mm512_loadu_si512(even), _mm512_loadu_si512(odd), _mm512_loadu_si512(back),
                              _mm512_loadu_si512(back + 16)};
}

AVX512_TARGET INLINE void v16_pairs_split(const struct v16_pairs *p, v16_float a, v16_float b, v16_float *even,
                                          v16_float *odd)
{
    *even = _mm512_permutex2var_ps(a, p->even, b);
    *odd = _mm512_permutex2var_ps(a, p->odd, b);
}

AVX512_TARGET INLINE void v16_pairs_join(const struct v16_pairs *p, v16_float even, v16_float odd, v16_float *a,
                                         v16_float *b)
{
    *a = _mm512_permutex2var_ps(even, p->first, odd);
    *b = _mm512_permutex2var_ps(even, p->second, odd);
}

/* --- 8: AVX2 --- */

typedef __m256i v8_mask; /* all bits of a lane, or none */
typedef struct {
    int32_t lanes[8];
} v8_stored_mask;

AVX2_TARGET INLINE v8_mask v8_inside(ptrdiff_t first, ptrdiff_t len)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int skip = first < 0 ? (int)(-first < 8 ? -first : 8) : 0;
    const int keep = first + 8 > len ? (int)(len > first ? len - first : 0) : 8;
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(skip), lane),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32(keep), lane));
}

AVX2_TARGET INLINE v8_stored_mask v8_mask_pack(const bool lanes[8])
{
    v8_stored_mask m;
    for (int l = 0; l < 8; l++) m.lanes[l] = lanes[l] ? -1 : 0;
    return m;
}

AVX2_TARGET INLINE v8_mask v8_mask_of(const v8_stored_mask *m)
{
    return _mm256_loadu_si256((const __m256i *)m->lanes);
}

AVX2_TARGET INLINE bool v8_mask_is_empty(const v8_stored_mask *m)
{
    const __m256i v = v8_mask_of(m);
    return _mm256_testz_si256(v, v);
}

AVX2_TARGET INLINE v8_float v8_load_in(v8_mask in, const float *p)
{
    return _mm256_maskload_ps(p, in);
}

/* Lanes that are set; where the first is, they follow each other. */
AVX2_TARGET INLINE int v8_mask_count(v8_mask in)
{
    return __builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(in)));
}

/* Some machines take long to store under a mask, so where it is full they need not. */
AVX2_TARGET INLINE void v8_store_in(float *p, v8_mask in, v8_float v)
{
    if (v8_mask_count(in) == 8)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, in, v);
}

AVX2_TARGET INLINE v8_float v8_sums(const float rows[8 * 8])
{
    __m256 a[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(rows + i * 8);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) a[i] = _mm256_hadd_ps(a[2 * i], a[2 * i + 1]);
    a[0] = _mm256_hadd_ps(a[0], a[1]);
    a[1] = _mm256_hadd_ps(a[2], a[3]);
    return _mm256_add_ps(_mm256_permute2f128_ps(a[0], a[1], 0x20), _mm256_permute2f128_ps(a[0], a[1], 0x31));
}

typedef __m256i v8_winner;

AVX2_TARGET INLINE v8_winner v8_winner_first(void)
{
    return _mm256_setzero_si256();
}

AVX2_TARGET INLINE void v8_winner_update(v8_float *best, v8_winner *which, v8_float v, int number)
{
    const __m256 wins = _mm256_or_ps(_mm256_cmp_ps(v, *best, _CMP_GT_OQ), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    *best = _mm256_blendv_ps(*best, v, wins);
    *which = _mm256_blendv_epi8(*which, _mm256_set1_epi32(number), _mm256_castps_si256(wins));
}

AVX2_TARGET INLINE void v8_winner_store(uint8_t *to, v8_mask in, v8_winner which)
{
    const __m256i bytes =
        _mm256_shuffle_epi8(which, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4,
                                                    8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const uint64_t all = (uint32_t)_mm256_extract_epi32(bytes, 0) | (uint64_t)(uint32_t)_mm256_extract_epi32(bytes, 4)
                                                                        << 32;
    if (v8_mask_count(in) == 8)
        memcpy(to, &all, 8);
    else
        memcpy(to, &all, (size_t)v8_mask_count(in));
}

AVX2_TARGET INLINE v8_winner v8_winner_load(const uint8_t *from, v8_mask in)
{
    uint64_t bytes = 0;
    if (v8_mask_count(in) == 8)
        memcpy(&bytes, from, 8);
    else
        memcpy(&bytes, from, (size_t)v8_mask_count(in));
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

AVX2_TARGET INLINE v8_float v8_winner_share(v8_winner which, int number, v8_float v)
{
    return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(which, _mm256_set1_epi32(number))));
}

/* Four samples are half a vector; for fewer there is no exchange of floats between two registers. */
struct v8_pairs {
    int n;
};

AVX2_TARGET INLINE bool v8_pairs_are_supported(int n)
{
    return n == 4;
}

AVX2_TARGET INLINE struct v8_pairs v8_pairs_of(int n)
{
    return (struct v8_pairs){n};
}

AVX2_TARGET INLINE void v8_pairs_split(const struct v8_pairs *p, v8_float a, v8_float b, v8_float *even, v8_float *odd)
{
    *even = _mm256_permute2f128_ps(a, b, 0x20);
    *odd = _mm256_permute2f128_ps(a, b, 0x31);
}

AVX2_TARGET INLINE void v8_pairs_join(const struct v8_pairs *p, v8_float even, v8_float odd, v8_float *a, v8_float *b)
{
    v8_pairs_split(p, even, odd, a, b);
}

#endif
