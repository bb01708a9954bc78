/* norm.cu: group norm and layer norm; ref/norm.c has the formulas and says which elements are a set. Sums in double, in
 * an order that follows from the shape.
 *
 * One warp, or one block where a set is large, goes through a set three times: mean, variance, result. Gradients of
 * gamma and beta are sums over sets, made afterwards from the sets' means and deviations.
 */
#include "backend/cuda/kernels/typed.cuh"

enum { MAX_WARP_COUNT = 1024, WARPS = THREADS / WARP };

/* Where element j of a set lies, and which parameter it has. */
struct spot {
    int64_t at, param;
};

static __device__ __forceinline__ struct spot spot_of(const struct ls_cuda_sets &n, int64_t set, int64_t j)
{
    int64_t sample, channel, pixel;
    if (n.kind == LS_CUDA_SET_PIXEL) {
        const struct divided d = divide(set, n.hw);
        sample = d.quotient;
        pixel = d.rest;
        channel = j;
    } else {
        const struct divided s = divide(set, n.groups);
        const int64_t wide = n.c / n.groups;
        const struct divided d = n.is_last ? divide(j, wide) : divide(j, n.hw);
        sample = s.quotient;
        pixel = n.is_last ? d.quotient : d.rest;
        channel = s.rest * wide + (n.is_last ? d.rest : d.quotient);
    }
    struct spot p;
    p.at = n.is_last ? (sample * n.hw + pixel) * n.c + channel : (sample * n.c + channel) * n.hw + pixel;
    p.param = n.kind == LS_CUDA_SET_SAMPLE ? channel * n.hw + pixel : channel;
    return p;
}

template <class T> static __device__ __forceinline__ float value(const void *x, int64_t i)
{
    return widen(reinterpret_cast<const T *>(x)[i]);
}
template <class T> static __device__ __forceinline__ void keep(void *x, int64_t i, float v)
{
    reinterpret_cast<T *>(x)[i] = narrow<T>(v);
}

/* The sum over those that share a set, in all of them. */
template <bool IS_WARP> static __device__ __forceinline__ double total(double x, double *shared)
{
    if (IS_WARP) return __shfl_sync(0xffffffffu, warp_sum(x), 0);
    __shared__ double all;
    x = block_sum(x, shared);
    if (threadIdx.x == 0) all = x;
    __syncthreads();
    return all;
}

struct moments {
    double mean, inv_std;
};

template <class T, bool IS_WARP>
static __device__ struct moments moments_of(const void *src, const struct ls_cuda_sets &n, int64_t set, int lane,
                                            double *shared)
{
    const int step = IS_WARP ? WARP : THREADS;
    double sum = 0.0, squares = 0.0;
    for (int64_t j = lane; j < n.count; j += step) sum += (double)value<T>(src, spot_of(n, set, j).at);
    struct moments m;
    m.mean = total<IS_WARP>(sum, shared) / (double)n.count;
    for (int64_t j = lane; j < n.count; j += step) {
        const double d = (double)value<T>(src, spot_of(n, set, j).at) - m.mean;
        squares += d * d;
    }
    m.inv_std = 1.0 / sqrt(total<IS_WARP>(squares, shared) / (double)n.count + (double)n.eps);
    return m;
}

template <class T, bool IS_WARP>
static __global__ void forward(const void *src, const float *gamma, const float *beta, void *dst, struct ls_cuda_sets n)
{
    __shared__ double shared[WARPS];
    const int lane = IS_WARP ? threadIdx.x % WARP : threadIdx.x, step = IS_WARP ? WARP : THREADS;
    const int64_t set = IS_WARP ? (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP : blockIdx.x;
    if (set >= n.n) return; /* a whole warp, or a whole block */
    const struct moments m = moments_of<T, IS_WARP>(src, n, set, lane, shared);
    for (int64_t j = lane; j < n.count; j += step) {
        const struct spot p = spot_of(n, set, j);
        const float x = (float)(((double)value<T>(src, p.at) - m.mean) * m.inv_std);
        keep<T>(dst, p.at, x * gamma[p.param] + beta[p.param]);
    }
}

/* moments [n][2] are left for the gradients of the parameters. */
template <class T, bool IS_WARP>
static __global__ void backward(const void *src, const float *gamma, const void *diff_dst, void *diff_src,
                                double *moments, struct ls_cuda_sets n)
{
    __shared__ double shared[WARPS];
    const int lane = IS_WARP ? threadIdx.x % WARP : threadIdx.x, step = IS_WARP ? WARP : THREADS;
    const int64_t set = IS_WARP ? (int64_t)blockIdx.x * WARPS + threadIdx.x / WARP : blockIdx.x;
    if (set >= n.n) return;
    const struct moments m = moments_of<T, IS_WARP>(src, n, set, lane, shared);
    double sum = 0.0, sum_x = 0.0;
    for (int64_t j = lane; j < n.count; j += step) {
        const struct spot p = spot_of(n, set, j);
        const double x = ((double)value<T>(src, p.at) - m.mean) * m.inv_std;
        const double dy = (double)value<T>(diff_dst, p.at) * (double)gamma[p.param];
        sum += dy;
        sum_x += dy * x;
    }
    sum = total<IS_WARP>(sum, shared);
    sum_x = total<IS_WARP>(sum_x, shared);
    for (int64_t j = lane; j < n.count; j += step) {
        const struct spot p = spot_of(n, set, j);
        const double x = ((double)value<T>(src, p.at) - m.mean) * m.inv_std;
        const double dy = (double)value<T>(diff_dst, p.at) * (double)gamma[p.param];
        keep<T>(diff_src, p.at, (float)((dy - (sum + x * sum_x) / (double)n.count) * m.inv_std));
    }
    if (lane == 0) moments[2 * set] = m.mean;
    if (lane == 0) moments[2 * set + 1] = m.inv_std;
}

/* The set of an element. */
static __device__ __forceinline__ int64_t set_of(const struct ls_cuda_sets &n, int64_t sample, int64_t channel,
                                                 int64_t pixel)
{
    return n.kind == LS_CUDA_SET_PIXEL ? sample * n.hw + pixel : sample * n.groups + channel / (n.c / n.groups);
}

/* One block per parameter: of a channel over samples and pixels, of an element of a sample over samples. */
template <class T>
static __global__ void params(const void *src, const void *diff_dst, const double *moments, float *diff_gamma,
                              float *diff_beta, struct ls_cuda_sets n)
{
    __shared__ double shared[WARPS];
    const bool is_whole = n.kind == LS_CUDA_SET_SAMPLE;
    const struct divided own = divide(blockIdx.x, is_whole ? n.hw : 1);
    const int64_t channel = own.quotient, n_pixels = is_whole ? 1 : n.hw, mb = n.mb;
    double by_gamma = 0.0, by_beta = 0.0;
    for (int64_t i = threadIdx.x; i < mb * n_pixels; i += THREADS) {
        const struct divided d = divide(i, n_pixels);
        const int64_t pixel = is_whole ? own.rest : d.rest, sample = d.quotient;
        const int64_t at =
            n.is_last ? (sample * n.hw + pixel) * n.c + channel : (sample * n.c + channel) * n.hw + pixel;
        const double *m = moments + 2 * set_of(n, sample, channel, pixel);
        const double dy = (double)value<T>(diff_dst, at);
        by_gamma += dy * (((double)value<T>(src, at) - m[0]) * m[1]);
        by_beta += dy;
    }
    by_gamma = block_sum(by_gamma, shared);
    by_beta = block_sum(by_beta, shared);
    if (threadIdx.x == 0 && diff_gamma) diff_gamma[blockIdx.x] = (float)by_gamma;
    if (threadIdx.x == 0 && diff_beta) diff_beta[blockIdx.x] = (float)by_beta;
}

/* CALL is a macro of (type, whether a warp has a set). */
#define BY_SETS(type, n, CALL)                                                                                         \
    if ((type) == LS_CUDA_BF16 && (n).count <= MAX_WARP_COUNT) {                                                       \
        CALL(bf16, true)                                                                                               \
    } else if ((type) == LS_CUDA_BF16) {                                                                               \
        CALL(bf16, false)                                                                                              \
    } else if ((n).count <= MAX_WARP_COUNT) {                                                                          \
        CALL(float, true)                                                                                              \
    } else {                                                                                                           \
        CALL(float, false)                                                                                             \
    }

static unsigned blocks_of(struct ls_cuda_sets n, bool is_warp)
{
    return (unsigned)(is_warp ? (n.n + WARPS - 1) / WARPS : n.n);
}

extern "C" cudaError_t ls__cuda_run_norm(cudaStream_t stream, enum ls_cuda_type type, const void *src,
                                         const float *gamma, const float *beta, void *dst, struct ls_cuda_sets n)
{
#define CALL(T, IS_WARP) forward<T, IS_WARP><<<blocks_of(n, IS_WARP), THREADS, 0, stream>>>(src, gamma, beta, dst, n);
    BY_SETS(type, n, CALL)
#undef CALL
    return cudaGetLastError();
}

extern "C" cudaError_t ls__cuda_run_norm_bwd(cudaStream_t stream, enum ls_cuda_type type, struct ls_cuda_norm_bwd a,
                                             struct ls_cuda_sets n)
{
#define CALL(T, IS_WARP)                                                                                               \
    backward<T, IS_WARP>                                                                                               \
        <<<blocks_of(n, IS_WARP), THREADS, 0, stream>>>(a.src, a.gamma, a.diff_dst, a.diff_src, a.moments, n);         \
    params<T><<<(unsigned)n.n_params, THREADS, 0, stream>>>(a.src, a.diff_dst, a.moments, a.diff_gamma, a.diff_beta, n);
    BY_SETS(type, n, CALL)
#undef CALL
    return cudaGetLastError();
}
