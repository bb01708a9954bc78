/* winograd_code.h: the three directions of winograd.h for one instruction set.
 *
 * Included once per instruction set by a file that defines
 *     VEC, VEC_TARGET   floats of a vector, instruction set (vec.h)
 *     WINO_ROWS         rows of a matrix product that fit into the registers, two vectors wide
 *     WINO_CODE         the name of the struct wino_code
 */
#include "backend/cpu/winograd.h"

#include "backend/cpu/winograd_points.h"
#include "backend/cpu/winograd_product.h"

#define CODE __attribute__((noinline)) VEC_TARGET static
enum { AHEAD = 4 }; /* tiles between asking for pixels and using them */

static ptrdiff_t v_stride(const struct wino_conv *c)
{
    return (ptrdiff_t)c->chunk * WINO_DEPTH + WINO_PAD;
}

/* Of M in forward and Z in backward by weights. */
static ptrdiff_t z_stride(const struct wino_conv *c)
{
    return (ptrdiff_t)c->chunk * 2 * VEC + WINO_PAD;
}

/* Of U in forward and M in backward by weights. */
static ptrdiff_t u_stride(void)
{
    return WINO_DEPTH * 2 * VEC + WINO_PAD;
}

/* Input channels of a slice. */
static int depth_of(const struct wino_conv *c, size_t slice)
{
    const int left = c->ic - (int)slice * WINO_DEPTH;
    return left < WINO_DEPTH ? left : WINO_DEPTH;
}

/* Vectors of output channels of a block: two, or the last one. */
static int vectors_of(const struct wino_conv *c, size_t block)
{
    return c->oc - (int)block * 2 * VEC > VEC ? 2 : 1;
}

struct tile {
    int n, y, x; /* sample, first output row and column */
};

static struct tile tile_at(const struct wino_conv *c, int index)
{
    const int per_sample = c->tiles_y * c->tiles_x, rest = index % per_sample, m = wino_out(c);
    return (struct tile){index / per_sample, rest / c->tiles_x * m, rest % c->tiles_x * m};
}

static void next_tile(const struct wino_conv *c, struct tile *t)
{
    t->x += wino_out(c);
    if (t->x < c->ow) return;
    t->x = 0;
    t->y += wino_out(c);
    if (t->y < c->oh) return;
    t->y = 0;
    t->n++;
}

/* Asks for the m x m pixels of a tile ahead of time; the plane is [height][width][lanes]. */
VEC_TARGET INLINE void fetch_tile(const float *plane, int height, int width, const struct tile *at, const int m,
                                  const bool is_written)
{
#pragma GCC unroll 4
    for (int i = 0; i < m; i++)
#pragma GCC unroll 4
        for (int j = 0; j < m; j++) {
            const int y = at->y + i < height ? at->y + i : height - 1;
            const float *pixel = plane + ((ptrdiff_t)y * width + at->x + j) * VEC;
            if (is_written)
                __builtin_prefetch(pixel, 1, 3);
            else
                __builtin_prefetch(pixel, 0, 3);
        }
}

static const float zeros[VEC];

/* --- src -> V --- */

/* One tile, from its first pixel; `width` pixels to a row. */
VEC_TARGET INLINE void transform_tile(const struct wino_conv *c, const float *from, int width, float *v)
{
    V(float) x[6][6];
#pragma GCC unroll 6
    for (int i = 0; i < 6; i++)
#pragma GCC unroll 6
        for (int j = 0; j < 6; j++) x[i][j] = V(load)(from + ((ptrdiff_t)i * width + j) * VEC);
    to_points_2d((const V(float)(*)[6])x, v, v_stride(c));
}

/* The tile at pixel (top, left) of a plane [ih][iw][lanes], zero where it lies outside. (Loads with masks instead of
 * this copy were slower.) */
VEC_TARGET INLINE void copy_edge_tile(const struct wino_conv *c, const float *plane, int top, int left, float *tile)
{
    const int x_begin = left < 0 ? -left : 0, x_end = c->iw - left < WINO_SIDE ? c->iw - left : WINO_SIDE;
    for (int i = 0; i < WINO_SIDE; i++, tile += WINO_SIDE * VEC) {
        const bool is_row = top + i >= 0 && top + i < c->ih;
        const float *row = plane + ((ptrdiff_t)(is_row ? top + i : 0) * c->iw + left) * VEC;
        for (int j = 0; j < WINO_SIDE; j++) {
            const bool is_inside = is_row && j >= x_begin && j < x_end;
            V(store)(tile + j * VEC, V(load)(is_inside ? row + j * VEC : zeros));
        }
    }
}

VEC_TARGET INLINE void transform_src_of(const struct wino_conv *c, const float *src, int first, int n, float *v,
                                        const int m)
{
    const int n_planes = c->ic / VEC;
    const ptrdiff_t plane_count = (ptrdiff_t)c->ih * c->iw * VEC;
    float edge[WINO_POINTS * VEC] __attribute__((aligned(64)));
    for (int plane = 0; plane < n_planes; plane++) {
        const int channel = plane * VEC;
        float *to = v + (size_t)(channel / WINO_DEPTH) * c->v_count + channel % WINO_DEPTH;
        struct tile at = tile_at(c, first), scout = tile_at(c, first + AHEAD);
        for (int t = 0; t < n; t++, to += WINO_DEPTH, next_tile(c, &at), next_tile(c, &scout)) {
            const float *from = src + ((ptrdiff_t)at.n * n_planes + plane) * plane_count;
            fetch_tile(src + ((ptrdiff_t)scout.n * n_planes + plane) * plane_count, c->ih, c->iw, &scout, m, false);
            const int top = at.y - c->ph, left = at.x - c->pw;
            if (top >= 0 && left >= 0 && top + WINO_SIDE <= c->ih && left + WINO_SIDE <= c->iw) {
                transform_tile(c, from + ((ptrdiff_t)top * c->iw + left) * VEC, c->iw, to);
            } else {
                copy_edge_tile(c, from, top, left, edge);
                transform_tile(c, edge, WINO_SIDE, to);
            }
        }
    }
}

CODE void transform_src(const struct wino_conv *c, const float *src, int first, int n, float *v)
{
    if (c->kernel == 3)
        transform_src_of(c, src, first, n, v, 4);
    else
        transform_src_of(c, src, first, n, v, 2);
}

/* --- weights -> U --- */

/* The square of lanes x lanes channels of all taps that holds input channel k of a slice and vector i of a block. */
VEC_TARGET INLINE const float *square_of(const struct wino_conv *c, const float *weights, size_t block, int i,
                                         size_t slice, int k)
{
    const ptrdiff_t ib = ((ptrdiff_t)slice * WINO_DEPTH + k) / VEC, ob = (ptrdiff_t)block * 2 + i;
    const ptrdiff_t at = c->is_turned ? ib * (c->oc / VEC) + ob : ob * (c->ic / VEC) + ib;
    return weights + at * c->kernel * c->kernel * VEC * VEC;
}

/* Square by square, so that each is read to its end while it is in the first cache; the one that follows it in memory
 * comes into the second meanwhile. */
VEC_TARGET INLINE void transform_weights_of(const struct wino_conv *c, const float *weights, size_t block, size_t slice,
                                            const int kernel, float *u)
{
    const int taps = kernel * kernel, square = VEC * VEC, n_vec = vectors_of(c, block);
    for (int r = 0; r < depth_of(c, slice) * n_vec; r++) {
        const int i = r / VEC % n_vec, k = r / VEC / n_vec * VEC + r % VEC;
        const float *from = square_of(c, weights, block, i, slice, k) + k % VEC * VEC;
        V(float) x[WINO_MAX_KERNEL][WINO_MAX_KERNEL];
#pragma GCC unroll 25
        for (int tap = 0; tap < taps; tap++) {
            const float *tap_from = from + (c->is_turned ? taps - 1 - tap : tap) * square;
            x[tap / kernel][tap % kernel] = V(load)(tap_from);
            __builtin_prefetch(tap_from + taps * square, 0, 2);
        }
        evaluate_2d((const V(float)(*)[WINO_MAX_KERNEL])x, kernel, true, u + (k * n_vec + i) * VEC, u_stride());
    }
}

CODE void transform_weights(const struct wino_conv *c, const float *weights, size_t block, size_t slice, float *u)
{
    if (c->kernel == 3)
        transform_weights_of(c, weights, block, slice, 3, u);
    else
        transform_weights_of(c, weights, block, slice, 5, u);
}

/* --- M -> dst --- */

VEC_TARGET INLINE void write_tile(const struct wino_conv *c, const float *m, const struct tile *at, float *plane,
                                  V(float) bias, bool relu, const int count, const bool is_edge)
{
    V(float) y[WINO_MAX_KERNEL][WINO_MAX_KERNEL];
    interpolate_2d(m, z_stride(c), count, false, y);
#pragma GCC unroll 4
    for (int i = 0; i < count; i++)
#pragma GCC unroll 4
        for (int j = 0; j < count; j++) {
            if (is_edge && (at->y + i >= c->oh || at->x + j >= c->ow)) continue;
            V(float) out = V(add)(y[i][j], bias);
            if (relu) out = V(relu)(out);
            V(store)(plane + ((ptrdiff_t)(at->y + i) * c->ow + at->x + j) * VEC, out);
        }
}

VEC_TARGET INLINE void write_dst_of(const struct wino_conv *c, const float *m, size_t block, int first, int n,
                                    const float *bias, bool relu, float *dst, const int count)
{
    const int n_planes = c->oc / VEC, n_vec = vectors_of(c, block);
    const ptrdiff_t plane_count = (ptrdiff_t)c->oh * c->ow * VEC;
    for (int i = 0; i < n_vec; i++) {
        const ptrdiff_t plane = (ptrdiff_t)block * 2 + i;
        const V(float) add = V(load)(bias ? bias + plane * VEC : zeros);
        const float *from = m + i * VEC;
        struct tile at = tile_at(c, first), scout = tile_at(c, first + AHEAD);
        for (int t = 0; t < n; t++, from += n_vec * VEC, next_tile(c, &at), next_tile(c, &scout)) {
            float *to = dst + (at.n * n_planes + plane) * plane_count;
            fetch_tile(dst + (scout.n * n_planes + plane) * plane_count, c->oh, c->ow, &scout, count, true);
            if (at.y + count <= c->oh && at.x + count <= c->ow)
                write_tile(c, from, &at, to, add, relu, count, false);
            else
                write_tile(c, from, &at, to, add, relu, count, true);
        }
    }
}

CODE void write_dst(const struct wino_conv *c, const float *m, size_t block, int first, int n, const float *bias,
                    bool relu, float *dst)
{
    if (c->kernel == 3)
        write_dst_of(c, m, block, first, n, bias, relu, dst, 4);
    else
        write_dst_of(c, m, block, first, n, bias, relu, dst, 2);
}

/* --- forward --- */

CODE void forward(const struct wino_conv *c, const float *src, const float *weights, const float *bias, bool relu,
                  float *dst, float *scratch)
{
    float *v = scratch, *m = v + c->n_slices * c->v_count, *u = m + c->z_count;
    for (size_t i = 0; c->keeps_u && i < c->n_blocks * c->n_slices; i++)
        transform_weights(c, weights, i / c->n_slices, i % c->n_slices, u + i * c->u_count);
    for (int first = 0; first < c->n_tiles; first += c->chunk) {
        const int n = c->n_tiles - first < c->chunk ? c->n_tiles - first : c->chunk;
        transform_src(c, src, first, n, v);
        for (size_t block = 0; block < c->n_blocks; block++) {
            for (size_t slice = 0; slice < c->n_slices; slice++) {
                float *part = c->keeps_u ? u + (block * c->n_slices + slice) * c->u_count : u;
                if (!c->keeps_u) transform_weights(c, weights, block, slice, part);
                for (int p = 0; p < WINO_POINTS; p++) {
                    const float *left = v + slice * c->v_count + p * v_stride(c), *right = part + p * u_stride();
                    const float *next[2] = {left + v_stride(c), right + u_stride()};
                    product_over_channels(left, right, n, depth_of(c, slice), m + p * z_stride(c), slice > 0, next,
                                          c->is_large, vectors_of(c, block));
                }
            }
            write_dst(c, m, block, first, n, bias, relu, dst);
        }
    }
}

/* --- diff_dst -> Z, and its sums, which are the gradient of the bias --- */

VEC_TARGET INLINE void transform_diff_tile(const struct wino_conv *c, const float *plane, const struct tile *at,
                                           const int count, const bool is_edge, float *z, float *sum)
{
    V(float) y[WINO_MAX_KERNEL][WINO_MAX_KERNEL], total = V(zero)();
#pragma GCC unroll 4
    for (int i = 0; i < count; i++)
#pragma GCC unroll 4
        for (int j = 0; j < count; j++) {
            const bool is_inside = !is_edge || (at->y + i < c->oh && at->x + j < c->ow);
            const float *from = plane + ((ptrdiff_t)(at->y + i) * c->ow + at->x + j) * VEC;
            y[i][j] = V(load)(is_inside ? from : zeros);
            total = V(add)(total, y[i][j]);
        }
    if (sum) V(store)(sum, V(add)(V(load)(sum), total));
    evaluate_2d((const V(float)(*)[WINO_MAX_KERNEL])y, count, false, z, z_stride(c));
}

VEC_TARGET INLINE void transform_diff_dst_of(const struct wino_conv *c, const float *diff_dst, int first, int n,
                                             float *z, float *diff_bias, const int count)
{
    const int n_planes = c->oc / VEC;
    const ptrdiff_t plane_count = (ptrdiff_t)c->oh * c->ow * VEC;
    for (int plane = 0; plane < n_planes; plane++) {
        const int width = vectors_of(c, (size_t)plane / 2) * VEC;
        float *to = z + (size_t)(plane / 2) * c->z_count + plane % 2 * VEC;
        float *sum = diff_bias ? diff_bias + plane * VEC : NULL;
        struct tile at = tile_at(c, first), scout = tile_at(c, first + AHEAD);
        for (int t = 0; t < n; t++, to += width, next_tile(c, &at), next_tile(c, &scout)) {
            const float *from = diff_dst + ((ptrdiff_t)at.n * n_planes + plane) * plane_count;
            fetch_tile(diff_dst + ((ptrdiff_t)scout.n * n_planes + plane) * plane_count, c->oh, c->ow, &scout, count,
                       false);
            if (at.y + count <= c->oh && at.x + count <= c->ow)
                transform_diff_tile(c, from, &at, count, false, to, sum);
            else
                transform_diff_tile(c, from, &at, count, true, to, sum);
        }
    }
}

CODE void transform_diff_dst(const struct wino_conv *c, const float *diff_dst, int first, int n, float *z,
                             float *diff_bias)
{
    if (c->kernel == 3)
        transform_diff_dst_of(c, diff_dst, first, n, z, diff_bias, 4);
    else
        transform_diff_dst_of(c, diff_dst, first, n, z, diff_bias, 2);
}

/* --- M -> diff_weights --- */

VEC_TARGET INLINE void write_diff_weights_of(const struct wino_conv *c, const float *m, size_t block, size_t slice,
                                             const int kernel, float *diff_weights)
{
    const int taps = kernel * kernel, square = VEC * VEC, n_vec = vectors_of(c, block);
    for (int k = 0; k < depth_of(c, slice); k++)
        for (int i = 0; i < n_vec; i++) {
            const ptrdiff_t ib = ((ptrdiff_t)slice * WINO_DEPTH + k) / VEC, ob = (ptrdiff_t)block * 2 + i;
            float *to = diff_weights + (ob * (c->ic / VEC) + ib) * taps * square + k % VEC * VEC;
            V(float) w[WINO_MAX_KERNEL][WINO_MAX_KERNEL];
            interpolate_2d(m + (k * n_vec + i) * VEC, u_stride(), kernel, true, w);
#pragma GCC unroll 25
            for (int tap = 0; tap < taps; tap++) V(store)(to + tap * square, w[tap / kernel][tap % kernel]);
        }
}

CODE void write_diff_weights(const struct wino_conv *c, const float *m, size_t block, size_t slice, float *diff_weights)
{
    if (c->kernel == 3)
        write_diff_weights_of(c, m, block, slice, 3, diff_weights);
    else
        write_diff_weights_of(c, m, block, slice, 5, diff_weights);
}

/* --- backward by weights --- */

CODE void backward_weights(const struct wino_conv *c, const float *src, const float *diff_dst, float *diff_weights,
                           float *diff_bias, float *scratch)
{
    float *v = scratch, *z = v + c->n_slices * c->v_count, *m = z + c->n_blocks * c->z_count;
    const bool is_one = c->chunk >= c->n_tiles;
    for (int i = 0; diff_bias && i < c->oc; i++) diff_bias[i] = 0;
    for (int first = 0; first < c->n_tiles; first += c->chunk) {
        const int n = c->n_tiles - first < c->chunk ? c->n_tiles - first : c->chunk;
        transform_src(c, src, first, n, v);
        transform_diff_dst(c, diff_dst, first, n, z, diff_bias);
        for (size_t i = 0; i < c->n_blocks * c->n_slices; i++) {
            const size_t block = i % c->n_blocks, slice = i / c->n_blocks;
            float *part = is_one ? m : m + i * c->u_count;
            for (int p = 0; p < WINO_POINTS; p++) {
                const float *right = z + block * c->z_count + p * z_stride(c);
                float *sum = part + p * u_stride();
                const float *next[2] = {right + z_stride(c), sum + u_stride()};
                product_over_tiles(v + slice * c->v_count + p * v_stride(c), right, n, depth_of(c, slice), sum,
                                   first > 0, next, c->is_large, vectors_of(c, block));
            }
            if (first + n == c->n_tiles) write_diff_weights(c, part, block, slice, diff_weights);
        }
    }
}

const struct wino_code WINO_CODE = {VEC, forward, backward_weights};
