/* lanes.c: see lanes.h: the width of vectors this process uses. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/isa.h"
#include "backend/cpu/lanes_ops.h"

bool lanes_are_available(void)
{
    return cpu_isa_has_avx512();
}

const struct lanes_ops *lanes_best(void)
{
    return cpu_isa_has_avx512() ? &ls__lanes_avx512 : cpu_isa_has_avx2() ? &ls__lanes_avx2 : NULL;
}
