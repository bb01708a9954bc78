/* ls__linear_tiles.h: the inner loops of large linear layers, once for AVX-512 and once for AVX2.
 *
 * Weights lie as [oc/16][ic][16]: blocks of 16 outputs, ic filled up to a multiple of 16 (oneDNN's AB16b16a), zeros in
 * the padding. The three directions read or write that one array, front to back or in runs of cache lines:
 *
 *     forward           acc[16 samples][16 outputs] += x[i][sample] * w[i][16 outputs]            over all i
 *     backward by data  acc[24 inputs][16 samples]  += w[i][output] * d[output][16 samples]       over all outputs
 *     sum               acc[3][2 vectors]           += b[row][3] * v[row][2 vectors]              over a shard's rows
 *
 * so no sum ever runs across the lanes of a vector, and what memory gives is used once per shard. Activations are put
 * into groups of 16 samples first, [c][16] ("lanes"); that is 1/oc or 1/ic of the work.
 *
 * Every element is one chain of multiply-adds in a fixed order, the same in both versions: the same bits.
 */
#ifndef LS_BACKEND_CPU_LINEAR_TILES_H
#define LS_BACKEND_CPU_LINEAR_TILES_H

#include "backend/backend.h"

enum { TILE_SAMPLES = 16, TILE_OUTPUTS = 16 }; /* samples of a group, outputs of a block */
enum { SUM_ROWS = 3 };                         /* columns of b that sum takes at a time */
enum { SUM_SHARDS = 256 };                     /* shards that sum takes at a time */

/* Rows of the batch that belong to one shard; n >= 1. */
struct linear_rows {
    int first, n;
};

/* What sum adds, and where to. */
struct linear_sum_tile {
    const struct linear_rows *shards; /* [n_shards] those that are here */
    int n_shards;                     /* <= SUM_SHARDS */
    const float *v;                   /* [rows][sum_width] */
    const float *b;                   /* [rows][SUM_ROWS] */
    int64_t *to;                      /* element (b column j, v column 16 c + l) is to[j * step_b + c * step_v + l] */
    ptrdiff_t step_b, step_v;
};

struct linear_tiles {
    const char *name;
    int inputs_at_once; /* backward takes so many, or fewer by multiples of 8 */
    int sum_width;      /* columns of a panel of v: two vectors */

    /* [n][stride] -> [count][16], n <= 16 samples; the others are zero. And back. */
    void (*to_lanes)(const float *from, int n, ptrdiff_t stride, int count, float *to);
    void (*from_lanes)(const float *from, int n, int count, float *to, ptrdiff_t stride);
    /* dst[n][0..15] = bias + sum over i of x [ic][16] and w [ic][16]; n samples. */
    void (*forward)(const float *x, const float *w, int ic, int n, const float *bias /* [16] */, bool relu, float *dst,
                    ptrdiff_t stride);
    /* out[n_inputs][16] = sum over blocks of w (`step` floats apart) and their outputs, d [16 n_blocks][16]; n samples.
     */
    void (*backward)(const float *d, const float *w, ptrdiff_t step, int n_blocks, int n_inputs, int n, float *out);
    /* Columns [at, at + width) of [n][stride] as [n][width] times scale, zeros where it has none; width % 16 = 0. */
    void (*pack)(const float *from, int n, int stride, int at, int width, float scale, float *to);
    /* `count` columns as [count / SUM_ROWS][n][SUM_ROWS], `step` floats (> n * SUM_ROWS) from one group to the next. */
    void (*pack_narrow)(const float *from, int n, int stride, int at, int count, float scale, float *to,
                        ptrdiff_t step);
    /* For every shard its rows' sum in float32, rounded to an integer, ties to even, and added. Returns 0, or, where a
     * number of 2^44 or more was among them, the largest without its sign, as bits: floats without sign order as their
     * bits do, infinity and NaN at the top. */
    uint32_t (*sum)(const struct linear_sum_tile *t);
};

/* The best for this process, or NULL. */
const struct linear_tiles *ls__linear_tiles(void);
extern const struct linear_tiles *const ls__linear_tiles_avx512,
    *const ls__linear_tiles_avx2; /* NULL: not on this machine */

#endif
