/* lanes.h: convolution and pooling with the samples of a shard in the lanes of a vector.
 *
 * The library puts 16 channels into a vector; with 1, 3 or 6 channels most lanes compute nothing. The samples of a
 * shard all do the same work, so here they stand side by side: the layout is [c][h][w][n] (oneDNN's "bcda"), and a row
 * of an image is w*n floats in which neighbouring pixels lie n apart. A vector is any 16 (AVX2: 8) of them: 16 samples
 * of a pixel, or 4 samples of 4 pixels; moving by a tap of the kernel is moving by n floats. Full vectors whatever the
 * channels and the number of samples, and padding costs nothing but a mask at the ends of a row.
 *
 * Where rows are not whole vectors and the image keeps its size, rows follow each other without a gap in source and
 * result alike, so a vector may begin in one row and end in the next: the plane is one long row whose masks repeat.
 *
 * Every sum has a fixed order, so results repeat bit for bit.
 */
#ifndef LS_BACKEND_CPU_LANES_H
#define LS_BACKEND_CPU_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, LANES_MAX_KERNEL = 7 };

/* AVX-512 with everything linear_dot.c and linear_sum.c are compiled for. */
bool ls__lanes_are_available(void);

struct lanes_conv {
    int n, ic, ih, iw, oc, oh, ow, kh, kw, ph, pw; /* stride and dilation 1; n samples */
};

/* Maximum over windows that do not overlap (stride = kernel), no padding. */
struct lanes_pool {
    int n, c, ih, iw, oh, ow, k;
};

/* One set for each width of vectors. */
struct lanes_ops {
    /* What the convolutions below look up: made once for each lanes_conv, then only read. */
    size_t (*tables_bytes)(const struct lanes_conv *c);
    void (*make_tables)(const struct lanes_conv *c, void *tables);
    /* dst = src * weights (+ bias, relu); bias may be NULL. weights [oc,ic,kh,kw], or with is_turned [ic,oc,kh,kw] with
     * the taps turned round: a convolution with those is another's backward by data. */
    size_t (*forward_scratch)(const struct lanes_conv *c); /* bytes */
    void (*forward)(const struct lanes_conv *c, const void *tables, const float *src, const float *weights,
                    bool is_turned, const float *bias, bool relu, float *dst, void *scratch);
    /* diff_weights [oc,ic,kh,kw] and diff_bias [oc] (may be NULL). */
    size_t (*backward_weights_scratch)(const struct lanes_conv *c); /* bytes */
    void (*backward_weights)(const struct lanes_conv *c, const void *tables, const float *src, const float *diff_dst,
                             float *diff_weights, float *diff_bias, void *scratch);
    /* Do they compute by Winograd's algorithm (lanes_wino.h)? A rule over the sizes. */
    bool (*forward_is_winograd)(const struct lanes_conv *c);
    bool (*backward_weights_is_winograd)(const struct lanes_conv *c);
    /* index [c,oh,ow,n] remembers the winner; NULL: nobody asks. */
    void (*maxpool)(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index);
    void (*maxpool_backward)(const struct lanes_pool *p, const float *diff_dst, const uint8_t *index, float *diff_src);
};

/* The widest this process may use, or NULL. */
const struct lanes_ops *ls__lanes_best(void);

#endif
