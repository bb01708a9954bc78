/* winograd_avx512.c: Winograd convolution with vectors of 16 channels. See winograd_code.h. */
#if defined(__x86_64__)
#include <immintrin.h>

#define WINO_LANES 16
#define WINO_ROWS 14 /* 28 sums, two vectors of U and one of V: 31 of 32 registers */
#define WINO_TARGET target("avx512f,avx512vl,avx512bw,avx512dq,prfchw")
#define WINO_CODE ls__wino_avx512

typedef __m512 vec;
#define v_zero _mm512_setzero_ps
#define v_set1 _mm512_set1_ps
#define v_load _mm512_loadu_ps
#define v_store _mm512_storeu_ps
#define v_add _mm512_add_ps
#define v_sub _mm512_sub_ps
#define v_mul _mm512_mul_ps
#define v_fma _mm512_fmadd_ps
#define v_fnma _mm512_fnmadd_ps
#define v_max _mm512_max_ps

#include "backend/cpu/winograd_code.h"
#endif
