/* batchnorm_any.c: batchnorm_passes.h with vectors of 4 floats, which every machine has. */
#define VEC 4
#define TARGET
#include "backend/cpu/batchnorm_code.h"

const struct bn_passes *const ls__bn_passes_any = &passes;
