/* batchnorm_passes.h: the passes of batch norm over the elements of a group of channels (batchnorm_code.h).
 *
 * A group is what 16 lanes hold at a time: a block of 16 channels, one of 8 twice, one channel in plain order, or 16
 * neighbouring channels of rows that have all channels. What belongs to a channel is handed in and out per lane.
 */
#ifndef LS_BACKEND_CPU_BATCHNORM_PASSES_H
#define LS_BACKEND_CPU_BATCHNORM_PASSES_H

#include <stdbool.h>
#include <stdint.h>

enum { BN_LANES = 16 };

/* n_runs pieces of memory, run_step floats apart. Each has `rows` rows of 16 floats, row_step apart, and then `tail`
 * (below 16) floats more, which belong to the first lanes. */
struct bn_group {
    int64_t n_runs, run_step, rows, row_step;
    int tail;
};

/* dst = (src - mean) * scale + shift, each operation rounded. */
struct bn_affine {
    float mean[BN_LANES], scale[BN_LANES], shift[BN_LANES];
};

/* diff_src = d * scale + ((src - mean) * per_x + constant), where d is diff_dst behind the relu. */
struct bn_slope {
    float per_x[BN_LANES], constant[BN_LANES];
};

/* The sums are added to. src and dst, diff_dst and diff_src may be the same. */
struct bn_passes {
    void (*add_values)(const float *src, const struct bn_group *g, double sums[BN_LANES]);
    /* of (src - mean)^2 */
    void (*add_squares)(const float *src, const struct bn_group *g, const float mean[BN_LANES], double sums[BN_LANES]);
    void (*normalise)(const float *src, float *dst, const struct bn_group *g, const struct bn_affine *f, bool relu);
    /* of d, and of d * (src - mean) */
    void (*add_gradients)(const float *src, const float *diff_dst, const struct bn_group *g, const struct bn_affine *f,
                          bool relu, double sums[BN_LANES], double sums_x[BN_LANES]);
    void (*make_gradients)(const float *src, const float *diff_dst, float *diff_src, const struct bn_group *g,
                           const struct bn_affine *f, bool relu, const struct bn_slope *s);
};

/* The first two are NULL where the compiler's machine is not x86-64. */
extern const struct bn_passes *const ls__bn_passes_avx512, *const ls__bn_passes_avx2, *const ls__bn_passes_any;

#endif
