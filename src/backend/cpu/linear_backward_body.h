/* linear_backward_body.h: backward by data of ls__linear_tiles.h for VEC samples and `size` inputs at once, one
 * accumulator each (MOST_INPUTS at most). Weights come in runs of `size` lines, one run per block of outputs, too far
 * apart for the machine to foresee: they are fetched BLOCKS_AHEAD blocks before they are used. */
VEC_TARGET INLINE void V(backward)(int size, const float *d, const float *w, ptrdiff_t step, int n_blocks, float *out)
{
    V(float) acc[MOST_INPUTS];
#pragma GCC unroll 24
    for (int i = 0; i < size; i++) acc[i] = V(zero)();
    for (int b = 0; b < n_blocks; b++, w += step, d += TILE_OUTPUTS * TILE_SAMPLES)
        for (int o = 0; o < TILE_OUTPUTS; o += 2) {
#pragma GCC unroll 3
            for (int k = 0; k < size / 8; k++)
                _mm_prefetch((const char *)(w + BLOCKS_AHEAD * step + (o / 2 * (size / 8) + k) * TILE_OUTPUTS),
                             _MM_HINT_T0);
#pragma GCC unroll 2
            for (int next = 0; next < 2; next++) {
                const V(float) x = V(load)(d + (o + next) * TILE_SAMPLES);
#pragma GCC unroll 24
                for (int i = 0; i < size; i++) acc[i] = V(fma)(V(all)(w[i * TILE_OUTPUTS + o + next]), x, acc[i]);
            }
        }
#pragma GCC unroll 24
    for (int i = 0; i < size; i++) V(store)(out + i * TILE_SAMPLES, acc[i]);
}
