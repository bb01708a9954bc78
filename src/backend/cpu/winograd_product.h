/* winograd_product.h: the matrix products between the transforms, for the vectors of the including file.
 *
 * c [rows][width] (+)= a * b [depth][width], where width is one or two vectors and element (r, k) of a lies at
 * a[r * row_step + k * depth_step]. WINO_ROWS rows at a time stay in registers. All steps are constants of the callers,
 * so that they become displacements. With `fetches` the two matrices at `next` come into the second cache meanwhile, a
 * line of each per step of the depth: worth it when they lie further away, 4 % lost when they do not.
 */
VEC_TARGET INLINE void product_rows(const float *a, const int row_step, const int depth_step, const float *b, int depth,
                                    float *c, bool adds, const float *const soon[2], const bool fetches, const int rows,
                                    const int n_vec)
{
    V(float) sum[WINO_ROWS][2];
    const int width = n_vec * VEC;
    const float *soon_0 = soon[0], *soon_1 = soon[1];
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < n_vec; i++) sum[r][i] = adds ? V(load)(c + r * width + i * VEC) : V(zero)();
    for (int k = 0; k < depth; k++, b += width, a += depth_step) {
        V(float) right[2];
        if (fetches) __builtin_prefetch(soon_0 + k * 16, 0, 2);
        if (fetches) __builtin_prefetch(soon_1 + k * 16, 0, 2);
#pragma GCC unroll 2
        for (int i = 0; i < n_vec; i++) right[i] = V(load)(b + i * VEC);
#pragma GCC unroll 14
        for (int r = 0; r < rows; r++) {
            const V(float) left = V(all)(a[r * row_step]);
#pragma GCC unroll 2
            for (int i = 0; i < n_vec; i++) sum[r][i] = V(fma)(left, right[i], sum[r][i]);
        }
    }
#pragma GCC unroll 14
    for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
        for (int i = 0; i < n_vec; i++) V(store)(c + r * width + i * VEC, sum[r][i]);
}

/* The rows in as few and as equal groups as fit into registers. */
VEC_TARGET INLINE void product(const float *a, const int row_step, const int depth_step, const float *b, int rows,
                               int depth, float *c, bool adds, const float *const next[2], const bool fetches,
                               const int n_vec)
{
    const float *soon[2] = {next[0], next[1]};
    int n_groups = (rows + WINO_ROWS - 1) / WINO_ROWS;
    for (; n_groups > 0; n_groups--) {
        const int n = (rows + n_groups - 1) / n_groups;
        switch (n) {
#define ROWS_CASE(n)                                                                                                   \
    case n:                                                                                                            \
        product_rows(a, row_step, depth_step, b, depth, c, adds, soon, fetches, n, n_vec);                             \
        break;
            ROWS_CASE(1)
            ROWS_CASE(2)
            ROWS_CASE(3)
            ROWS_CASE(4)
            ROWS_CASE(5)
            ROWS_CASE(6)
#if WINO_ROWS > 6
            ROWS_CASE(7)
            ROWS_CASE(8)
            ROWS_CASE(9)
            ROWS_CASE(10)
            ROWS_CASE(11)
            ROWS_CASE(12)
            ROWS_CASE(13)
            ROWS_CASE(14)
#endif
#undef ROWS_CASE
        }
        a += n * row_step;
        c += n * n_vec * VEC;
        rows -= n;
        soon[0] += depth * 16;
        soon[1] += depth * 16;
    }
}

/* For forward: a is V, tile by tile, its depth the channels. */
__attribute__((noinline)) VEC_TARGET static void product_over_channels(const float *v, const float *u, int n_tiles,
                                                                       int n_channels, float *m, bool adds,
                                                                       const float *const next[2], bool fetches,
                                                                       int n_vec)
{
    if (n_vec == 2 && fetches)
        product(v, WINO_DEPTH, 1, u, n_tiles, n_channels, m, adds, next, true, 2);
    else if (n_vec == 2)
        product(v, WINO_DEPTH, 1, u, n_tiles, n_channels, m, adds, next, false, 2);
    else
        product(v, WINO_DEPTH, 1, u, n_tiles, n_channels, m, adds, next, false, 1);
}

/* For backward by weights: a is V again, its rows now the channels, its depth the tiles. */
__attribute__((noinline)) VEC_TARGET static void product_over_tiles(const float *v, const float *z, int n_tiles,
                                                                    int n_channels, float *m, bool adds,
                                                                    const float *const next[2], bool fetches, int n_vec)
{
    if (n_vec == 2 && fetches)
        product(v, 1, WINO_DEPTH, z, n_channels, n_tiles, m, adds, next, true, 2);
    else if (n_vec == 2)
        product(v, 1, WINO_DEPTH, z, n_channels, n_tiles, m, adds, next, false, 2);
    else
        product(v, 1, WINO_DEPTH, z, n_channels, n_tiles, m, adds, next, false, 1);
}
