/* linear_avx512.c: ls__linear_tiles.h with AVX-512: 32 registers of 16 floats. */
#include "backend/cpu/linear_tiles.h"

#if defined(__x86_64__)
#define VEC 16
#define VEC_TARGET AVX512_TARGET
#define SAMPLES 16
#define AHEAD_BYTES 2048
#include "backend/cpu/linear_tiles_body.h"

#define MOST_INPUTS 24
#include "backend/cpu/linear_backward_body.h"
#undef VEC
#define VEC 8 /* groups of 8 samples or fewer fill half a vector: the same loop over the short ones */
#include "backend/cpu/linear_backward_body.h"

AVX512_TARGET static void backward(const float *d, const float *w, ptrdiff_t step, int n_blocks, int n_inputs, int n,
                                   float *out)
{
    if (n > 8 && n_inputs == 24)
        v16_backward(24, d, w, step, n_blocks, out);
    else if (n > 8 && n_inputs == 16)
        v16_backward(16, d, w, step, n_blocks, out);
    else if (n > 8)
        v16_backward(8, d, w, step, n_blocks, out);
    else if (n_inputs == 24)
        v8_backward(24, d, w, step, n_blocks, out);
    else if (n_inputs == 16)
        v8_backward(16, d, w, step, n_blocks, out);
    else
        v8_backward(8, d, w, step, n_blocks, out);
}

static const struct linear_tiles tiles = {
    .name = "avx512",
    .inputs_at_once = 24,
    .sum_width = 32,
    .to_lanes = to_lanes,
    .from_lanes = from_lanes,
    .forward = forward,
    .backward = backward,
    .pack = pack,
    .pack_narrow = pack_narrow,
    .sum = sum,
};
const struct linear_tiles *const ls__linear_tiles_avx512 = &tiles;

#else
const struct linear_tiles *const ls__linear_tiles_avx512 = NULL;
#endif
