/* ref.h: the reference backend: plain C, plain layouts, one thread per launch.
 *
 * It is the oracle the other backends are tested against and the fallback where they are missing. Rules of the house:
 *
 *   - Every sum runs in a fixed order, in double where many terms meet (convolution, linear, statistics, softmax), and
 * is rounded to float once. A product of two floats is exact in double, so the results are the best float32 can hold.
 *   - Inputs are asked for in the plain layout; the plan reorders. Only reduce, sgd, adamw and running_stats, which
 * treat every element alike, take any layout as it is.
 *   - Inner loops are contiguous, and LS_VECTORIZE (base/simd.h) compiles them for several instruction sets.
 *
 * One file per op family holds its prepare, launch and the const table; ref.c lists them.
 */
#ifndef LS_BACKEND_REF_REF_H
#define LS_BACKEND_REF_REF_H

#include "backend/backend.h"
#include "base/simd.h"

#include <math.h>

/* ls__ref_conv2d, ls__ref_conv2d_bwd_data, ...: one for every op. */
#define LS_REF_DECLARE(NAME, name) extern const struct ls_impl ls__ref_##name;
LS_OP_MAP(LS_REF_DECLARE)
#undef LS_REF_DECLARE

/* The kernel of every op: what launch needs to know of the node, copied, because the graph need not outlive the plan.
 */
struct ls_ref_kernel {
    struct ls_kernel base;
    struct ls_attrs attrs;
    struct ls_shape in[LS_MAX_IN], out[LS_MAX_OUT]; /* zero dims where absent */
    char name[64];                                  /* the node's, for messages */
};

/* Makes the kernel of node->op with plain layouts and no scratch; the whole `prepare` of the simple ops. */
enum ls_status ls__ref_prepare(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;
/* The same, and the first output may lie where input 0 lies, or input 1: a backward op's diff_dst. */
enum ls_status ls__ref_prepare_in_place(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;
enum ls_status ls__ref_prepare_over_1(const struct ls_prep *prep, struct ls_kernel **out) LS_MUST_CHECK;

static inline const struct ls_ref_kernel *ls__ref_kernel_of(const struct ls_bound *b)
{
    return (const struct ls_ref_kernel *)b->kernel;
}

/* `like` for elements of another type: the same order of elements, bytes in proportion. */
struct ls_layout ls__ref_layout_like(struct ls_layout like, enum ls_dtype from, enum ls_dtype to);

/* A value as [mb, c, hw]: activations of two dims have hw = 1. */
struct ls_ref_nchw {
    int64_t mb, c, hw;
};
struct ls_ref_nchw ls__ref_nchw(const struct ls_shape *s);

/* Into fixed point: to the nearest integer, ties to even. Beyond 2^62 anything: the limits below are looked at first or
 * at once. */
LS_INLINE int64_t ls__ref_round(double x)
{
    return fabs(x) <= 0x1p62 ? llrint(x) : 0;
}

/* Keeps NaN, so that a bad value is seen in the loss instead of turning into zero. */
LS_INLINE float ls__ref_relu1(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

/* A sum in LS_REF_LANES interleaved partial sums: a fixed order that still vectorises. */
enum { LS_REF_LANES = 8 };

LS_INLINE void ls__ref_dot(double lanes[LS_REF_LANES], const float *a, const float *b, int64_t n)
{
    int64_t i = 0;
    for (; i + LS_REF_LANES <= n; i += LS_REF_LANES)
        for (int l = 0; l < LS_REF_LANES; l++) lanes[l] += (double)a[i + l] * (double)b[i + l];
    for (int l = 0; i < n; i++, l++) lanes[l] += (double)a[i] * (double)b[i];
}

LS_INLINE double ls__ref_lanes_sum(const double lanes[LS_REF_LANES])
{
    double sum = 0.0;
    for (int l = 0; l < LS_REF_LANES; l++) sum += lanes[l];
    return sum;
}

#endif
