/* lanes_avx512.c: lanes.h with vectors of 16 floats. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/lanes_ops.h"

#if defined(__x86_64__)

#include "backend/cpu/vec_lanes.h"

#define VEC 16
#define VEC_TARGET AVX512_TARGET
/* Forward: channels at once, and vectors of a row with so many channels: 24 accumulators at most. */
enum { MAX_OC = 8, MAX_V = 7 };
#define VECTORS_WITH(n_oc) ((n_oc) <= 3 ? 7 : (n_oc) == 4 ? 6 : (n_oc) <= 6 ? 4 : 3)
/* Backward by weights: channels at once with 3 and with 5 taps. */
enum { WEIGHTS_OC_3 = 6, WEIGHTS_OC_5 = 4 };

#include "backend/cpu/lanes_conv.h"
#include "backend/cpu/lanes_pool.h"
#include "backend/cpu/lanes_wino.h"

const struct lanes_ops ls__lanes_avx512 = LANES_OPS_HERE;

#else

const struct lanes_ops ls__lanes_avx512 = {0};

#endif
