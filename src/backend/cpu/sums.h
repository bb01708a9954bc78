/* sums.h: the loops into fixed point (REDUCE) and out of it (updates), for each level of instructions (sums_code.h).
 * All levels give ref's bits.
 */
#ifndef LS_BACKEND_CPU_SUMS_H
#define LS_BACKEND_CPU_SUMS_H

#include "backend/rates.h"

struct cpu_sums {
    /* sum += round(src * factor), ties to even. Returns the largest |src[i]| as bits: floats without sign order as
     * their bits do, infinity and then NaN at the top, so one look at it tells whether all were in range. */
    uint32_t (*accumulate)(const float *src, int64_t *sum, int64_t n, double factor);
    /* The sums are zeroed. buf NULL: without momentum. */
    void (*sgd)(float *param, int64_t *sum, float *buf, int64_t n, const struct ls_sgd_rates *r, bool nesterov);
    void (*adamw)(float *param, int64_t *sum, float *m, float *v, int64_t n, const struct ls_adamw_rates *r);
    void (*running_stats)(float *running, int64_t *sum, int64_t n, double unit, float momentum);
};

/* The first two are NULL where the compiler's machine is not x86-64. */
extern const struct cpu_sums *const ls__cpu_sums_avx512, *const ls__cpu_sums_avx2, *const ls__cpu_sums_any;
/* The best that this process may use (isa.h). */
const struct cpu_sums *ls__cpu_sums(void);

#endif
