/* batchnorm_avx512.c: batchnorm_passes.h with vectors of 16 floats. */
#if defined(__x86_64__)
#define VEC 16
#define TARGET __attribute__((target("avx512f,avx512vl,avx512bw,avx512dq")))
#include "backend/cpu/batchnorm_code.h"

const struct bn_passes *const ls__bn_passes_avx512 = &passes;

#else
#include "backend/cpu/batchnorm_passes.h"

#include <stddef.h>

const struct bn_passes *const ls__bn_passes_avx512 = NULL;
#endif
