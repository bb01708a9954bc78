/* lanes_vec256.h: vectors of 8 floats: the words of lanes_vec512.h, explained there, for AVX2. */
#ifndef LS_BACKEND_CPU_LANES_VEC_H
#define LS_BACKEND_CPU_LANES_VEC_H

#include <immintrin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TARGET target("avx2,fma")
#define VEC static inline __attribute__((always_inline, TARGET))

enum { WIDTH = 8 };
typedef __m256 vec;
typedef __m256i vmask; /* all bits of a lane, or none */
typedef struct {
    int32_t lanes[WIDTH];
} stored_mask;

/* 16 registers: 12 accumulators at most. */
enum { MAX_OC = 6, MAX_V = 6 };
#define VECTORS_WITH(n_oc) ((n_oc) == 1 ? 6 : (n_oc) == 2 ? 5 : (n_oc) <= 4 ? 3 : 2)
enum { WEIGHTS_OC_3 = 3, WEIGHTS_OC_5 = 2 };

VEC vmask vec_inside(ptrdiff_t first, ptrdiff_t len)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const int skip = first < 0 ? (int)(-first < WIDTH ? -first : WIDTH) : 0;
    const int keep = first + WIDTH > len ? (int)(len > first ? len - first : 0) : WIDTH;
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(skip), lane),
                               _mm256_cmpgt_epi32(_mm256_set1_epi32(keep), lane));
}

VEC stored_mask mask_pack(const bool lanes[WIDTH])
{
    stored_mask m;
    for (int l = 0; l < WIDTH; l++) m.lanes[l] = lanes[l] ? -1 : 0;
    return m;
}

VEC vmask mask_of(const stored_mask *m)
{
    return _mm256_loadu_si256((const __m256i *)m->lanes);
}

VEC bool mask_is_empty(const stored_mask *m)
{
    const __m256i v = mask_of(m);
    return _mm256_testz_si256(v, v);
}

VEC vec vec_zero(void)
{
    return _mm256_setzero_ps();
}

VEC vec vec_set1(float x)
{
    return _mm256_set1_ps(x);
}

VEC vec vec_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

VEC vec vec_load_in(vmask in, const float *p)
{
    return _mm256_maskload_ps(p, in);
}

VEC void vec_store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

/* Lanes that are set; where the first is, they follow each other. */
VEC int mask_count(vmask in)
{
    return __builtin_popcount((unsigned)_mm256_movemask_ps(_mm256_castsi256_ps(in)));
}

/* Some machines take long to store under a mask, so where it is full they need not. */
VEC void vec_store_in(float *p, vmask in, vec v)
{
    if (mask_count(in) == WIDTH)
        _mm256_storeu_ps(p, v);
    else
        _mm256_maskstore_ps(p, in, v);
}

VEC vec vec_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

VEC vec vec_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}

VEC vec vec_relu(vec v)
{
    return _mm256_max_ps(_mm256_setzero_ps(), v);
}

VEC vec vec_sums(const float rows[WIDTH * WIDTH])
{
    __m256 a[8];
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(rows + i * WIDTH);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) a[i] = _mm256_hadd_ps(a[2 * i], a[2 * i + 1]);
    a[0] = _mm256_hadd_ps(a[0], a[1]);
    a[1] = _mm256_hadd_ps(a[2], a[3]);
    return _mm256_add_ps(_mm256_permute2f128_ps(a[0], a[1], 0x20), _mm256_permute2f128_ps(a[0], a[1], 0x31));
}

/* --- pooling --- */

typedef __m256i winner;

VEC winner winner_first(void)
{
    return _mm256_setzero_si256();
}

VEC void winner_update(vec *best, winner *which, vec v, int number)
{
    const __m256 wins = _mm256_or_ps(_mm256_cmp_ps(v, *best, _CMP_GT_OQ), _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    *best = _mm256_blendv_ps(*best, v, wins);
    *which = _mm256_blendv_epi8(*which, _mm256_set1_epi32(number), _mm256_castps_si256(wins));
}

VEC void winner_store(uint8_t *to, vmask in, winner which)
{
    const __m256i bytes =
        _mm256_shuffle_epi8(which, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4,
                                                    8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
    const uint64_t all = (uint32_t)_mm256_extract_epi32(bytes, 0) | (uint64_t)(uint32_t)_mm256_extract_epi32(bytes, 4)
                                                                        << 32;
    if (mask_count(in) == WIDTH)
        memcpy(to, &all, WIDTH);
    else
        memcpy(to, &all, (size_t)mask_count(in));
}

VEC winner winner_load(const uint8_t *from, vmask in)
{
    uint64_t bytes = 0;
    if (mask_count(in) == WIDTH)
        memcpy(&bytes, from, WIDTH);
    else
        memcpy(&bytes, from, (size_t)mask_count(in));
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

VEC vec winner_share(winner which, int number, vec v)
{
    return _mm256_and_ps(v, _mm256_castsi256_ps(_mm256_cmpeq_epi32(which, _mm256_set1_epi32(number))));
}

/* Four samples are half a vector; for fewer there is no exchange of floats between two registers. */
struct pairs {
    int n;
};

VEC bool pairs_are_supported(int n)
{
    return n == 4;
}

VEC struct pairs pairs_of(int n)
{
    return (struct pairs){n};
}

VEC void pairs_split(const struct pairs *p, vec a, vec b, vec *even, vec *odd)
{
    *even = _mm256_permute2f128_ps(a, b, 0x20);
    *odd = _mm256_permute2f128_ps(a, b, 0x31);
}

VEC void pairs_join(const struct pairs *p, vec even, vec odd, vec *a, vec *b)
{
    pairs_split(p, even, odd, a, b);
}

#endif
