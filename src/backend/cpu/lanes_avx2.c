/* lanes_avx2.c: lanes.h with vectors of 8 floats. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/lanes_ops.h"

#if defined(__x86_64__)

#include "backend/cpu/vec_lanes.h"

#define VEC 8
#define VEC_TARGET AVX2_TARGET
/* As in lanes_avx512.c, for 16 registers: 12 accumulators at most. */
enum { MAX_OC = 6, MAX_V = 6 };
#define VECTORS_WITH(n_oc) ((n_oc) == 1 ? 6 : (n_oc) == 2 ? 5 : (n_oc) <= 4 ? 3 : 2)
enum { WEIGHTS_OC_3 = 3, WEIGHTS_OC_5 = 2 };

#include "backend/cpu/lanes_conv.h"
#include "backend/cpu/lanes_pool.h"
#include "backend/cpu/lanes_wino.h"

const struct lanes_ops ls__lanes_avx2 = LANES_OPS_HERE;

#else

const struct lanes_ops ls__lanes_avx2 = {0};

#endif
