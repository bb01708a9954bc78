/* last_pool.cu: maxima and means of windows, channels last. Gradients are gathered in the order of the windows, as in
 * pool.cu; where a maximum was is kept as its number in its window. */
#include "backend/cuda/kernels/pool.cuh"
#include "backend/cuda/kernels/typed.cuh"

struct spot {
    int64_t image;
    int y, x, c;
};

/* Of element i of [mb,h,w,c/V]. */
static __device__ __forceinline__ struct spot spot_of(int64_t i, int h, int w, int wide)
{
    const struct divided pixel = divide(i, wide), row = divide(pixel.quotient, w), image = divide(row.quotient, h);
    struct spot s;
    s.c = (int)pixel.rest;
    s.x = (int)row.rest;
    s.y = (int)image.rest;
    s.image = image.quotient;
    return s;
}

static __device__ __forceinline__ int64_t place(int64_t image, int y, int x, int h, int w, int wide, int c)
{
    return ((image * h + y) * w + x) * wide + c;
}

template <class T, int V>
static __global__ void maxpool(const void *src, void *dst, uint8_t *chosen, struct ls_cuda_last_pool a)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, p.planes * p.oh * p.ow * wide)
    {
        const struct spot at = spot_of(i, p.oh, p.ow, wide);
        struct floats<V> most;
        struct stored<uint8_t, V> best;
        bool is_first = true;
        for (int ky = 0; ky < p.kh; ky++)
            for (int kx = 0; kx < p.kw; kx++) {
                const int y = at.y * p.sh - p.ph + ky * p.dh, x = at.x * p.sw - p.pw + kx * p.dw;
                if (y < 0 || y >= p.ih || x < 0 || x >= p.iw) continue;
                const struct floats<V> v = get<T, V>(src, place(at.image, y, x, p.ih, p.iw, wide, at.c));
#pragma unroll
                for (int k = 0; k < V; k++)
                    if (is_first || (!isnan(most.v[k]) && (v.v[k] > most.v[k] || isnan(v.v[k])))) {
                        most.v[k] = v.v[k];
                        best.v[k] = (uint8_t)(ky * p.kw + kx);
                    }
                is_first = false;
            }
        put<T, V>(dst, i, most);
        if (chosen) reinterpret_cast<struct stored<uint8_t, V> *>(chosen)[i] = best;
    }
}

extern "C" cudaError_t ls__cuda_run_last_maxpool(cudaStream_t stream, enum ls_cuda_type type, const void *src,
                                                 void *dst, uint8_t *chosen, struct ls_cuda_last_pool a)
{
    const int64_t n = a.p.planes * a.p.oh * a.p.ow * a.c;
#define CALL(T, V) maxpool<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(src, dst, chosen, a);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}

template <class T, int V>
static __global__ void maxpool_bwd(const void *diff_dst, const uint8_t *chosen, void *diff_src,
                                   struct ls_cuda_last_pool a)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, p.planes * p.ih * p.iw * wide)
    {
        const struct spot at = spot_of(i, p.ih, p.iw, wide);
        struct floats<V> sum = {
        };
        int y0, y1, x0, x1;
        max_holders(p, at.y, at.x, &y0, &y1, &x0, &x1);
        for (int y = y0; y < y1; y++)
            for (int x = x0; x < x1; x++) {
                const int64_t from = place(at.image, y, x, p.oh, p.ow, wide, at.c);
                const int dy = at.y + p.ph - y * p.sh, dx = at.x + p.pw - x * p.sw;
                if (dy % p.dh != 0 || dx % p.dw != 0) continue;
                const int self = dy / p.dh * p.kw + dx / p.dw;
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

/* Windows side by side that cover the image: one thread per window. */
template <class T, int V>
static __global__ void maxpool_bwd_apart(const void *diff_dst, const uint8_t *chosen, void *diff_src,
                                         struct ls_cuda_last_pool a)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, p.planes * p.oh * p.ow * wide)
    {
        const struct spot at = spot_of(i, p.oh, p.ow, wide);
        const struct stored<uint8_t, V> best = reinterpret_cast<const struct stored<uint8_t, V> *>(chosen)[i];
        const struct floats<V> d = get<T, V>(diff_dst, i);
        for (int ky = 0; ky < p.kh; ky++)
            for (int kx = 0; kx < p.kw; kx++) {
                struct floats<V> x;
#pragma unroll
                for (int k = 0; k < V; k++) x.v[k] = best.v[k] == ky * p.kw + kx ? d.v[k] : 0.0f;
                put<T, V>(diff_src, place(at.image, at.y * p.sh + ky, at.x * p.sw + kx, p.ih, p.iw, wide, at.c), x);
            }
    }
}

extern "C" cudaError_t ls__cuda_run_last_maxpool_bwd(cudaStream_t stream, enum ls_cuda_type type, const void *diff_dst,
                                                     const uint8_t *chosen, void *diff_src, struct ls_cuda_last_pool a)
{
    const int64_t n = a.p.planes * a.p.ih * a.p.iw * a.c;
    const struct ls_cuda_pool &p = a.p;
    if (p.kh == p.sh && p.kw == p.sw && p.ph == 0 && p.pw == 0 && p.dh == 1 && p.dw == 1 && p.oh * p.sh == p.ih &&
        p.ow * p.sw == p.iw) {
        const int64_t windows = p.planes * p.oh * p.ow * a.c;
#define CALL(T, V)                                                                                                     \
    maxpool_bwd_apart<T, V><<<blocks_for(windows / V), THREADS, 0, stream>>>(diff_dst, chosen, diff_src, a);
        BY_TYPE(type, a.c, CALL)
#undef CALL
        return cudaGetLastError();
    }
#define CALL(T, V) maxpool_bwd<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(diff_dst, chosen, diff_src, a);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}

template <class T, int V> static __global__ void avgpool(const void *src, void *dst, struct ls_cuda_last_pool a)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, p.planes * p.oh * p.ow * wide)
    {
        const struct spot at = spot_of(i, p.oh, p.ow, wide);
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
    const int64_t n = a.p.planes * a.p.oh * a.p.ow * a.c;
#define CALL(T, V) avgpool<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(src, dst, a);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}

template <class T, int V>
static __global__ void avgpool_bwd(const void *diff_dst, void *diff_src, struct ls_cuda_last_pool a)
{
    const struct ls_cuda_pool &p = a.p;
    const int wide = a.c / V;
    FOR_EACH(i, p.planes * p.ih * p.iw * wide)
    {
        const struct spot at = spot_of(i, p.ih, p.iw, wide);
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
    const int64_t n = a.p.planes * a.p.ih * a.p.iw * a.c;
#define CALL(T, V) avgpool_bwd<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(diff_dst, diff_src, a);
    BY_TYPE(type, a.c, CALL)
#undef CALL
    return cudaGetLastError();
}
