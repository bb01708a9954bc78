/* last_pool.cu: maxima and means of windows, channels last. Gradients are gathered in the order of the windows, as in
 * pool.cu; where a maximum was is kept as its number in its window. The windows of known networks are compiled in. */
#include "backend/cuda/kernels/pool.cuh"
#include "backend/cuda/kernels/typed.cuh"

struct spot {
    int64_t image;
    int y, x, c;
};

/* What a grid covers: [n / (h * w * wide),h,w,wide], a thread per element. */
struct raster {
    int64_t n;
    struct divisor h, w, wide;
};

static inline struct raster raster_of(int64_t images, int h, int w, int wide)
{
    return {images * h * w * wide, divisor_of(h), divisor_of(w), divisor_of(wide)};
}

static __device__ __forceinline__ struct spot spot_of(int64_t i, const struct raster &r)
{
    if (i >= (int64_t)1 << 31) {
        const int64_t pixel = i / r.wide.n, row = pixel / r.w.n, image = row / r.h.n;
        return {image, (int)(row - image * r.h.n), (int)(pixel - row * r.w.n), (int)(i - pixel * r.wide.n)};
    }
    const struct divided32 pixel = divide((uint32_t)i, r.wide), row = divide((uint32_t)pixel.quotient, r.w),
                           image = divide((uint32_t)row.quotient, r.h);
    return {image.quotient, image.rest, row.rest, pixel.rest};
}

static __device__ __forceinline__ int64_t place(int64_t image, int y, int x, int h, int w, int wide, int c)
{
    return ((image * h + y) * w + x) * wide + c;
}

/* The first of the largest; NaN is larger than all. */
template <int V> struct largest {
    struct floats<V> most;
    struct stored<uint8_t, V> best;
    bool is_any;
};
template <int V>
static __device__ __forceinline__ void look_at(struct largest<V> *m, const struct floats<V> &v, int tap)
{
#pragma unroll
    for (int k = 0; k < V; k++)
        if (!m->is_any || (!isnan(m->most.v[k]) && !(v.v[k] <= m->most.v[k]))) {
            m->most.v[k] = v.v[k];
            m->best.v[k] = (uint8_t)tap;
        }
    m->is_any = true;
}

template <class T, int V>
static __device__ __forceinline__ void put_largest(void *dst, uint8_t *chosen, int64_t i, const struct largest<V> &m)
{
    put<T, V>(dst, i, m.most);
    if (chosen) reinterpret_cast<struct stored<uint8_t, V> *>(chosen)[i] = m.best;
}

template <class T, int V>
static __global__ void maxpool(const void *src, void *dst, uint8_t *chosen, struct ls_cuda_last_pool a, struct raster r)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, r.n)
    {
        const struct spot at = spot_of(i, r);
        struct largest<V> m;
        m.is_any = false;
        for (int ky = 0; ky < p.kh; ky++)
            for (int kx = 0; kx < p.kw; kx++) {
                const int y = at.y * p.sh - p.ph + ky * p.dh, x = at.x * p.sw - p.pw + kx * p.dw;
                if (y < 0 || y >= p.ih || x < 0 || x >= p.iw) continue;
                look_at(&m, get<T, V>(src, place(at.image, y, x, p.ih, p.iw, wide, at.c)), ky * p.kw + kx);
            }
        put_largest<T, V>(dst, chosen, i, m);
    }
}

/* K x K windows: all of a window is read before the first is looked at. */
template <class T, int V, int K>
static __global__ void maxpool_square(const void *src, void *dst, uint8_t *chosen, struct ls_cuda_last_pool a,
                                      struct raster r)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, r.n)
    {
        const struct spot at = spot_of(i, r);
        struct held<T, V> window[K * K];
        bool is_there[K * K];
#pragma unroll
        for (int tap = 0; tap < K * K; tap++) {
            const int y = at.y * p.sh - p.ph + tap / K * p.dh, x = at.x * p.sw - p.pw + tap % K * p.dw;
            is_there[tap] = y >= 0 && y < p.ih && x >= 0 && x < p.iw;
            if (is_there[tap]) window[tap] = hold<T, V>(src, place(at.image, y, x, p.ih, p.iw, wide, at.c));
        }
        struct largest<V> m;
        m.is_any = false;
#pragma unroll
        for (int tap = 0; tap < K * K; tap++)
            if (is_there[tap]) look_at(&m, widened(unpack(window[tap])), tap);
        put_largest<T, V>(dst, chosen, i, m);
    }
}

extern "C" cudaError_t ls__cuda_run_last_maxpool(cudaStream_t stream, enum ls_cuda_type type, const void *src,
                                                 void *dst, uint8_t *chosen, struct ls_cuda_last_pool a)
{
    const int k = a.p.kh == a.p.kw ? a.p.kh : 0;
#define CALL(T, V)                                                                                                     \
    const struct raster r = raster_of(a.p.planes, a.p.oh, a.p.ow, a.c / V);                                            \
    (k == 2   ? maxpool_square<T, V, 2>                                                                                \
     : k == 3 ? maxpool_square<T, V, 3>                                                                                \
              : maxpool<T, V>)<<<blocks_for(r.n), THREADS, 0, stream>>>(src, dst, chosen, a, r);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}

/* Any windows: one thread per pixel. */
template <class T, int V>
static __global__ void maxpool_bwd(const void *diff_dst, const uint8_t *chosen, void *diff_src,
                                   struct ls_cuda_last_pool a, struct raster r)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    const bool is_dilated = p.dh > 1 || p.dw > 1;
    FOR_EACH(i, r.n)
    {
        const struct spot at = spot_of(i, r);
        struct floats<V> sum = {
        };
        int y0, y1, x0, x1;
        max_holders(p, at.y, at.x, &y0, &y1, &x0, &x1);
        for (int y = y0; y < y1; y++)
            for (int x = x0; x < x1; x++) {
                const int64_t from = place(at.image, y, x, p.oh, p.ow, wide, at.c);
                int ky = at.y + p.ph - y * p.sh, kx = at.x + p.pw - x * p.sw;
                if (is_dilated) {
                    if (ky % p.dh != 0 || kx % p.dw != 0) continue;
                    ky /= p.dh, kx /= p.dw;
                }
                const int self = ky * p.kw + kx;
                const struct stored<uint8_t, V> best =
                    reinterpret_cast<const struct stored<uint8_t, V> *>(chosen)[from];
                const struct floats<V> d = get<T, V>(diff_dst, from);
#pragma unroll
                for (int k = 0; k < V; k++)
                    if (best.v[k] == self) sum.v[k] += d.v[k];
            }
        put<T, V>(diff_src, i, sum);
    }
}

/* K x K windows at stride S: one thread per tile of S x S pixels that begins where a window does (tiles at the rim
 * reach beyond the image). Windows [q - R + 1, q] of either direction reach into tile q; they are read once, for all of
 * its pixels. r: the tiles. */
template <class T, int V, int S, int K>
static __global__ void maxpool_bwd_tiles(const void *diff_dst, const uint8_t *chosen, void *diff_src,
                                         struct ls_cuda_last_pool a, struct raster r)
{
    constexpr int R = (K + S - 1) / S;
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, r.n)
    {
        const struct spot at = spot_of(i, r);
        const int tile_y = at.y + p.ph / S, tile_x = at.x + p.pw / S;
        struct held<T, V> d[R][R];
        struct held<uint8_t, V> best[R][R];
        bool is_there[R][R];
#pragma unroll
        for (int v = 0; v < R; v++)
#pragma unroll
            for (int u = 0; u < R; u++) {
                const int y = tile_y - (R - 1) + v, x = tile_x - (R - 1) + u;
                is_there[v][u] = y >= 0 && y < p.oh && x >= 0 && x < p.ow;
                if (!is_there[v][u]) continue;
                const int64_t from = place(at.image, y, x, p.oh, p.ow, wide, at.c);
                best[v][u] = hold<uint8_t, V>(chosen, from);
                d[v][u] = hold<T, V>(diff_dst, from);
            }
#pragma unroll
        for (int pixel = 0; pixel < S * S; pixel++) {
            const int y = tile_y * S - p.ph + pixel / S, x = tile_x * S - p.pw + pixel % S;
            if (y < 0 || y >= p.ih || x < 0 || x >= p.iw) continue;
            struct floats<V> sum = {
            };
#pragma unroll
            for (int v = 0; v < R; v++)
#pragma unroll
                for (int u = 0; u < R; u++) {
                    const int ky = pixel / S + (R - 1 - v) * S, kx = pixel % S + (R - 1 - u) * S;
                    if (ky >= K || kx >= K || !is_there[v][u]) continue;
                    const struct stored<uint8_t, V> chosen_by = unpack(best[v][u]);
                    const struct floats<V> given = widened(unpack(d[v][u]));
#pragma unroll
                    for (int k = 0; k < V; k++)
                        if (chosen_by.v[k] == ky * K + kx) sum.v[k] += given.v[k];
                }
            put<T, V>(diff_src, place(at.image, y, x, p.ih, p.iw, wide, at.c), sum);
        }
    }
}

static inline int tiles_of(int size, int pad, int s)
{
    return (size - 1 + pad) / s - pad / s + 1;
}

extern "C" cudaError_t ls__cuda_run_last_maxpool_bwd(cudaStream_t stream, enum ls_cuda_type type, const void *diff_dst,
                                                     const uint8_t *chosen, void *diff_src, struct ls_cuda_last_pool a)
{
    const struct ls_cuda_pool &p = a.p;
    const bool is_square = p.kh == p.kw && p.sh == p.sw && p.dh == 1 && p.dw == 1;
    const int k = is_square ? p.kh : 0, s = (k == 2 || k == 3) && p.sh == 2 ? 2 : 1; /* pixels are tiles of 1 */
    const int h = tiles_of(p.ih, p.ph, s), w = tiles_of(p.iw, p.pw, s);
#define CALL(T, V)                                                                                                     \
    const struct raster r = raster_of(p.planes, h, w, a.c / V);                                                        \
    (k == 2 && p.sh == 2   ? maxpool_bwd_tiles<T, V, 2, 2>                                                             \
     : k == 3 && p.sh == 2 ? maxpool_bwd_tiles<T, V, 2, 3>                                                             \
     : k == 3 && p.sh == 1                                                                                             \
         ? maxpool_bwd_tiles<T, V, 1, 3>                                                                               \
         : maxpool_bwd<T, V>)<<<blocks_for(r.n), THREADS, 0, stream>>>(diff_dst, chosen, diff_src, a, r);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}

template <class T, int V>
static __global__ void avgpool(const void *src, void *dst, struct ls_cuda_last_pool a, struct raster r)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, r.n)
    {
        const struct spot at = spot_of(i, r);
        struct floats<V> sum = {
        };
        const struct span rows = rows_of(p, at.y), columns = columns_of(p, at.x);
        const float divisor = (float)((int64_t)rows.n * columns.n);
        for (int y = rows.begin; y < rows.end; y++)
            for (int x = columns.begin; x < columns.end; x++) {
                const struct floats<V> v = get<T, V>(src, place(at.image, y, x, p.ih, p.iw, wide, at.c));
#pragma unroll
                for (int k = 0; k < V; k++) sum.v[k] += v.v[k];
            }
        for (int k = 0; k < V; k++) sum.v[k] /= divisor;
        put<T, V>(dst, i, sum);
    }
}

extern "C" cudaError_t ls__cuda_run_last_avgpool(cudaStream_t stream, enum ls_cuda_type type, const void *src,
                                                 void *dst, struct ls_cuda_last_pool a)
{
#define CALL(T, V)                                                                                                     \
    const struct raster r = raster_of(a.p.planes, a.p.oh, a.p.ow, a.c / V);                                            \
    avgpool<T, V><<<blocks_for(r.n), THREADS, 0, stream>>>(src, dst, a, r);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}

template <class T, int V>
static __global__ void avgpool_bwd(const void *diff_dst, void *diff_src, struct ls_cuda_last_pool a, struct raster r)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, r.n)
    {
        const struct spot at = spot_of(i, r);
        struct floats<V> sum = {
        };
        int y0, y1, x0, x1;
        mean_holders(p, at.y, at.x, &y0, &y1, &x0, &x1);
        for (int y = y0; y < y1; y++)
            for (int x = x0; x < x1; x++) {
                const struct floats<V> d = get<T, V>(diff_dst, place(at.image, y, x, p.oh, p.ow, wide, at.c));
                const float divisor = (float)((int64_t)rows_of(p, y).n * columns_of(p, x).n);
#pragma unroll
                for (int k = 0; k < V; k++) sum.v[k] += d.v[k] / divisor;
            }
        put<T, V>(diff_src, i, sum);
    }
}

extern "C" cudaError_t ls__cuda_run_last_avgpool_bwd(cudaStream_t stream, enum ls_cuda_type type, const void *diff_dst,
                                                     void *diff_src, struct ls_cuda_last_pool a)
{
#define CALL(T, V)                                                                                                     \
    const struct raster r = raster_of(a.p.planes, a.p.ih, a.p.iw, a.c / V);                                            \
    avgpool_bwd<T, V><<<blocks_for(r.n), THREADS, 0, stream>>>(diff_dst, diff_src, a, r);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}
