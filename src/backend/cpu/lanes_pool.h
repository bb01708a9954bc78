/* lanes_pool.h: the pooling of lanes.h, for the vectors of the lanes_vec*.h included before it.
 *
 * A vector holds one pixel of WIDTH samples (or what is left of them). With few samples and windows of 2 by 2 it holds
 * several windows: two vectors of a source row are split into the left and the right pixels of the windows.
 */

/* Several windows in a vector. */
__attribute__((TARGET)) static bool has_pairs(const struct lanes_pool *p)
{
    return p->k == 2 && pairs_are_supported(p->n);
}

VEC void pool_row_pairs(const struct lanes_pool *p, const struct pairs *pairs, const float *src, float *dst,
                        uint8_t *index)
{
    const ptrdiff_t src_len = (ptrdiff_t)p->iw * p->n, len = (ptrdiff_t)p->ow * p->n;
    for (ptrdiff_t at = 0; at < len; at += WIDTH) {
        const vmask in = vec_inside(at, len), in_a = vec_inside(2 * at, src_len),
                    in_b = vec_inside(2 * at + WIDTH, src_len);
        vec left, right, best;
        winner which = winner_first();
        pairs_split(pairs, vec_load_in(in_a, src + 2 * at), vec_load_in(in_b, src + 2 * at + WIDTH), &best, &right);
        winner_update(&best, &which, right, 1);
        const float *below = src + src_len + 2 * at;
        pairs_split(pairs, vec_load_in(in_a, below), vec_load_in(in_b, below + WIDTH), &left, &right);
        winner_update(&best, &which, left, 2);
        winner_update(&best, &which, right, 3);
        vec_store_in(dst + at, in, best);
        if (index) winner_store(index + at, in, which);
    }
}

VEC void pool_row(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index, const int k)
{
    const ptrdiff_t n = p->n, src_row = p->iw * n;
    for (int x = 0; x < p->ow; x++, src += k * n)
        for (ptrdiff_t l = 0; l < n; l += WIDTH) {
            const vmask in = vec_inside(l, n);
            vec best = vec_load_in(in, src + l);
            winner which = winner_first();
            for (int ky = 0; ky < k; ky++)
                for (int kx = ky == 0; kx < k; kx++)
                    winner_update(&best, &which, vec_load_in(in, src + ky * src_row + kx * n + l), ky * k + kx);
            vec_store_in(dst + x * n + l, in, best);
            if (index) winner_store(index + x * n + l, in, which);
        }
}

__attribute__((TARGET)) static void maxpool(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index)
{
    const ptrdiff_t src_row = (ptrdiff_t)p->iw * p->n, dst_row = (ptrdiff_t)p->ow * p->n;
    struct pairs pairs;
    if (has_pairs(p)) pairs = pairs_of(p->n);
    for (int c = 0; c < p->c; c++)
        for (int y = 0; y < p->oh; y++, dst += dst_row, index = index ? index + dst_row : NULL) {
            const float *from = src + ((ptrdiff_t)c * p->ih + y * p->k) * src_row;
            if (has_pairs(p))
                pool_row_pairs(p, &pairs, from, dst, index);
            else if (p->k == 2)
                pool_row(p, from, dst, index, 2);
            else
                pool_row(p, from, dst, index, p->k);
        }
}

VEC void spread_row_pairs(const struct lanes_pool *p, const struct pairs *pairs, const float *diff_dst,
                          const uint8_t *index, float *diff_src)
{
    const ptrdiff_t src_len = (ptrdiff_t)p->iw * p->n, len = (ptrdiff_t)p->ow * p->n;
    for (ptrdiff_t at = 0; at < len; at += WIDTH) {
        const vmask in = vec_inside(at, len), in_a = vec_inside(2 * at, 2 * len),
                    in_b = vec_inside(2 * at + WIDTH, 2 * len);
        const vec g = vec_load_in(in, diff_dst + at);
        const winner which = winner_load(index + at, in);
#pragma GCC unroll 2
        for (int ky = 0; ky < 2; ky++) {
            vec a, b;
            pairs_join(pairs, winner_share(which, 2 * ky, g), winner_share(which, 2 * ky + 1, g), &a, &b);
            vec_store_in(diff_src + ky * src_len + 2 * at, in_a, a);
            vec_store_in(diff_src + ky * src_len + 2 * at + WIDTH, in_b, b);
        }
    }
}

VEC void spread_row(const struct lanes_pool *p, const float *diff_dst, const uint8_t *index, float *diff_src,
                    const int k)
{
    const ptrdiff_t n = p->n, src_row = p->iw * n;
    for (int x = 0; x < p->ow; x++, diff_src += k * n)
        for (ptrdiff_t l = 0; l < n; l += WIDTH) {
            const vmask in = vec_inside(l, n);
            const vec g = vec_load_in(in, diff_dst + x * n + l);
            const winner which = winner_load(index + x * n + l, in);
            for (int ky = 0; ky < k; ky++)
                for (int kx = 0; kx < k; kx++)
                    vec_store_in(diff_src + ky * src_row + kx * n + l, in, winner_share(which, ky * k + kx, g));
        }
}

__attribute__((TARGET)) static void maxpool_backward(const struct lanes_pool *p, const float *diff_dst,
                                                     const uint8_t *index, float *diff_src)
{
    const ptrdiff_t src_row = (ptrdiff_t)p->iw * p->n, dst_row = (ptrdiff_t)p->ow * p->n;
    struct pairs pairs;
    if (has_pairs(p)) pairs = pairs_of(p->n);
    if (p->oh * p->k != p->ih || p->ow * p->k != p->iw) /* rows or columns no window reaches */
        memset(diff_src, 0, (size_t)p->c * (size_t)(p->ih * src_row) * sizeof *diff_src);
    for (int c = 0; c < p->c; c++)
        for (int y = 0; y < p->oh; y++, diff_dst += dst_row, index += dst_row) {
            float *to = diff_src + ((ptrdiff_t)c * p->ih + y * p->k) * src_row;
            if (has_pairs(p))
                spread_row_pairs(p, &pairs, diff_dst, index, to);
            else if (p->k == 2)
                spread_row(p, diff_dst, index, to, 2);
            else
                spread_row(p, diff_dst, index, to, p->k);
        }
}
