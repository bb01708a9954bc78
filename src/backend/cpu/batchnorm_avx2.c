/* batchnorm_avx2.c: batchnorm_passes.h with vectors of 8 floats. */
#if defined(__x86_64__)
#define VEC 8
#define TARGET __attribute__((target("avx2")))
#include "backend/cpu/batchnorm_code.h"

const struct bn_passes *const ls__bn_passes_avx2 = &passes;

#else
#include "backend/cpu/batchnorm_passes.h"

#include <stddef.h>

const struct bn_passes *const ls__bn_passes_avx2 = NULL;
#endif
