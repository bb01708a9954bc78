/* lanes_ops.h: the two widths of lanes.h; lanes.c chooses. */
#ifndef LS_BACKEND_CPU_LANES_OPS_H
#define LS_BACKEND_CPU_LANES_OPS_H

#include "backend/cpu/lanes.h"

extern const struct lanes_ops ls__lanes_avx512, ls__lanes_avx2;

#endif
