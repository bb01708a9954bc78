/* lanes_pool.h: the pooling of lanes.h, for the vectors of the including file.
 *
 * A vector holds one pixel of VEC samples (or what is left of them). With few samples and windows of 2 by 2 it holds
 * several windows: two vectors of a source row are split into the left and the right pixels of the windows.
 */

/* Several windows in a vector. */
VEC_TARGET static bool has_pairs(const struct lanes_pool *p)
{
    return p->k == 2 && V(pairs_are_supported)(p->n);
}

VEC_TARGET INLINE void pool_row_pairs(const struct lanes_pool *p, const struct V(pairs) * pairs, const float *src,
                                      float *dst, uint8_t *index)
{
    const ptrdiff_t src_len = (ptrdiff_t)p->iw * p->n, len = (ptrdiff_t)p->ow * p->n;
    for (ptrdiff_t at = 0; at < len; at += VEC) {
        const V(mask) in = V(inside)(at, len), in_a = V(inside)(2 * at, src_len),
                      in_b = V(inside)(2 * at + VEC, src_len);
        V(float) left, right, best;
        V(winner) which = V(winner_first)();
        V(pairs_split)(pairs, V(load_in)(in_a, src + 2 * at), V(load_in)(in_b, src + 2 * at + VEC), &best, &right);
        V(winner_update)(&best, &which, right, 1);
        const float *below = src + src_len + 2 * at;
        V(pairs_split)(pairs, V(load_in)(in_a, below), V(load_in)(in_b, below + VEC), &left, &right);
        V(winner_update)(&best, &which, left, 2);
        V(winner_update)(&best, &which, right, 3);
        V(store_in)(dst + at, in, best);
        if (index) V(winner_store)(index + at, in, which);
    }
}

VEC_TARGET INLINE void pool_row(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index, const int k)
{
    const ptrdiff_t n = p->n, src_row = p->iw * n;
    for (int x = 0; x < p->ow; x++, src += k * n)
        for (ptrdiff_t l = 0; l < n; l += VEC) {
            const V(mask) in = V(inside)(l, n);
            V(float) best = V(load_in)(in, src + l);
            V(winner) which = V(winner_first)();
            for (int ky = 0; ky < k; ky++)
                for (int kx = ky == 0; kx < k; kx++)
                    V(winner_update)(&best, &which, V(load_in)(in, src + ky * src_row + kx * n + l), ky * k + kx);
            V(store_in)(dst + x * n + l, in, best);
            if (index) V(winner_store)(index + x * n + l, in, which);
        }
}

VEC_TARGET static void maxpool(const struct lanes_pool *p, const float *src, float *dst, uint8_t *index)
{
    const ptrdiff_t src_row = (ptrdiff_t)p->iw * p->n, dst_row = (ptrdiff_t)p->ow * p->n;
    struct V(pairs) pairs;
    if (has_pairs(p)) pairs = V(pairs_of)(p->n);
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

VEC_TARGET INLINE void spread_row_pairs(const struct lanes_pool *p, const struct V(pairs) * pairs,
                                        const float *diff_dst, const uint8_t *index, float *diff_src)
{
    const ptrdiff_t src_len = (ptrdiff_t)p->iw * p->n, len = (ptrdiff_t)p->ow * p->n;
    for (ptrdiff_t at = 0; at < len; at += VEC) {
        const V(mask) in = V(inside)(at, len), in_a = V(inside)(2 * at, 2 * len),
                      in_b = V(inside)(2 * at + VEC, 2 * len);
        const V(float) g = V(load_in)(in, diff_dst + at);
        const V(winner) which = V(winner_load)(index + at, in);
#pragma GCC unroll 2
        for (int ky = 0; ky < 2; ky++) {
            V(float) a, b;
            V(pairs_join)(pairs, V(winner_share)(which, 2 * ky, g), V(winner_share)(which, 2 * ky + 1, g), &a, &b);
            V(store_in)(diff_src + ky * src_len + 2 * at, in_a, a);
            V(store_in)(diff_src + ky * src_len + 2 * at + VEC, in_b, b);
        }
    }
}

VEC_TARGET INLINE void spread_row(const struct lanes_pool *p, const float *diff_dst, const uint8_t *index,
                                  float *diff_src, const int k)
{
    const ptrdiff_t n = p->n, src_row = p->iw * n;
    for (int x = 0; x < p->ow; x++, diff_src += k * n)
        for (ptrdiff_t l = 0; l < n; l += VEC) {
            const V(mask) in = V(inside)(l, n);
            const V(float) g = V(load_in)(in, diff_dst + x * n + l);
            const V(winner) which = V(winner_load)(index + x * n + l, in);
            for (int ky = 0; ky < k; ky++)
                for (int kx = 0; kx < k; kx++)
                    V(store_in)(diff_src + ky * src_row + kx * n + l, in, V(winner_share)(which, ky * k + kx, g));
        }
}

VEC_TARGET static void maxpool_backward(const struct lanes_pool *p, const float *diff_dst, const uint8_t *index,
                                        float *diff_src)
{
    const ptrdiff_t src_row = (ptrdiff_t)p->iw * p->n, dst_row = (ptrdiff_t)p->ow * p->n;
    struct V(pairs) pairs;
    if (has_pairs(p)) pairs = V(pairs_of)(p->n);
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
