/* lanes_ops.h: the two widths of lanes.h; lanes.c chooses. */
#ifndef LS_BACKEND_CPU_LANES_OPS_H
#define LS_BACKEND_CPU_LANES_OPS_H

#include "backend/cpu/lanes.h"

extern const struct lanes_ops ls__lanes_avx512, ls__lanes_avx2;

/* The table of the file that has compiled lanes_conv.h, lanes_pool.h and lanes_wino.h for its width. */
#define LANES_OPS_HERE                                                                                                 \
    {                                                                                                                  \
        .tables_bytes = tables_bytes, .make_tables = make_tables, .forward_scratch = best_forward_scratch,             \
        .forward = best_forward, .backward_weights_scratch = best_weights_scratch,                                     \
        .backward_weights = best_backward_weights, .forward_is_winograd = wino_is_better,                              \
        .backward_weights_is_winograd = wino_weights_are_better, .maxpool = maxpool,                                   \
        .maxpool_backward = maxpool_backward,                                                                          \
    }

#endif
