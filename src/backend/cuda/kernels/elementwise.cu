/* elementwise.cu: relu, add, bias, dropout: each element alone, with ref's arithmetic. */
#include "backend/cuda/kernels/common.cuh"

#define LS_RNG_FN static __device__ __forceinline__
#include "base/rng.h"

/* A function of each element: V at a time, as the launcher found that n allows. */
#define LAUNCH(kernel, n, count, ...)                                                                                  \
    if ((n) % WIDE == 0)                                                                                               \
        kernel<WIDE><<<blocks_for((count) / WIDE), THREADS, 0, stream>>>(__VA_ARGS__);                                 \
    else                                                                                                               \
        kernel<1><<<blocks_for(count), THREADS, 0, stream>>>(__VA_ARGS__);

template <int V> static __global__ void relu(const float *src, float *dst, int64_t n)
{
    FOR_EACH(i, n / V)
    {
        struct pack<V> x = load<V>(src, i);
        for (int k = 0; k < V; k++) x.v[k] = relu1(x.v[k]);
        store<V>(dst, i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_relu(cudaStream_t stream, const float *src, float *dst, int64_t n)
{
    LAUNCH(relu, n, n, src, dst, n)
    return cudaGetLastError();
}

template <int V> static __global__ void relu_bwd(const float *dst, const float *diff_dst, float *diff_src, int64_t n)
{
    FOR_EACH(i, n / V)
    {
        const struct pack<V> y = load<V>(dst, i);
        struct pack<V> d = load<V>(diff_dst, i);
        for (int k = 0; k < V; k++) d.v[k] = y.v[k] > 0.0f ? d.v[k] : 0.0f;
        store<V>(diff_src, i, d);
    }
}

extern "C" cudaError_t ls__cuda_run_relu_bwd(cudaStream_t stream, const float *dst, const float *diff_dst,
                                             float *diff_src, int64_t n)
{
    LAUNCH(relu_bwd, n, n, dst, diff_dst, diff_src, n)
    return cudaGetLastError();
}

template <int V> static __global__ void add(const float *a, const float *b, float *dst, int64_t n, bool has_relu)
{
    FOR_EACH(i, n / V)
    {
        struct pack<V> x = load<V>(a, i);
        const struct pack<V> y = load<V>(b, i);
        for (int k = 0; k < V; k++) {
            const float v = x.v[k] + y.v[k];
            x.v[k] = has_relu ? relu1(v) : v;
        }
        store<V>(dst, i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_add(cudaStream_t stream, const float *a, const float *b, float *dst, int64_t n,
                                        bool relu)
{
    LAUNCH(add, n, n, a, b, dst, n, relu)
    return cudaGetLastError();
}

template <int V>
static __global__ void bias_add(const float *src, const float *bias, float *dst, struct ls_cuda_nchw n, bool has_relu)
{
    FOR_EACH(i, n.mb * n.c * n.hw / V)
    {
        struct pack<V> x = load<V>(src, i);
        const float b = bias ? bias[divide(divide(i, n.hw / V).quotient, n.c).rest] : 0.0f;
        for (int k = 0; k < V; k++) {
            const float v = bias ? x.v[k] + b : x.v[k];
            x.v[k] = has_relu ? relu1(v) : v;
        }
        store<V>(dst, i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_bias(cudaStream_t stream, const float *src, const float *bias, float *dst,
                                         struct ls_cuda_nchw n, bool relu)
{
    LAUNCH(bias_add, n.hw, n.mb * n.c * n.hw, src, bias, dst, n, relu)
    return cudaGetLastError();
}

/* One thread draws four numbers for four neighbours of one sample, as ref does. */
static __global__ void dropout(const float *src, const uint32_t *samples, float *dst, struct ls_cuda_dropout d)
{
    const int64_t quads = (d.n + 3) / 4;
    const float scale = 1.0f / (1.0f - d.p);
    FOR_EACH(i, d.mb * quads)
    {
        const struct divided at = divide(i, quads);
        const int64_t s = at.quotient, e = at.rest * 4;
        const uint32_t sample = samples && s < d.n_valid ? samples[s] : (uint32_t)s;
        const struct ls_rng4 r = ls__rng(d.seed, LS_RNG_DROPOUT, (uint32_t)d.step, (uint32_t)d.layer,
                                         (uint64_t)sample << 32 | (uint64_t)at.rest);
        for (int k = 0; k < 4 && e + k < d.n; k++)
            dst[s * d.n + e + k] = ls__rng_unit(r.v[k]) >= d.p ? src[s * d.n + e + k] * scale : 0.0f;
    }
}

extern "C" cudaError_t ls__cuda_run_dropout(cudaStream_t stream, const float *src, const uint32_t *samples, float *dst,
                                            struct ls_cuda_dropout d)
{
    dropout<<<blocks_for(d.mb * ((d.n + 3) / 4)), THREADS, 0, stream>>>(src, samples, dst, d);
    return cudaGetLastError();
}
