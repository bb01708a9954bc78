/* lanes.h: convolution and pooling with the samples of a shard in the lanes of a vector.
 *
 * The library puts 16 channels into a vector; with 1, 3 or 6 channels most lanes compute nothing. The samples of a
 * shard all do the same work, so here they stand side by side: the layout is [c][h][w][n] (oneDNN's "bcda"), and a row
 * of an image is w*n floats in which neighbouring pixels lie n apart. A vector is any 16 of them: 16 samples of a
 * pixel, or 4 samples of 4 pixels; moving by a tap of the kernel is moving by n floats. Full vectors whatever the
 * channels and the number of samples, and padding costs nothing but a mask at the ends of a row. AVX-512.
 *
 * Every sum has a fixed order, so results repeat bit for bit.
 */
#ifndef LS_BACKEND_CPU_LANES_H
#define LS_BACKEND_CPU_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LANES = 16, LANES_MAX_KERNEL = 7 };

/* AVX-512 with everything the kernels here, linear_dot.c and linear_sum.c are compiled for. */
bool lanes_are_available(void);

struct lanes_conv {
    int n, ic, ih, iw, oc, oh, ow, kh, kw, ph, pw; /* stride and dilation 1; n samples */
};

/* Weights as lanes_forward reads them: [blocks of channels][ic][kh][kw][channels of the block], from [oc,ic,kh,kw], or
 * with is_turned from [ic,oc,kh,kw] with the taps turned round: a convolution with those is another's backward by data.
 */
void lanes_pack(const struct lanes_conv *c, const float *weights, bool is_turned, float *packed);
/* dst = src * weights (+ bias, relu); bias may be NULL. */
void lanes_forward(const struct lanes_conv *c, const float *src, const float *packed, const float *bias, bool relu,
                   float *dst);
/* diff_weights [oc,ic,kh,kw] and diff_bias [oc] (may be NULL). acc: lanes_acc_count floats of scratch. */
size_t lanes_acc_count(const struct lanes_conv *c);
void lanes_backward_weights(const struct lanes_conv *c, const float *src, const float *diff_dst, float *acc,
                            float *diff_weights, float *diff_bias);

/* Maximum over windows that do not overlap (stride = kernel), no padding. index [c,oh,ow,n] remembers the winner; NULL:
 * nobody asks. */
struct lanes_pool {
    int n, c, ih, iw, oh, ow, k;
};
void lanes_maxpool(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index);
void lanes_maxpool_backward(const struct lanes_pool *p, const float *diff_dst, const uint8_t *index, float *diff_src);

#endif
