/* lanes_avx2.c: lanes.h with vectors of 8 floats. */
#include "backend/cpu/lanes.h"

#include "backend/cpu/lanes_ops.h"

#if defined(__x86_64__)

#include "backend/cpu/lanes_vec256.h"

#include "backend/cpu/lanes_conv.h"
#include "backend/cpu/lanes_pool.h"
#include "backend/cpu/lanes_wino.h"

const struct lanes_ops ls__lanes_avx2 = {
    .tables_bytes = tables_bytes,
    .make_tables = make_tables,
    .forward_scratch = best_forward_scratch,
    .forward = best_forward,
    .backward_weights_scratch = best_weights_scratch,
    .backward_weights = best_backward_weights,
    .forward_is_winograd = wino_is_better,
    .backward_weights_is_winograd = wino_weights_are_better,
    .maxpool = maxpool,
    .maxpool_backward = maxpool_backward,
};

#else

const struct lanes_ops ls__lanes_avx2 = {0};

#endif
