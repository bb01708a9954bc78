/* vec.h: vectors of 16 floats (AVX-512) and of 8 (AVX2) under one set of names, for kernels written once.
 *
 * A file that is compiled for both defines VEC as 16 or 8 and VEC_TARGET, at least AVX512_TARGET's or AVX2_TARGET's
 * instructions, before the template, which says V(load), V(fma) and VEC_TARGET. Only what cannot be told apart by the
 * compiler is here; vec_lanes.h has more words, for samples that lie side by side in the lanes.
 */
#ifndef LS_BACKEND_CPU_VEC_H
#define LS_BACKEND_CPU_VEC_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define AVX512_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma")))
#define AVX2_TARGET __attribute__((target("avx2,fma")))
#define INLINE static inline __attribute__((always_inline, unused))

#define VEC_JOIN_(a, b) a##b
#define VEC_JOIN(a, b) VEC_JOIN_(a, b)
#define V(name) VEC_JOIN(VEC_JOIN(v, VEC), VEC_JOIN(_, name))

typedef __m512 v16_float;
typedef __m512i v16_int; /* 16 x 32 or 8 x 64 bits */
typedef __m256 v8_float;
typedef __m256i v8_int;

AVX512_TARGET INLINE v16_float v16_zero(void)
{
    return _mm512_setzero_ps();
}

AVX2_TARGET INLINE v8_float v8_zero(void)
{
    return _mm256_setzero_ps();
}

AVX512_TARGET INLINE v16_float v16_load(const float *p)
{
    return _mm512_loadu_ps(p);
}

AVX2_TARGET INLINE v8_float v8_load(const float *p)
{
    return _mm256_loadu_ps(p);
}

AVX512_TARGET INLINE void v16_store(float *p, v16_float x)
{
    _mm512_storeu_ps(p, x);
}

AVX2_TARGET INLINE void v8_store(float *p, v8_float x)
{
    _mm256_storeu_ps(p, x);
}

AVX512_TARGET INLINE v16_float v16_all(float x)
{
    return _mm512_set1_ps(x);
}

AVX2_TARGET INLINE v8_float v8_all(float x)
{
    return _mm256_set1_ps(x);
}

AVX512_TARGET INLINE v16_float v16_add(v16_float a, v16_float b)
{
    return _mm512_add_ps(a, b);
}

AVX2_TARGET INLINE v8_float v8_add(v8_float a, v8_float b)
{
    return _mm256_add_ps(a, b);
}

AVX512_TARGET INLINE v16_float v16_sub(v16_float a, v16_float b)
{
    return _mm512_sub_ps(a, b);
}

AVX2_TARGET INLINE v8_float v8_sub(v8_float a, v8_float b)
{
    return _mm256_sub_ps(a, b);
}

AVX512_TARGET INLINE v16_float v16_mul(v16_float a, v16_float b)
{
    return _mm512_mul_ps(a, b);
}

AVX2_TARGET INLINE v8_float v8_mul(v8_float a, v8_float b)
{
    return _mm256_mul_ps(a, b);
}

/* a * b + c, rounded once. */
AVX512_TARGET INLINE v16_float v16_fma(v16_float a, v16_float b, v16_float c)
{
    return _mm512_fmadd_ps(a, b, c);
}

AVX2_TARGET INLINE v8_float v8_fma(v8_float a, v8_float b, v8_float c)
{
    return _mm256_fmadd_ps(a, b, c);
}

/* c - a * b, rounded once. */
AVX512_TARGET INLINE v16_float v16_fnma(v16_float a, v16_float b, v16_float c)
{
    return _mm512_fnmadd_ps(a, b, c);
}

AVX2_TARGET INLINE v8_float v8_fnma(v8_float a, v8_float b, v8_float c)
{
    return _mm256_fnmadd_ps(a, b, c);
}

/* x > 0 ? x : 0, but NaN stays. */
AVX512_TARGET INLINE v16_float v16_relu(v16_float x)
{
    return _mm512_max_ps(_mm512_setzero_ps(), x);
}

AVX2_TARGET INLINE v8_float v8_relu(v8_float x)
{
    return _mm256_max_ps(_mm256_setzero_ps(), x);
}

AVX512_TARGET INLINE v16_int v16_load_int(const void *p)
{
    return _mm512_loadu_si512(p);
}

AVX2_TARGET INLINE v8_int v8_load_int(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

AVX512_TARGET INLINE void v16_store_int(void *p, v16_int x)
{
    _mm512_storeu_si512(p, x);
}

AVX2_TARGET INLINE void v8_store_int(void *p, v8_int x)
{
    _mm256_storeu_si256((__m256i *)p, x);
}

AVX512_TARGET INLINE v16_int v16_zero_int(void)
{
    return _mm512_setzero_si512();
}

AVX2_TARGET INLINE v8_int v8_zero_int(void)
{
    return _mm256_setzero_si256();
}

AVX512_TARGET INLINE v16_int v16_all_int(int x)
{
    return _mm512_set1_epi32(x);
}

AVX2_TARGET INLINE v8_int v8_all_int(int x)
{
    return _mm256_set1_epi32(x);
}

AVX512_TARGET INLINE v16_int v16_add32(v16_int a, v16_int b)
{
    return _mm512_add_epi32(a, b);
}

AVX2_TARGET INLINE v8_int v8_add32(v8_int a, v8_int b)
{
    return _mm256_add_epi32(a, b);
}

AVX512_TARGET INLINE v16_int v16_add64(v16_int a, v16_int b)
{
    return _mm512_add_epi64(a, b);
}

AVX2_TARGET INLINE v8_int v8_add64(v8_int a, v8_int b)
{
    return _mm256_add_epi64(a, b);
}

/* Has any element one of these bits? */
AVX512_TARGET INLINE bool v16_any_of(v16_int x, int bits)
{
    return _mm512_test_epi32_mask(x, _mm512_set1_epi32(bits)) != 0;
}

AVX2_TARGET INLINE bool v8_any_of(v8_int x, int bits)
{
    return !_mm256_testz_si256(x, _mm256_set1_epi32(bits));
}

/* x | (a ^ b) */
AVX512_TARGET INLINE v16_int v16_or_differences(v16_int x, v16_int a, v16_int b)
{
    return _mm512_ternarylogic_epi32(x, a, b, 0xF6);
}

AVX2_TARGET INLINE v8_int v8_or_differences(v8_int x, v8_int a, v8_int b)
{
    return _mm256_or_si256(x, _mm256_xor_si256(a, b));
}

/* Elements [0, VEC/2) or, with half 1, the others of a 32-bit vector as 64-bit integers. */
AVX512_TARGET INLINE v16_int v16_widen(v16_int x, int half)
{
    return _mm512_cvtepi32_epi64(half ? _mm512_extracti64x4_epi64(x, 1) : _mm512_castsi512_si256(x));
}

AVX2_TARGET INLINE v8_int v8_widen(v8_int x, int half)
{
    return _mm256_cvtepi32_epi64(half ? _mm256_extracti128_si256(x, 1) : _mm256_castsi256_si128(x));
}

AVX512_TARGET INLINE v16_int v16_shift_left64(v16_int x, int by)
{
    return _mm512_slli_epi64(x, (unsigned)by);
}

AVX2_TARGET INLINE v8_int v8_shift_left64(v8_int x, int by)
{
    return _mm256_slli_epi64(x, by);
}

AVX512_TARGET INLINE v16_int v16_shift_right64(v16_int x, int by)
{
    return _mm512_srli_epi64(x, (unsigned)by);
}

AVX2_TARGET INLINE v8_int v8_shift_right64(v8_int x, int by)
{
    return _mm256_srli_epi64(x, by);
}

AVX512_TARGET INLINE v16_int v16_all_int64(int64_t x)
{
    return _mm512_set1_epi64(x);
}

AVX2_TARGET INLINE v8_int v8_all_int64(int64_t x)
{
    return _mm256_set1_epi64x(x);
}

/* 0, 1, 2, ... in 64 bits each. */
AVX512_TARGET INLINE v16_int v16_count64(void)
{
    return _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
}

AVX2_TARGET INLINE v8_int v8_count64(void)
{
    return _mm256_set_epi64x(3, 2, 1, 0);
}

/* Products of the lower halves of 64-bit elements, without sign. */
AVX512_TARGET INLINE v16_int v16_mul_halves(v16_int a, v16_int b)
{
    return _mm512_mul_epu32(a, b);
}

AVX2_TARGET INLINE v8_int v8_mul_halves(v8_int a, v8_int b)
{
    return _mm256_mul_epu32(a, b);
}

AVX512_TARGET INLINE v16_int v16_xor3(v16_int a, v16_int b, v16_int c)
{
    return _mm512_ternarylogic_epi64(a, b, c, 0x96);
}

AVX2_TARGET INLINE v8_int v8_xor3(v8_int a, v8_int b, v8_int c)
{
    return _mm256_xor_si256(_mm256_xor_si256(a, b), c);
}

AVX512_TARGET INLINE v16_int v16_as_int(v16_float x)
{
    return _mm512_castps_si512(x);
}

AVX2_TARGET INLINE v8_int v8_as_int(v8_float x)
{
    return _mm256_castps_si256(x);
}

/* Rows of 8 floats into columns. */
AVX2_TARGET INLINE void v8_transpose(v8_float r[8])
{
    v8_float a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
        b[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
        b[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xEE);
        b[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
        b[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
    }
    for (int i = 0; i < 4; i++) {
        r[i] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        r[i + 4] = _mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}

#endif
