/* norm.h: sums over contiguous elements for group norm and layer norm: in double, in NORM_LANES partial sums, element i
 * in sum i % NORM_LANES, which are added in their order at the end: fixed, and still a vector loop. */
#ifndef LS_BACKEND_CPU_NORM_H
#define LS_BACKEND_CPU_NORM_H

#include "base/simd.h"

#include <stdint.h>

enum { NORM_LANES = 16 };

LS_INLINE double norm_lanes_sum(const double lanes[NORM_LANES])
{
    double sum = 0.0;
    for (int l = 0; l < NORM_LANES; l++) sum += lanes[l];
    return sum;
}

/* Runs EXPR, a double of element i, over [0,n) and adds it up. */
#define NORM_SUM(result, n, EXPR)                                                                                      \
    do {                                                                                                               \
        double lanes_[NORM_LANES] = {0};                                                                               \
        int64_t first_ = 0;                                                                                            \
        for (; first_ + NORM_LANES <= (n); first_ += NORM_LANES)                                                       \
            for (int l_ = 0; l_ < NORM_LANES; l_++) {                                                                  \
                const int64_t i = first_ + l_;                                                                         \
                lanes_[l_] += (EXPR);                                                                                  \
            }                                                                                                          \
        for (int l_ = 0; first_ < (n); first_++, l_++) {                                                               \
            const int64_t i = first_;                                                                                  \
            lanes_[l_] += (EXPR);                                                                                      \
        }                                                                                                              \
        (result) = norm_lanes_sum(lanes_);                                                                             \
    } while (0)

#endif
