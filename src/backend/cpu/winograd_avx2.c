/* winograd_avx2.c: Winograd convolution with vectors of 8 channels. See winograd_code.h. */
#if defined(__x86_64__)
#include <immintrin.h>

#define WINO_LANES 8
#define WINO_ROWS 6 /* 12 sums, two vectors of U and one of V: 15 of 16 registers */
#define WINO_TARGET target("avx2,fma,prfchw")
#define WINO_CODE ls__wino_avx2

typedef __m256 vec;
#define v_zero _mm256_setzero_ps
#define v_set1 _mm256_set1_ps
#define v_load _mm256_loadu_ps
#define v_store _mm256_storeu_ps
#define v_add _mm256_add_ps
#define v_sub _mm256_sub_ps
#define v_mul _mm256_mul_ps
#define v_fma _mm256_fmadd_ps
#define v_fnma _mm256_fnmadd_ps
#define v_max _mm256_max_ps

#include "backend/cpu/winograd_code.h"
#endif
