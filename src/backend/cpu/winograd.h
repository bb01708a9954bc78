/* winograd.h: 3x3 and 5x5 convolutions with stride 1 by Winograd's trick, all three directions, on 6x6 tiles.
 *
 * A tile of 6x6 inputs gives 4x4 outputs of a 3x3 convolution (F(4x4,3x3)) or 2x2 of a 5x5 one (F(2x2,5x5)). Seen as
 * polynomials, both are products that 6 points per dimension determine, so both take 36 multiplications per tile and
 * pair of channels instead of 144 or 100:
 *
 *     V = B' d B        inputs of the tile, made of the values at the points    [36][tiles][ic]
 *     U = G w G'        weights, likewise                                       [36][ic][oc]
 *     M = V * U         36 matrix products                                      [36][tiles][oc]
 *     y = A' M A        back to outputs
 *
 * The points are 0, +-5/8, +-3/2 and infinity: of the pairs tried those with the least rounding error (half of that of
 * the usual +-1, +-2), and their squares are exact in float. Backward by data is the forward pass with the weights
 * turned round; backward by weights is G' (V' * Z) G with Z = A dy A'.
 *
 * Activations lie in blocks of `lanes` channels (oneDNN's nChw16c, nChw8c), weights in blocks of lanes x lanes. Tiles
 * are taken in chunks whose V, U and M stay in the second cache; nothing of the size of the activations is written.
 * Every sum has a fixed order, so results repeat bit for bit.
 */
#ifndef LS_BACKEND_CPU_WINOGRAD_H
#define LS_BACKEND_CPU_WINOGRAD_H

#include <stdbool.h>
#include <stddef.h>

enum {
    WINO_SIDE = 6,
    WINO_POINTS = WINO_SIDE * WINO_SIDE,
    WINO_DEPTH = 64, /* input channels of a slice of V and U: what is summed in registers before M is touched */
    WINO_PAD = 16,   /* floats between the matrices of a block, so that they do not share the sets of a cache */
    WINO_MAX_KERNEL = 5
};

struct wino_conv {
    int mb, ic, ih, iw, oc, oh, ow, kernel, ph, pw; /* kernel 3 or 5; stride and dilation 1 */
    bool is_turned; /* weights of the convolution whose backward by data this is: [ic][oc], taps turned round */
    /* set by the planning in winograd.c */
    int tiles_y, tiles_x, n_tiles;
    int chunk;       /* tiles at a time */
    bool keeps_u;    /* forward: U is made once per call, not once per chunk */
    bool is_large;   /* V, U and M exceed the second cache by far: fetch them ahead */
    size_t v_count;  /* floats of a slice of V: [36][chunk][WINO_DEPTH], a line of padding after each matrix */
    size_t z_count;  /* of a block of M (forward) or Z (backward by weights): [36][chunk][2 * lanes] */
    size_t u_count;  /* of a block of U (forward) or M (backward by weights): [36][WINO_DEPTH][2 * lanes] */
    size_t n_slices; /* ic / WINO_DEPTH, rounded up */
    size_t n_blocks; /* oc / (2 * lanes), rounded up */
};

/* Code for one instruction set. scratch: wino_scratch floats, aligned to 64 bytes; bias and diff_bias may be NULL. */
struct wino_code {
    int lanes;
    /* dst = src * weights (+ bias, relu) */
    void (*forward)(const struct wino_conv *c, const float *src, const float *weights, const float *bias, bool relu,
                    float *dst, float *scratch);
    void (*backward_weights)(const struct wino_conv *c, const float *src, const float *diff_dst, float *diff_weights,
                             float *diff_bias, float *scratch);
};

extern const struct wino_code ls__wino_avx512, ls__wino_avx2;

/* Outputs of a tile, per side. */
static inline int wino_out(const struct wino_conv *c)
{
    return WINO_SIDE + 1 - c->kernel;
}

#endif
