/* winograd_avx2.c: Winograd convolution with vectors of 8 channels. See winograd_code.h. */
#if defined(__x86_64__)
#include "backend/cpu/vec.h"

#define VEC 8
#define VEC_TARGET __attribute__((target("avx2,fma,prfchw")))
#define WINO_ROWS 6 /* 12 sums, two vectors of U and one of V: 15 of 16 registers */
#define WINO_CODE ls__wino_avx2

#include "backend/cpu/winograd_code.h"
#endif
