/* sums_any.c: sums.h for every machine, and the choice of a level. */
#define TARGET
#include "backend/cpu/sums_code.h"

#include "backend/cpu/isa.h"

const struct cpu_sums *const ls__cpu_sums_any = &sums;

const struct cpu_sums *ls__cpu_sums(void)
{
    if (ls__cpu_sums_avx512 && ls__cpu_isa_has_avx512()) return ls__cpu_sums_avx512;
    if (ls__cpu_sums_avx2 && ls__cpu_isa_has_avx2()) return ls__cpu_sums_avx2;
    return ls__cpu_sums_any;
}
