/* sums_avx2.c: sums.h with AVX2. */
#if defined(__x86_64__)
#define TARGET __attribute__((target("avx2")))
#include "backend/cpu/sums_code.h"

const struct cpu_sums *const ls__cpu_sums_avx2 = &sums;

#else
#include "backend/cpu/sums.h"

const struct cpu_sums *const ls__cpu_sums_avx2 = NULL;
#endif
