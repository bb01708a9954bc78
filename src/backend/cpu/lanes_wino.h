/* lanes_wino.h: Winograd's short convolutions for kernels 5 wide, along the rows, after lanes_conv.h and lanes_pool.h.
 *
 * F(4,5): eight products give four neighbouring outputs, where the plain sum takes twenty. A tile is eight pixels d of
 * a row, four further on than the tile before; with B, G, A for the points 0, 1, -1, 2, -2, 1/2, -1/2 and infinity
 *
 *     y = A' [(G g) * (B' d)]        B' d: `spread`, G g: `weights_at_points`, A' m: `gather`
 *
 * Between `spread` and `gather` the eight points have nothing to do with each other: each is a convolution of kh rows
 * and one column over an image of tiles, in the layout [c][h][tiles][n], done by the kernels of lanes_conv.h in long
 * runs without any mask. The kernel's rows stay plain sums, so rounding grows along one side of the window only.
 */

enum { POINTS = 8, TAPS = 5, OUTPUTS = 4, CHUNK_BYTES = 600 << 10 };

/* Rows are handled some at a time, so that all six points of them stay in the second cache. */
struct wino {
    int tiles, rows;               /* rows of outputs in a chunk; the last may have fewer */
    ptrdiff_t row;                 /* floats of a row of tiles */
    ptrdiff_t in_plane, out_plane; /* of a chunk: one channel at one point */
    ptrdiff_t in_point, out_point; /* all channels at one point */
    int n_oc;                      /* channels of outputs at once */
};

VEC_TARGET static bool wino_has_layout(const struct lanes_conv *c)
{
    return c->kw == TAPS && (c->n % VEC == 0 || V(pairs_are_supported)(c->n));
}

static struct wino wino_of(const struct lanes_conv *c, int n_oc, ptrdiff_t chunk_bytes)
{
    struct wino w = {.tiles = (c->ow + OUTPUTS - 1) / OUTPUTS, .n_oc = n_oc};
    w.row = (ptrdiff_t)w.tiles * c->n;
    const ptrdiff_t per_row = POINTS * (c->ic + n_oc) * w.row * (ptrdiff_t)sizeof(float);
    const int most = max(1, (int)(chunk_bytes / per_row) - (c->kh - 1) / 2), n_chunks = (c->oh + most - 1) / most;
    w.rows = (c->oh + n_chunks - 1) / n_chunks;
    w.in_plane = w.row * (w.rows + c->kh - 1);
    w.out_plane = (w.row * w.rows + VEC - 1) / VEC * VEC;
    w.in_point = w.in_plane * c->ic;
    w.out_point = w.out_plane * n_oc;
    return w;
}

/* The pixels of a row by their place in a tile, each a row that a vector may be read from beyond its end. */
static ptrdiff_t phase_floats(const struct lanes_conv *c, const struct wino *w)
{
    return w->row + c->n + 2 * VEC;
}

VEC_TARGET INLINE V(float) scale_add(float factor, V(float) a, V(float) b)
{
    return V(fma)(V(all)(factor), a, b);
}

VEC_TARGET INLINE V(float) difference(V(float) a, V(float) b)
{
    return scale_add(-1, b, a);
}

/* B' d. */
VEC_TARGET INLINE void points_of(const V(float) d[POINTS], V(float) t[POINTS])
{
    t[0] = scale_add(5.25f, difference(d[4], d[2]), difference(d[0], d[6]));
    t[7] = scale_add(5.25f, difference(d[3], d[5]), difference(d[7], d[1]));
    V(float) even = scale_add(-4.25f, d[4], V(add)(d[2], d[6])), odd = scale_add(-4.25f, d[3], V(add)(d[1], d[5]));
    t[1] = V(add)(even, odd);
    t[2] = difference(even, odd);
    even = scale_add(0.25f, d[2], scale_add(-1.25f, d[4], d[6]));
    odd = scale_add(-2.5f, d[3], scale_add(2, d[5], scale_add(0.5f, d[1], V(zero)())));
    t[3] = V(add)(even, odd);
    t[4] = difference(even, odd);
    even = scale_add(4, d[2], scale_add(-5, d[4], d[6]));
    odd = scale_add(-2.5f, d[3], scale_add(2, d[1], scale_add(0.5f, d[5], V(zero)())));
    t[5] = V(add)(even, odd);
    t[6] = difference(even, odd);
}

/* A row of pixels that fill vectors, to eight rows `point` floats apart. */
VEC_TARGET INLINE void spread_row_whole(const struct lanes_conv *c, const struct wino *w, const float *row, float *to)
{
    const ptrdiff_t n = c->n, point = w->in_point;
    for (int tile = 0; tile < w->tiles; tile++) {
        const int x = OUTPUTS * tile - c->pw;
        const bool is_inner = x >= 0 && x + POINTS <= c->iw;
        for (ptrdiff_t l = 0; l < n; l += VEC) {
            V(float) d[POINTS], t[POINTS];
#pragma GCC unroll 8
            for (int k = 0; k < POINTS; k++)
                d[k] = is_inner || (x + k >= 0 && x + k < c->iw) ? V(load)(row + (x + k) * n + l) : V(zero)();
            points_of(d, t);
#pragma GCC unroll 8
            for (int k = 0; k < POINTS; k++) V(store)(to + k * point + tile * n + l, t[k]);
        }
    }
}

/* The pixels of a row of w pixels, which begins `pad` pixels before the first, by their place in a tile: every fourth
 * to a row of its own. Zero outside. */
VEC_TARGET INLINE void split_row(const struct V(pairs) * pairs, int n, const float *row, int w, int pad, ptrdiff_t len,
                                 float *to, ptrdiff_t phase)
{
    const ptrdiff_t row_len = (ptrdiff_t)w * n;
    for (ptrdiff_t at = 0; at < len; at += VEC) {
        V(float) v[OUTPUTS], even[2], odd[2];
#pragma GCC unroll 4
        for (int i = 0; i < OUTPUTS; i++) {
            const ptrdiff_t from = OUTPUTS * at + i * VEC - (ptrdiff_t)pad * n;
            v[i] = V(load_in)(V(inside)(from, row_len), row + from);
        }
        V(pairs_split)(pairs, v[0], v[1], &even[0], &odd[0]);
        V(pairs_split)(pairs, v[2], v[3], &even[1], &odd[1]);
        V(pairs_split)(pairs, even[0], even[1], &v[0], &v[2]);
        V(pairs_split)(pairs, odd[0], odd[1], &v[1], &v[3]);
#pragma GCC unroll 4
        for (int i = 0; i < OUTPUTS; i++) V(store)(to + i * phase + at, v[i]);
    }
}

/* A row of pixels of which a vector holds several. */
VEC_TARGET INLINE void spread_row_parts(const float *phases, ptrdiff_t phase, int n, ptrdiff_t len, float *to,
                                        ptrdiff_t point)
{
    for (ptrdiff_t at = 0; at < len; at += VEC) {
        V(float) d[POINTS], t[POINTS];
#pragma GCC unroll 8
        for (int k = 0; k < POINTS; k++) d[k] = V(load)(phases + k % OUTPUTS * phase + at + k / OUTPUTS * n);
        points_of(d, t);
        if (at + VEC <= len) {
#pragma GCC unroll 8
            for (int k = 0; k < POINTS; k++) V(store)(to + k * point + at, t[k]);
            continue;
        }
        const V(mask) in = V(inside)(at, len);
#pragma GCC unroll 8
        for (int k = 0; k < POINTS; k++) V(store_in)(to + k * point + at, in, t[k]);
    }
}

/* The source rows that output rows [y, y + n_rows) need, at all points: [POINTS][ic][rows][tiles][n] */
VEC_TARGET static void spread(const struct lanes_conv *c, const struct wino *w, const float *src, int y, int n_rows,
                              float *phases, float *to)
{
    struct V(pairs) pairs = {0};
    const ptrdiff_t phase = phase_floats(c, w);
    if (c->n % VEC) pairs = V(pairs_of)(c->n);
    for (int ic = 0; ic < c->ic; ic++)
        for (int r = 0; r < n_rows + c->kh - 1; r++) {
            const int from = y + r - c->ph;
            float *row = to + ic * w->in_plane + r * w->row;
            if (from < 0 || from >= c->ih) {
                for (int k = 0; k < POINTS; k++) memset(row + k * w->in_point, 0, (size_t)w->row * sizeof *row);
                continue;
            }
            const float *pixels = src + ((ptrdiff_t)ic * c->ih + from) * c->iw * c->n;
            if (c->n % VEC == 0) {
                spread_row_whole(c, w, pixels, row);
                continue;
            }
            split_row(&pairs, c->n, pixels, c->iw, c->pw, w->row + c->n, phases, phase);
            spread_row_parts(phases, phase, c->n, w->row, row, w->in_point);
        }
}

/* G g of all weights: [POINTS][blocks of step channels][ic][kh][channels of the block] */
static void weights_at_points(const struct lanes_conv *c, const float *weights, bool is_turned, int step, float *to)
{
    const int rows = c->ic * c->kh;
    const ptrdiff_t point = (ptrdiff_t)c->oc * rows;
    for (int o = 0; o < c->oc; o++) {
        const int first = o / step * step, n_oc = min(step, c->oc - first);
        float *p = to + (ptrdiff_t)first * rows + (o - first);
        for (int r = 0; r < rows; r++, p += n_oc) {
            const int ic = r / c->kh, ky = r % c->kh;
            const float *g = is_turned ? weights + ((ptrdiff_t)(ic * c->oc + o) * c->kh + c->kh - 1 - ky) * TAPS
                                       : weights + ((ptrdiff_t)o * rows + r) * TAPS;
            const float g0 = is_turned ? g[4] : g[0], g1 = is_turned ? g[3] : g[1], g2 = g[2],
                        g3 = is_turned ? g[1] : g[3], g4 = is_turned ? g[0] : g[4];
            const float even1 = g0 + g2 + g4, odd1 = g1 + g3, even2 = g0 + 4 * g2 + 16 * g4, odd2 = 2 * g1 + 8 * g3;
            const float even3 = g0 + 0.25f * g2 + 0.0625f * g4, odd3 = 0.5f * g1 + 0.125f * g3;
            p[0] = g0;
            p[point] = (even1 + odd1) * (-2.0f / 9);
            p[2 * point] = (even1 - odd1) * (-2.0f / 9);
            p[3 * point] = (even2 + odd2) * (1.0f / 90);
            p[4 * point] = (even2 - odd2) * (1.0f / 90);
            p[5 * point] = (even3 + odd3) * (32.0f / 45);
            p[6 * point] = (even3 - odd3) * (32.0f / 45);
            p[7 * point] = g4;
        }
    }
}

/* A' m, with bias and relu. */
VEC_TARGET INLINE void outputs_of(const float *m, ptrdiff_t point, float bias, bool relu, V(float) y[OUTPUTS])
{
    V(float) t[POINTS];
#pragma GCC unroll 8
    for (int k = 0; k < POINTS; k++) t[k] = V(load)(m + k * point);
    const V(float) sum1 = V(add)(t[1], t[2]), sum2 = V(add)(t[3], t[4]), sum3 = V(add)(t[5], t[6]);
    const V(float) diff1 = difference(t[1], t[2]), diff2 = difference(t[3], t[4]), diff3 = difference(t[5], t[6]);
    const V(float) b = V(all)(bias);
    y[0] = V(add)(V(add)(V(add)(t[0], b), sum1), V(add)(sum2, sum3));
    y[1] = scale_add(2, diff2, scale_add(0.5f, diff3, V(add)(diff1, b)));
    y[2] = scale_add(4, sum2, scale_add(0.25f, sum3, V(add)(sum1, b)));
    y[3] = scale_add(8, diff2, scale_add(0.125f, diff3, V(add)(V(add)(diff1, t[7]), b)));
#pragma GCC unroll 4
    for (int i = 0; relu && i < OUTPUTS; i++) y[i] = V(relu)(y[i]);
}

VEC_TARGET INLINE void gather_row_whole(const struct lanes_conv *c, const struct wino *w, const float *m, float bias,
                                        bool relu, float *dst)
{
    const ptrdiff_t n = c->n;
    for (int tile = 0; tile < w->tiles; tile++)
        for (ptrdiff_t l = 0; l < n; l += VEC) {
            V(float) y[OUTPUTS];
            outputs_of(m + tile * n + l, w->out_point, bias, relu, y);
#pragma GCC unroll 4
            for (int i = 0; i < OUTPUTS; i++)
                if (OUTPUTS * tile + i < c->ow) V(store)(dst + (OUTPUTS * tile + i) * n + l, y[i]);
        }
}

VEC_TARGET INLINE void gather_row_parts(const struct lanes_conv *c, const struct wino *w, const struct V(pairs) * pairs,
                                        const float *m, float bias, bool relu, float *dst)
{
    const ptrdiff_t len = (ptrdiff_t)c->ow * c->n;
    for (ptrdiff_t at = 0; at < w->row; at += VEC) {
        V(float) y[OUTPUTS], even[2], odd[2];
        outputs_of(m + at, w->out_point, bias, relu, y);
        V(pairs_join)(pairs, y[0], y[2], &even[0], &even[1]);
        V(pairs_join)(pairs, y[1], y[3], &odd[0], &odd[1]);
        V(pairs_join)(pairs, even[0], odd[0], &y[0], &y[1]);
        V(pairs_join)(pairs, even[1], odd[1], &y[2], &y[3]);
#pragma GCC unroll 4
        for (int i = 0; i < OUTPUTS; i++) {
            const ptrdiff_t to = OUTPUTS * at + i * VEC;
            if (to + VEC <= len)
                V(store)(dst + to, y[i]);
            else
                V(store_in)(dst + to, V(inside)(to, len), y[i]);
        }
    }
}

VEC_TARGET static void gather(const struct lanes_conv *c, const struct wino *w, const float *m, int n_oc, int n_rows,
                              const float *bias, bool relu, float *dst)
{
    struct V(pairs) pairs = {0};
    const ptrdiff_t dst_row = (ptrdiff_t)c->ow * c->n;
    if (c->n % VEC) pairs = V(pairs_of)(c->n);
    for (int o = 0; o < n_oc; o++)
        for (int r = 0; r < n_rows; r++) {
            const float *from = m + o * w->out_plane + r * w->row;
            float *to = dst + ((ptrdiff_t)o * c->oh + r) * dst_row;
            if (c->n % VEC == 0)
                gather_row_whole(c, w, from, bias ? bias[o] : 0, relu, to);
            else
                gather_row_parts(c, w, &pairs, from, bias ? bias[o] : 0, relu, to);
        }
}

/* --- forward --- */

/* Rows that may be handled one by one: whole vectors, and enough of them. */
static bool wino_rows_are_long(ptrdiff_t row)
{
    return row % VEC == 0 && row >= 4 * VEC;
}

/* Taps that find a source, over all places of a row or a column of outputs. */
static int64_t taps_inside(int out, int in, int kernel, int pad)
{
    int64_t n = 0;
    for (int x = 0; x < out; x++) n += max(0, min(kernel, in + pad - x) - max(0, pad - x));
    return n;
}

/* Multiplications, and what the transforms were measured to cost in such. The plain sum leaves out what lies outside
 * the image, by rows, and by columns where a pixel fills vectors. */
static bool wino_is_better(const struct lanes_conv *c)
{
    if (!wino_has_layout(c)) return false;
    const int64_t columns = c->n % VEC == 0 ? taps_inside(c->ow, c->iw, c->kw, c->pw) : (int64_t)c->ow * c->kw;
    const int64_t plain = taps_inside(c->oh, c->ih, c->kh, c->ph) * columns * c->ic * c->oc;
    const int64_t tiles = (c->ow + OUTPUTS - 1) / OUTPUTS;
    const int64_t rows =
        wino_rows_are_long(tiles * c->n) ? taps_inside(c->oh, c->ih, c->kh, c->ph) : (int64_t)c->oh * c->kh;
    return tiles * (rows * POINTS * c->ic * c->oc + c->ih * 80 * c->ic + c->oh * 40 * c->oc) < plain * 19 / 20;
}

/* A point's convolution as lanes_conv.h sees it. */
static struct runs wino_runs(const struct wino *w, int n_rows)
{
    return (struct runs){.rows = n_rows,
                         .n_vectors = (int)((n_rows * w->row + VEC - 1) / VEC),
                         .src_row = w->row,
                         .src_plane = w->in_plane,
                         .dst_row = w->row,
                         .dst_plane = w->out_plane};
}

struct wino_scratch {
    float *packed, *in, *out, *phases;
    V(stored_mask) * masks; /* all lanes, for every vector of a chunk but the last */
    size_t bytes;
};

static struct wino_scratch wino_scratch_of(const struct lanes_conv *c, const struct wino *w, void *memory)
{
    struct wino_scratch s = {0};
    const size_t packed = aligned((size_t)c->oc * (size_t)(c->ic * c->kh) * POINTS * sizeof(float));
    const size_t in = aligned(((size_t)w->in_point * POINTS + VEC) * sizeof(float));
    const size_t out = aligned(((size_t)w->out_point * POINTS + VEC) * sizeof(float));
    const size_t phases = aligned(OUTPUTS * (size_t)phase_floats(c, w) * sizeof(float));
    char *at = memory;
    s.packed = (float *)at;
    s.in = (float *)(at + packed);
    s.out = (float *)(at + packed + in);
    s.phases = (float *)(at + packed + in + out);
    s.masks = (V(stored_mask) *)(at + packed + in + out + phases);
    s.bytes = packed + in + out + phases + aligned(((size_t)w->out_plane / VEC + 1) * sizeof(V(stored_mask)));
    return s;
}

VEC_TARGET static void fill_masks(ptrdiff_t len, V(stored_mask) * masks)
{
    bool lanes[VEC];
    for (ptrdiff_t at = 0; at < len; at += VEC) {
        for (int l = 0; l < VEC; l++) lanes[l] = at + l < len;
        *masks++ = V(mask_pack)(lanes);
    }
}

static struct wino wino_forward_of(const struct lanes_conv *c)
{
    struct wino w = wino_of(c, min(MAX_OC, c->oc), CHUNK_BYTES);
    const struct runs r = wino_runs(&w, w.rows);
    return wino_of(c, channels_at_once(c, &r), CHUNK_BYTES);
}

static size_t wino_forward_scratch(const struct lanes_conv *c)
{
    const struct wino w = wino_forward_of(c);
    return wino_scratch_of(c, &w, NULL).bytes;
}

/* Output rows from y on that the same rows of the kernel find a source for; all of the chunk where rows are short. */
static int rows_alike(const struct lanes_conv *c, const struct wino *w, int y, int n_rows, struct span *ky)
{
    int n = 1;
    *ky = (struct span){0, c->kh};
    if (!wino_rows_are_long(w->row)) return n_rows;
    *ky = kernel_rows(c, &(struct runs){0}, y);
    for (; n < n_rows; n++) {
        const struct span next = kernel_rows(c, &(struct runs){0}, y + n);
        if (next.begin != ky->begin || next.end != ky->end) break;
    }
    return n;
}

/* n_oc channels from `first` on, over the n_rows rows of the chunk that begins at output row y, at all points. */
static void wino_points(const struct lanes_conv *c, const struct wino *w, const struct wino_scratch *s, int first,
                        int n_oc, int y, int n_rows)
{
    const struct lanes_conv column = {.n = c->n, .ic = c->ic, .kh = c->kh, .kw = 1};
    const ptrdiff_t per_point = (ptrdiff_t)c->oc * c->ic * c->kh;
    for (int row = 0, n; row < n_rows; row += n) {
        struct span ky;
        n = rows_alike(c, w, y + row, n_rows - row, &ky);
        const struct runs r = wino_runs(w, n);
        const ptrdiff_t len = n * w->row;
        for (int k = 0; k < POINTS; k++) {
            const struct forward_job j = {.c = &column,
                                          .r = &r,
                                          .src = s->in + k * w->in_point + row * w->row,
                                          .w = s->packed + k * per_point + (ptrdiff_t)first * c->ic * c->kh,
                                          .masks = s->masks,
                                          .dst = s->out + k * w->out_point + row * w->row,
                                          .len = len,
                                          .inner = {0, (int)(len / VEC)},
                                          .ky = ky};
            forward_channels(&j, n_oc);
        }
    }
}

static void wino_forward(const struct lanes_conv *c, const float *src, const float *weights, bool is_turned,
                         const float *bias, bool relu, float *dst, void *scratch)
{
    const struct wino w = wino_forward_of(c);
    const struct wino_scratch s = wino_scratch_of(c, &w, scratch);
    const ptrdiff_t dst_row = (ptrdiff_t)c->ow * c->n;
    weights_at_points(c, weights, is_turned, w.n_oc, s.packed);
    for (int y = 0; y < c->oh; y += w.rows) {
        const int n_rows = min(w.rows, c->oh - y);
        spread(c, &w, src, y, n_rows, s.phases, s.in);
        fill_masks(n_rows * w.row, s.masks);
        for (int first = 0; first < c->oc; first += w.n_oc) {
            const int n_oc = min(w.n_oc, c->oc - first);
            wino_points(c, &w, &s, first, n_oc, y, n_rows);
            gather(c, &w, s.out, n_oc, n_rows, bias ? bias + first : NULL, relu,
                   dst + ((ptrdiff_t)first * c->oh + y) * dst_row);
        }
    }
}

/* --- backward by weights: F(5,4), the same points with diff_dst in the place of the weights --- */

enum { WEIGHTS_CHUNK_BYTES = 720 << 10 };

/* G d of four pixels of diff_dst. */
VEC_TARGET INLINE void diff_points_of(const V(float) d[OUTPUTS], V(float) t[POINTS])
{
    const V(float) zero = V(zero)();
    t[0] = d[0];
    V(float) even = scale_add(-2.0f / 9, d[2], scale_add(-2.0f / 9, d[0], zero));
    V(float) odd = scale_add(-2.0f / 9, d[3], scale_add(-2.0f / 9, d[1], zero));
    t[1] = V(add)(even, odd);
    t[2] = difference(even, odd);
    even = scale_add(4.0f / 90, d[2], scale_add(1.0f / 90, d[0], zero));
    odd = scale_add(8.0f / 90, d[3], scale_add(2.0f / 90, d[1], zero));
    t[3] = V(add)(even, odd);
    t[4] = difference(even, odd);
    even = scale_add(8.0f / 45, d[2], scale_add(32.0f / 45, d[0], zero));
    odd = scale_add(4.0f / 45, d[3], scale_add(16.0f / 45, d[1], zero));
    t[5] = V(add)(even, odd);
    t[6] = difference(even, odd);
    t[7] = d[3];
}

VEC_TARGET INLINE void spread_diff_row_whole(const struct lanes_conv *c, const struct wino *w, const float *row,
                                             float *to)
{
    const ptrdiff_t n = c->n;
    for (int tile = 0; tile < w->tiles; tile++)
        for (ptrdiff_t l = 0; l < n; l += VEC) {
            V(float) d[OUTPUTS], t[POINTS];
#pragma GCC unroll 4
            for (int i = 0; i < OUTPUTS; i++)
                d[i] = OUTPUTS * tile + i < c->ow ? V(load)(row + (OUTPUTS * tile + i) * n + l) : V(zero)();
            diff_points_of(d, t);
#pragma GCC unroll 8
            for (int k = 0; k < POINTS; k++) V(store)(to + k * w->out_point + tile * n + l, t[k]);
        }
}

VEC_TARGET INLINE void spread_diff_row_parts(const struct wino *w, const float *phases, ptrdiff_t phase, float *to)
{
    for (ptrdiff_t at = 0; at < w->row; at += VEC) {
        V(float) d[OUTPUTS], t[POINTS];
#pragma GCC unroll 4
        for (int i = 0; i < OUTPUTS; i++) d[i] = V(load)(phases + i * phase + at);
        diff_points_of(d, t);
#pragma GCC unroll 8
        for (int k = 0; k < POINTS; k++) V(store_in)(to + k * w->out_point + at, V(inside)(at, w->row), t[k]);
    }
}

/* Rows [y, y + n_rows) of diff_dst at all points: [POINTS][oc][rows][tiles][n], zero up to a whole vector. */
VEC_TARGET static void spread_diff(const struct lanes_conv *c, const struct wino *w, const float *diff_dst, int y,
                                   int n_rows, float *phases, float *to)
{
    struct V(pairs) pairs = {0};
    const ptrdiff_t phase = phase_floats(c, w), used = n_rows * w->row;
    if (c->n % VEC) pairs = V(pairs_of)(c->n);
    for (int o = 0; o < c->oc; o++) {
        for (int r = 0; r < n_rows; r++) {
            const float *pixels = diff_dst + ((ptrdiff_t)o * c->oh + y + r) * c->ow * c->n;
            float *row = to + o * w->out_plane + r * w->row;
            if (c->n % VEC == 0) {
                spread_diff_row_whole(c, w, pixels, row);
                continue;
            }
            split_row(&pairs, c->n, pixels, c->ow, 0, w->row, phases, phase);
            spread_diff_row_parts(w, phases, phase, row);
        }
        for (int k = 0; k < POINTS && used % VEC; k++)
            memset(to + k * w->out_point + o * w->out_plane + used, 0, (size_t)(VEC - used % VEC) * sizeof *to);
    }
}

/* n_oc channels against kh rows of one input channel at one point, to acc [n_oc][kh][VEC]. */
VEC_TARGET INLINE void accumulate_point(const struct weights_job *j, const struct weights_row *row, const int n_oc,
                                        const int kh)
{
    V(float) acc[WEIGHTS_OC_3][5];
#pragma GCC unroll 6
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 5
        for (int k = 0; k < kh; k++) acc[o][k] = V(zero)();
    weights_vectors(j, row, 0, (int)(row->len / VEC), acc, n_oc, kh, false, false);
#pragma GCC unroll 6
    for (int o = 0; o < n_oc; o++)
#pragma GCC unroll 5
        for (int k = 0; k < kh; k++) V(store)(j->acc + (o * kh + k) * VEC, acc[o][k]);
}

#define POINT_CASE(n_oc, kh)                                                                                           \
    case (n_oc)*8 + (kh):                                                                                              \
        if ((n_oc) <= WEIGHTS_OC_##kh) accumulate_point(j, row, (n_oc) <= WEIGHTS_OC_##kh ? (n_oc) : 1, kh);           \
        break;

VEC_TARGET static void accumulate(const struct weights_job *j, const struct weights_row *row, int n_oc)
{
    switch (n_oc * 8 + j->c->kw) {
        POINT_CASE(1, 3)
        POINT_CASE(2, 3)
        POINT_CASE(3, 3)
        POINT_CASE(4, 3)
        POINT_CASE(5, 3)
        POINT_CASE(6, 3)
        POINT_CASE(1, 5)
        POINT_CASE(2, 5)
        POINT_CASE(3, 5)
        POINT_CASE(4, 5)
    }
}

struct weights_scratch {
    float *in, *out, *phases, *acc, *sums; /* acc [ic][n_oc][kh][VEC], sums [POINTS][oc][ic][kh] */
    size_t bytes;
};

static int wino_weights_channels(const struct lanes_conv *c)
{
    const int most = c->kh == 3 ? WEIGHTS_OC_3 : WEIGHTS_OC_5, n_blocks = (c->oc + most - 1) / most;
    return (c->oc + n_blocks - 1) / n_blocks;
}

static struct weights_scratch weights_scratch_of(const struct lanes_conv *c, const struct wino *w, void *memory)
{
    struct weights_scratch s = {0};
    char *at = memory;
    const size_t n_acc = (size_t)(wino_weights_channels(c) * c->ic * c->kh);
    const size_t in = aligned(((size_t)w->in_point * POINTS + VEC) * sizeof(float));
    const size_t out = aligned((size_t)w->out_point * POINTS * sizeof(float));
    const size_t phases = aligned(OUTPUTS * (size_t)phase_floats(c, w) * sizeof(float));
    const size_t acc = aligned((n_acc + VEC - 1) / VEC * VEC * VEC * sizeof(float));
    s.in = (float *)at;
    s.out = (float *)(at + in);
    s.phases = (float *)(at + in + out);
    s.acc = (float *)(at + in + out + phases);
    s.sums = (float *)(at + in + out + phases + acc);
    s.bytes = in + out + phases + acc + aligned((size_t)(POINTS * c->oc * c->ic * c->kh) * sizeof(float));
    return s;
}

/* Adds the sums over one chunk at one point for n_oc channels from `first` on. */
VEC_TARGET static void add_point(const struct lanes_conv *c, const struct wino *w, const struct weights_scratch *s,
                                 int point, int first, int n_oc, ptrdiff_t len)
{
    const struct lanes_conv column = {.n = (int)w->row, .kw = c->kh, .kh = 1};
    const struct runs r = {.dst_plane = w->out_plane};
    const int per_ic = n_oc * c->kh;
    for (int ic = 0; ic < c->ic; ic++) {
        const struct weights_job j = {.c = &column, .r = &r, .acc = s->acc + (ptrdiff_t)ic * per_ic * VEC};
        const struct weights_row row = {s->in + point * w->in_point + ic * w->in_plane,
                                        s->out + point * w->out_point + first * w->out_plane, len};
        accumulate(&j, &row, n_oc);
    }
    for (int i = 0; i < c->ic * per_ic; i += VEC) V(store)(s->acc + i, V(sums)(s->acc + (ptrdiff_t)i * VEC));
    const float *from = s->acc;
    for (int ic = 0; ic < c->ic; ic++)
        for (int o = first; o < first + n_oc; o++, from += c->kh) {
            float *to = s->sums + (((ptrdiff_t)point * c->oc + o) * c->ic + ic) * c->kh;
            for (int ky = 0; ky < c->kh; ky++) to[ky] += from[ky];
        }
}

/* A' S, to diff_weights [oc,ic,kh,5]. */
static void finish_points(const struct lanes_conv *c, const float *sums, float *diff_weights)
{
    const ptrdiff_t n = (ptrdiff_t)c->oc * c->ic * c->kh;
    for (ptrdiff_t i = 0; i < n; i++, sums++, diff_weights += TAPS) {
        const float sum1 = sums[n] + sums[2 * n], sum2 = sums[3 * n] + sums[4 * n], sum3 = sums[5 * n] + sums[6 * n];
        const float diff1 = sums[n] - sums[2 * n], diff2 = sums[3 * n] - sums[4 * n], diff3 = sums[5 * n] - sums[6 * n];
        diff_weights[0] = sums[0] + sum1 + sum2 + sum3;
        diff_weights[1] = diff1 + 2 * diff2 + 0.5f * diff3;
        diff_weights[2] = sum1 + 4 * sum2 + 0.25f * sum3;
        diff_weights[3] = diff1 + 8 * diff2 + 0.125f * diff3;
        diff_weights[4] = sum1 + 16 * sum2 + 0.0625f * sum3 + sums[7 * n];
    }
}

static void wino_backward_weights(const struct lanes_conv *c, const float *src, const float *diff_dst,
                                  float *diff_weights, float *diff_bias, void *scratch)
{
    const struct wino w = wino_of(c, c->oc, WEIGHTS_CHUNK_BYTES);
    const struct weights_scratch s = weights_scratch_of(c, &w, scratch);
    const int step = wino_weights_channels(c);
    const ptrdiff_t plane = (ptrdiff_t)c->oh * c->ow * c->n;
    memset(s.sums, 0, (size_t)(POINTS * c->oc * c->ic * c->kh) * sizeof *s.sums);
    memset(s.in + w.in_point * POINTS, 0, VEC * sizeof *s.in);
    for (int y = 0; y < c->oh; y += w.rows) {
        const int n_rows = min(w.rows, c->oh - y);
        const ptrdiff_t len = (n_rows * w.row + VEC - 1) / VEC * VEC;
        spread(c, &w, src, y, n_rows, s.phases, s.in);
        spread_diff(c, &w, diff_dst, y, n_rows, s.phases, s.out);
        for (int k = 0; k < POINTS; k++)
            for (int first = 0; first < c->oc; first += step)
                add_point(c, &w, &s, k, first, min(step, c->oc - first), len);
    }
    finish_points(c, s.sums, diff_weights);
    for (int o = 0; o < c->oc && diff_bias; o++) diff_bias[o] = sum_plane(diff_dst + o * plane, plane);
}

static bool wino_weights_are_better(const struct lanes_conv *c)
{
    if (!wino_has_layout(c) || (c->kh != 3 && c->kh != 5)) return false;
    const int64_t plain = taps_inside(c->oh, c->ih, c->kh, c->ph) * c->ow * c->kw * c->ic * c->oc;
    const int64_t tiles = (int64_t)c->oh * ((c->ow + OUTPUTS - 1) / OUTPUTS);
    return tiles * (POINTS * c->kh * c->ic * c->oc + 50 * (c->ic + c->oc)) < plain * 19 / 20;
}

/* --- which of the two --- */

static size_t best_forward_scratch(const struct lanes_conv *c)
{
    return wino_is_better(c) ? wino_forward_scratch(c) : forward_scratch(c);
}

static void best_forward(const struct lanes_conv *c, const void *tables, const float *src, const float *weights,
                         bool is_turned, const float *bias, bool relu, float *dst, void *scratch)
{
    if (wino_is_better(c))
        wino_forward(c, src, weights, is_turned, bias, relu, dst, scratch);
    else
        forward(c, tables, src, weights, is_turned, bias, relu, dst, scratch);
}

static size_t best_weights_scratch(const struct lanes_conv *c)
{
    if (!wino_weights_are_better(c)) return backward_weights_scratch(c);
    const struct wino w = wino_of(c, c->oc, WEIGHTS_CHUNK_BYTES);
    return weights_scratch_of(c, &w, NULL).bytes;
}

static void best_backward_weights(const struct lanes_conv *c, const void *tables, const float *src,
                                  const float *diff_dst, float *diff_weights, float *diff_bias, void *scratch)
{
    if (wino_weights_are_better(c))
        wino_backward_weights(c, src, diff_dst, diff_weights, diff_bias, scratch);
    else
        backward_weights(c, tables, src, diff_dst, diff_weights, diff_bias, scratch);
}
