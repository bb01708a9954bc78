/* lanes.c: the width of vectors that kernels with samples in the lanes use in this process. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/isa.h"
#include "backend/cpu/lanes_ops.h"

bool ls__lanes_are_available(void)
{
    return ls__cpu_isa_has_avx512();
}

const struct lanes_ops *ls__lanes_best(void)
{
    return ls__cpu_isa_has_avx512() ? &ls__lanes_avx512 : ls__cpu_isa_has_avx2() ? &ls__lanes_avx2 : NULL;
}
