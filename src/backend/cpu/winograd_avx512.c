/* winograd_avx512.c: Winograd convolution with vectors of 16 channels. See winograd_code.h. */
#if defined(__x86_64__)
#include "backend/cpu/vec.h"

#define VEC 16
#define VEC_TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,prfchw")))
#define WINO_ROWS 14 /* 28 sums, two vectors of U and one of V: 31 of 32 registers */
#define WINO_CODE ls__wino_avx512

#include "backend/cpu/winograd_code.h"
#endif
