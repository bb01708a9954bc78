/* lanes_conv.h: the convolutions of lanes.h, for the vectors of the including file.
 *
 * Work goes by runs of output rows that lie without a gap in source and result: one row, or, where rows are not whole
 * vectors and the image keeps its size, as many rows as make at most FLAT_VECTORS vectors. Which lanes of a vector lie
 * inside the source row at a tap is a table, made once. For runs of several rows the
 * source is copied between rows of zeros, so that every row of the kernel has a source row.
 */
#include <math.h>
#include <string.h>

enum { FLAT_VECTORS = 56, BLOCK_BYTES = 16384 };

static int min(int a, int b)
{
    return a < b ? a : b;
}

static int max(int a, int b)
{
    return a > b ? a : b;
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* A loaded vector stays in its register; the compiler would rather load it again for each channel. */
#define KEEP(v) __asm__("" : "+v"(v))

/* --- runs --- */

struct runs {
    int rows;      /* of a run; the last may have fewer */
    int n_vectors; /* of a whole run */
    bool is_flat;
    ptrdiff_t src_row, src_plane, dst_row, dst_plane; /* floats */
};

static struct runs runs_of(const struct lanes_conv *c)
{
    struct runs r = {.rows = 1, .src_row = (ptrdiff_t)c->iw * c->n, .dst_row = (ptrdiff_t)c->ow * c->n};
    r.is_flat = c->iw == c->ow && c->ih == c->oh && r.dst_row % VEC != 0;
    while (r.is_flat && r.rows < c->oh && (r.rows + 1) * r.dst_row <= FLAT_VECTORS * VEC) r.rows++;
    r.n_vectors = (int)((r.rows * r.dst_row + VEC - 1) / VEC);
    r.src_plane = r.src_row * (c->ih + (r.is_flat ? c->kh - 1 : 0));
    r.dst_plane = r.dst_row * c->oh;
    return r;
}

/* Which lanes of a vector of the run lie inside the source row at a tap: [kw][n_vectors], which forward reads, then
 * [n_vectors][kw], which backward reads. */
static size_t tables_bytes(const struct lanes_conv *c)
{
    const struct runs r = runs_of(c);
    return 2 * (size_t)r.n_vectors * (size_t)c->kw * sizeof(V(stored_mask));
}

/* Flat runs: the source between rows of zeros, and a vector beyond the end, which is read but not used. */
static size_t padded_bytes(const struct lanes_conv *c, const struct runs *r)
{
    return r->is_flat ? aligned(((size_t)c->ic * (size_t)r->src_plane + VEC + (size_t)(c->kw * c->n)) * sizeof(float))
                      : 0;
}

VEC_TARGET static void make_tables(const struct lanes_conv *c, void *tables)
{
    const struct runs r = runs_of(c);
    V(stored_mask) *by_tap = tables, *by_vector = by_tap + r.n_vectors * c->kw;
    bool lanes[VEC];
    for (int kx = 0; kx < c->kw; kx++)
        for (int v = 0; v < r.n_vectors; v++) {
            for (int l = 0; l < VEC; l++) {
                const ptrdiff_t at = (ptrdiff_t)v * VEC + l, from = at % r.dst_row + (kx - c->pw) * c->n;
                lanes[l] = (r.is_flat || at < r.dst_row) && from >= 0 && from < r.src_row;
            }
            by_tap[kx * r.n_vectors + v] = by_vector[v * c->kw + kx] = V(mask_pack)(lanes);
        }
}

/* The origin of output row 0 in the source: kernel row ky of output row y reads row y + ky from there. */
static const float *source_origin(const struct lanes_conv *c, const struct runs *r, const float *src, float *padded)
{
    const size_t image = (size_t)(c->ih * r->src_row), plane = (size_t)r->src_plane,
                 above = (size_t)(c->ph * r->src_row);
    if (!r->is_flat) return src - above;
    for (int ic = 0; ic < c->ic; ic++, padded += plane) {
        memset(padded, 0, above * sizeof *padded);
        memcpy(padded + above, src + (size_t)ic * image, image * sizeof *padded);
        memset(padded + above + image, 0, (plane - above - image) * sizeof *padded);
    }
    memset(padded, 0, (VEC + (size_t)(c->kw * c->n)) * sizeof *padded);
    return padded - (size_t)c->ic * plane;
}

/* Rows of the kernel that have a source row, for a run beginning at output row y. */
struct span {
    int begin, end;
};

static struct span kernel_rows(const struct lanes_conv *c, const struct runs *r, int y)
{
    if (r->is_flat) return (struct span){0, c->kh};
    return (struct span){max(0, c->ph - y), min(c->kh, c->ih + c->ph - y)};
}

/* Vectors of a run of which every lane has all its taps inside the source row, and lies inside the run. */
static struct span inner_vectors(const struct lanes_conv *c, const struct runs *r)
{
    if (r->is_flat) return (struct span){0, 0};
    const ptrdiff_t most = min((int)r->dst_row, (int)r->src_row - (c->kw - 1 - c->pw) * c->n);
    const int begin = (c->pw * c->n + VEC - 1) / VEC, end = (int)(most / VEC);
    return (struct span){begin, max(begin, end)};
}

/* --- forward --- */

/* In half cycles per tap, as measured: the products, a load for each vector, and what a tap costs; few sums at once
 * wait for each other. */
static int block_cost(int n_oc, int n_v)
{
    return 2 * n_oc * n_v + n_v + (n_v == 1 ? 12 : 4);
}

/* How a run is cut: blocks of n_v vectors; the rest one by one, or in a block moved back to end with the run. */
static bool rest_is_single(int n_vectors, int n_oc)
{
    const int n_v = VECTORS_WITH(n_oc);
    return n_vectors < n_v || n_vectors % n_v * block_cost(n_oc, 1) < block_cost(n_oc, n_v);
}

static int run_cost(int n_vectors, int n_oc)
{
    const int n_v = VECTORS_WITH(n_oc), rest = n_vectors % n_v;
    const int for_rest = rest_is_single(n_vectors, n_oc) ? rest * block_cost(n_oc, 1) : block_cost(n_oc, n_v);
    return n_vectors / n_v * block_cost(n_oc, n_v) + (rest ? for_rest : 0);
}

/* Output channels computed at once: the number that takes the least. */
static int channels_at_once(const struct lanes_conv *c, const struct runs *r)
{
    int best = 1, best_cost = INT32_MAX;
    for (int n_oc = min(MAX_OC, c->oc); n_oc >= min(3, c->oc); n_oc--) {
        int cost = c->oc / n_oc * run_cost(r->n_vectors, n_oc);
        if (c->oc % n_oc) cost += run_cost(r->n_vectors, c->oc % n_oc);
        if (cost >= best_cost) continue;
        best = n_oc;
        best_cost = cost;
    }
    return best;
}

/* [blocks of step channels][ic][kh][kw][channels of the block] */
static void pack(const struct lanes_conv *c, const float *weights, bool is_turned, int step, float *packed)
{
    const int taps = c->kh * c->kw;
    for (int o = 0; o < c->oc; o++) {
        const int first = o / step * step, n_oc = min(step, c->oc - first);
        float *to = packed + (ptrdiff_t)first * c->ic * taps + (o - first);
        for (int i = 0; i < c->ic; i++) {
            const float *w = weights + (ptrdiff_t)(is_turned ? i * c->oc + o : o * c->ic + i) * taps;
            for (int t = 0; t < taps; t++, to += n_oc) *to = w[is_turned ? taps - 1 - t : t];
        }
    }
}

/* Some channels of one run. */
struct forward_job {
    const struct lanes_conv *c;
    const struct runs *r;
    const float *src, *w, *bias; /* src: origin of the run's first row */
    const V(stored_mask) * masks;
    float *dst;
    ptrdiff_t len;     /* of the run, floats */
    struct span inner; /* vectors that need no masks */
    struct span ky;
    bool relu;
};

/* Which lanes lie outside the source row at some tap, to read zeros: none; those of the ends of a row, where whole
 * vectors may lie outside and are left out; or any. */
enum edge { NO_EDGE, ROW_EDGE, FLAT_EDGE };

/* n_oc channels of n_v vectors from float `at` of the run on. Called with constants for n_oc, n_v and edge, so that acc
 * is registers. */
VEC_TARGET INLINE void forward_block(const struct forward_job *j, ptrdiff_t at, const int n_oc, const int n_v,
                                     const enum edge edge)
{
    V(float) acc[MAX_OC][MAX_V];
    const int kw = j->c->kw, n = j->c->n;
#pragma GCC unroll 8
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 7
        for (int i = 0; i < n_v; i++) acc[o][i] = j->bias ? V(all)(j->bias[o]) : V(zero)();
    for (int ic = 0; ic < j->c->ic; ic++)
        for (int ky = j->ky.begin; ky < j->ky.end; ky++) {
            const float *row = j->src + ic * j->r->src_plane + ky * j->r->src_row + at - j->c->pw * n;
            const float *taps = j->w + (ic * j->c->kh + ky) * kw * n_oc;
            const V(stored_mask) *masks = j->masks + at / VEC;
            for (int kx = 0; kx < kw; kx++, taps += n_oc, row += n, masks += j->r->n_vectors) {
                if (edge == ROW_EDGE) { /* vector by vector */
#pragma GCC unroll 7
                    for (int i = 0; i < n_v; i++) {
                        if (V(mask_is_empty)(masks + i)) continue;
                        const V(float) v = V(load_in)(V(mask_of)(masks + i), row + i * VEC);
#pragma GCC unroll 8
                        for (int o = 0; o < n_oc; o++) acc[o][i] = V(fma)(V(all)(taps[o]), v, acc[o][i]);
                    }
                    continue;
                }
                V(float) v[MAX_V];
#pragma GCC unroll 7
                for (int i = 0; i < n_v; i++) {
                    v[i] = edge == NO_EDGE ? V(load)(row + i * VEC) : V(load_in)(V(mask_of)(masks + i), row + i * VEC);
                    KEEP(v[i]);
                }
#pragma GCC unroll 8
                for (int o = 0; o < n_oc; o++) {
                    const V(float) weight = V(all)(taps[o]);
#pragma GCC unroll 7
                    for (int i = 0; i < n_v; i++) acc[o][i] = V(fma)(weight, v[i], acc[o][i]);
                }
            }
        }
#pragma GCC unroll 8
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 7
        for (int i = 0; i < n_v; i++) {
            float *to = j->dst + o * j->r->dst_plane + at + i * VEC;
            const V(float) result = j->relu ? V(relu)(acc[o][i]) : acc[o][i];
            if (edge != NO_EDGE)
                V(store_in)(to, V(inside)(at + i * VEC, j->len), result);
            else
                V(store)(to, result);
        }
}

VEC_TARGET INLINE void forward_vectors(const struct forward_job *j, int first, const int n_oc, const int n_v)
{
    const ptrdiff_t at = (ptrdiff_t)first * VEC;
    if (j->r->is_flat)
        forward_block(j, at, n_oc, n_v, FLAT_EDGE);
    else if (j->inner.begin <= first && first + n_v <= j->inner.end)
        forward_block(j, at, n_oc, n_v, NO_EDGE);
    else
        forward_block(j, at, n_oc, n_v, ROW_EDGE);
}

/* What a block moved back computes again comes out the same. */
VEC_TARGET INLINE void forward_run(const struct forward_job *j, const int n_oc)
{
    const int n_v = VECTORS_WITH(n_oc), n_vectors = (int)((j->len + VEC - 1) / VEC);
    const bool is_single = rest_is_single(n_vectors, n_oc);
    int v = 0;
    for (; v + n_v <= n_vectors; v += n_v) forward_vectors(j, v, n_oc, n_v);
    if (v < n_vectors && !is_single) forward_vectors(j, n_vectors - n_v, n_oc, n_v);
    for (; v < n_vectors && is_single; v++) forward_vectors(j, v, n_oc, 1);
}

#define RUN_CASE(n_oc)                                                                                                 \
    case n_oc:                                                                                                         \
        if (n_oc <= MAX_OC) forward_run(j, n_oc <= MAX_OC ? n_oc : 1);                                                 \
        break;

VEC_TARGET static void forward_channels(const struct forward_job *j, int n_oc)
{
    switch (n_oc) {
        RUN_CASE(1)
        RUN_CASE(2)
        RUN_CASE(3)
        RUN_CASE(4)
        RUN_CASE(5)
        RUN_CASE(6)
        RUN_CASE(7)
        RUN_CASE(8)
    }
}

static size_t packed_bytes(const struct lanes_conv *c)
{
    return aligned((size_t)(c->oc * c->ic) * (size_t)(c->kh * c->kw) * sizeof(float));
}

static size_t forward_scratch(const struct lanes_conv *c)
{
    const struct runs r = runs_of(c);
    return packed_bytes(c) + padded_bytes(c, &r);
}

static void forward(const struct lanes_conv *c, const void *tables, const float *src, const float *weights,
                    bool is_turned, const float *bias, bool relu, float *dst, void *scratch)
{
    const struct runs r = runs_of(c);
    const int step = channels_at_once(c, &r);
    float *packed = scratch;
    const float *origin = source_origin(c, &r, src, (float *)((char *)scratch + packed_bytes(c)));
    pack(c, weights, is_turned, step, packed);
    for (int first = 0; first < c->oc; first += step)
        for (int y = 0; y < c->oh; y += r.rows) {
            const struct forward_job j = {.c = c,
                                          .r = &r,
                                          .src = origin + y * r.src_row,
                                          .w = packed + (ptrdiff_t)first * c->ic * c->kh * c->kw,
                                          .bias = bias ? bias + first : NULL,
                                          .masks = tables,
                                          .dst = dst + first * r.dst_plane + y * r.dst_row,
                                          .len = min(r.rows, c->oh - y) * r.dst_row,
                                          .inner = inner_vectors(c, &r),
                                          .ky = kernel_rows(c, &r, y),
                                          .relu = relu};
            forward_channels(&j, min(step, c->oc - first));
        }
}

/* --- backward by weights --- */

/* Channels at once, as even as they can be. */
static int weights_channels(const struct lanes_conv *c)
{
    const int most = c->kw == 3 ? WEIGHTS_OC_3 : WEIGHTS_OC_5, n_blocks = (c->oc + most - 1) / most;
    return (c->oc + n_blocks - 1) / n_blocks;
}

/* Some channels and one input channel. The sums [n_oc][kh][kw][VEC] stay in registers over the rows of a block, which
 * are so few that all kernel rows find them in the first cache. */
struct weights_job {
    const struct lanes_conv *c;
    const struct runs *r;
    const float *src, *diff_dst;  /* src: origin of output row 0 */
    const V(stored_mask) * masks; /* [n_vectors][kw] */
    struct span inner;            /* vectors that need none */
    float *acc;
};

/* One source row and some channels of diff_dst, which lie j->r->dst_plane apart. */
struct weights_row {
    const float *src, *diff_dst;
    ptrdiff_t len; /* of the run */
};

/* The vectors [begin, end) of a run. is_edge: not all lanes lie inside the source row at all taps; is_last: nor inside
 * the run. */
VEC_TARGET INLINE void weights_vectors(const struct weights_job *j, const struct weights_row *w, int begin, int end,
                                       V(float) acc[WEIGHTS_OC_3][5], const int n_oc, const int kw, const bool is_edge,
                                       const bool is_last)
{
    const V(stored_mask) *masks = j->masks + begin * kw;
    const float *src = w->src + begin * VEC, *diff_dst = w->diff_dst + begin * VEC;
    const ptrdiff_t plane = j->r->dst_plane, n = j->c->n;
    for (int v = begin; v < end; v++, masks += kw, src += VEC, diff_dst += VEC) {
        V(float) g[WEIGHTS_OC_3];
#pragma GCC unroll 6
        for (int o = 0; o < n_oc; o++) {
            g[o] = is_last ? V(load_in)(V(inside)((ptrdiff_t)v * VEC, w->len), diff_dst + o * plane)
                           : V(load)(diff_dst + o * plane);
            KEEP(g[o]);
        }
#pragma GCC unroll 5
        for (int k = 0; k < kw; k++) {
            V(float) s = is_edge ? V(load_in)(V(mask_of)(masks + k), src + k * n) : V(load)(src + k * n);
            KEEP(s);
#pragma GCC unroll 6
            for (int o = 0; o < n_oc; o++) acc[o][k] = V(fma)(g[o], s, acc[o][k]);
        }
    }
}

VEC_TARGET INLINE void weights_run(const struct weights_job *j, const struct weights_row *w,
                                   V(float) acc[WEIGHTS_OC_3][5], const int n_oc, const int kw)
{
    const int whole = (int)(w->len / VEC), begin = min(j->inner.begin, whole), end = min(j->inner.end, whole);
    weights_vectors(j, w, 0, begin, acc, n_oc, kw, true, false);
    weights_vectors(j, w, begin, end, acc, n_oc, kw, false, false);
    weights_vectors(j, w, end, whole, acc, n_oc, kw, true, false);
    if (w->len % VEC) weights_vectors(j, w, whole, whole + 1, acc, n_oc, kw, true, true);
}

/* Kernel row ky over the output rows [rows.begin, rows.end), from zero where they are the first. */
VEC_TARGET INLINE void weights_rows(const struct weights_job *j, struct span rows, int ky, const int n_oc, const int kw)
{
    const struct lanes_conv *c = j->c;
    V(float) acc[WEIGHTS_OC_3][5];
    float *saved = j->acc + (ptrdiff_t)ky * kw * VEC;
    const ptrdiff_t per_oc = (ptrdiff_t)c->kh * kw * VEC;
#pragma GCC unroll 6
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 5
        for (int k = 0; k < kw; k++) acc[o][k] = rows.begin == 0 ? V(zero)() : V(load)(saved + o * per_oc + k * VEC);
    if (!j->r->is_flat) { /* those that have a source row */
        rows.begin = max(rows.begin, c->ph - ky);
        rows.end = min(rows.end, c->ih + c->ph - ky);
    }
    struct weights_row w = {j->src + (rows.begin + ky) * j->r->src_row - c->pw * c->n,
                            j->diff_dst + rows.begin * j->r->dst_row, j->r->rows * j->r->dst_row};
    for (int y = rows.begin; y < rows.end; y += j->r->rows) {
        if (y + j->r->rows > c->oh) w.len = (c->oh - y) * j->r->dst_row;
        weights_run(j, &w, acc, n_oc, kw);
        w.src += j->r->rows * j->r->src_row;
        w.diff_dst += w.len;
    }
#pragma GCC unroll 6
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 5
        for (int k = 0; k < kw; k++) V(store)(saved + o * per_oc + k * VEC, acc[o][k]);
}

#define ROWS_CASE(n_oc, kw)                                                                                            \
    case (n_oc)*8 + (kw):                                                                                              \
        if ((n_oc) <= WEIGHTS_OC_##kw) weights_rows(j, rows, ky, (n_oc) <= WEIGHTS_OC_##kw ? (n_oc) : 1, kw);          \
        break;

VEC_TARGET static void weights_kernel_row(const struct weights_job *j, struct span rows, int ky, int n_oc)
{
    switch (n_oc * 8 + j->c->kw) {
        ROWS_CASE(1, 3)
        ROWS_CASE(2, 3)
        ROWS_CASE(3, 3)
        ROWS_CASE(4, 3)
        ROWS_CASE(5, 3)
        ROWS_CASE(6, 3)
        ROWS_CASE(1, 5)
        ROWS_CASE(2, 5)
        ROWS_CASE(3, 5)
        ROWS_CASE(4, 5)
    }
}

/* Sums for n_oc channels, filled up to whole groups of VEC. */
static size_t acc_bytes(const struct lanes_conv *c)
{
    const size_t n = (size_t)weights_channels(c) * (size_t)(c->kh * c->kw);
    return aligned((n + VEC - 1) / VEC * VEC * VEC * sizeof(float));
}

static void weights_of(const struct weights_job *j, int n_oc)
{
    const struct lanes_conv *c = j->c;
    const ptrdiff_t row_bytes = (n_oc * j->r->dst_row + j->r->src_row) * (ptrdiff_t)sizeof(float);
    const int step = max(1, (int)(BLOCK_BYTES / (row_bytes * j->r->rows))) * j->r->rows;
    for (int y = 0; y < c->oh; y += step)
        for (int ky = 0; ky < c->kh; ky++) weights_kernel_row(j, (struct span){y, min(y + step, c->oh)}, ky, n_oc);
}

/* The sums of the lanes, to diff_weights [n_oc, ic, taps] at one ic. A group's sums go where the first group lay, which
 * has been read by then. */
VEC_TARGET static void finish_weights(const struct lanes_conv *c, float *acc, int n_oc, float *diff_weights)
{
    const int taps = c->kh * c->kw, n = n_oc * taps;
    for (int first = 0; first < n; first += VEC) V(store)(acc + first, V(sums)(acc + (ptrdiff_t)first * VEC));
    for (int o = 0; o < n_oc; o++)
        memcpy(diff_weights + (ptrdiff_t)o * c->ic * taps, acc + (ptrdiff_t)o * taps, (size_t)taps * sizeof *acc);
}

/* In four partial sums per lane. */
VEC_TARGET static float sum_plane(const float *plane, ptrdiff_t count)
{
    enum { CHAINS = 4 };
    float rows[VEC * VEC] = {0}, out[VEC];
    V(float) sums[CHAINS] = {V(zero)(), V(zero)(), V(zero)(), V(zero)()};
    ptrdiff_t i = 0;
    for (; i + CHAINS * VEC <= count; i += CHAINS * VEC)
#pragma GCC unroll 4
        for (int k = 0; k < CHAINS; k++) sums[k] = V(add)(sums[k], V(load)(plane + i + k * VEC));
    for (int k = 0; i < count; i += VEC, k++) sums[k] = V(add)(sums[k], V(load_in)(V(inside)(i, count), plane + i));
    V(store)(rows, V(add)(V(add)(sums[0], sums[1]), V(add)(sums[2], sums[3])));
    V(store)(out, V(sums)(rows));
    return out[0];
}

static size_t backward_weights_scratch(const struct lanes_conv *c)
{
    const struct runs r = runs_of(c);
    return acc_bytes(c) + padded_bytes(c, &r);
}

static void backward_weights(const struct lanes_conv *c, const void *tables, const float *src, const float *diff_dst,
                             float *diff_weights, float *diff_bias, void *scratch)
{
    const struct runs r = runs_of(c);
    const int step = weights_channels(c), taps = c->kh * c->kw;
    const float *origin = source_origin(c, &r, src, (float *)((char *)scratch + acc_bytes(c)));
    for (int first = 0; first < c->oc; first += step) {
        const int n_oc = min(step, c->oc - first);
        for (int ic = 0; ic < c->ic; ic++) {
            const struct weights_job j = {.c = c,
                                          .r = &r,
                                          .src = origin + ic * r.src_plane,
                                          .diff_dst = diff_dst + first * r.dst_plane,
                                          .masks = (const V(stored_mask) *)tables + r.n_vectors * c->kw,
                                          .inner = inner_vectors(c, &r),
                                          .acc = scratch};
            weights_of(&j, n_oc);
            finish_weights(c, scratch, n_oc, diff_weights + (ptrdiff_t)(first * c->ic + ic) * taps);
        }
        for (int o = first; o < first + n_oc && diff_bias; o++)
            diff_bias[o] = sum_plane(diff_dst + o * r.dst_plane, r.dst_plane);
    }
}
