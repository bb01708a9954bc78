/* linear_avx2.c: ls__linear_tiles.h with AVX2: 16 registers of 8 floats. */
#include "backend/cpu/linear_tiles.h"

#if defined(__x86_64__)
#define VEC 8
#define VEC_TARGET AVX2_TARGET
#define SAMPLES 4
#define AHEAD_BYTES 2048
#include "backend/cpu/linear_tiles_body.h"

#define MOST_INPUTS 8
#include "backend/cpu/linear_backward_body.h"

AVX2_TARGET static void backward(const float *d, const float *w, ptrdiff_t step, int n_blocks, int n_inputs, int n,
                                 float *out)
{
    for (int s = 0; s < n; s += 8) v8_backward(8, d + s, w, step, n_blocks, out + s);
}

static const struct linear_tiles tiles = {
    .name = "avx2",
    .inputs_at_once = 8,
    .sum_width = 16,
    .to_lanes = to_lanes,
    .from_lanes = from_lanes,
    .forward = forward,
    .backward = backward,
    .pack = pack,
    .pack_narrow = pack_narrow,
    .sum = sum,
};
const struct linear_tiles *const ls__linear_tiles_avx2 = &tiles;

#else
const struct linear_tiles *const ls__linear_tiles_avx2 = NULL;
#endif
