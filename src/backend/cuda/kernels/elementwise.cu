/* elementwise.cu: bias in plain layout, dropout: each element alone, with ref's arithmetic. */
#include "backend/cuda/kernels/typed.cuh"

#define LS_RNG_FN static __device__ __forceinline__
#include "base/rng.h"

/* A function of each element: V at a time, as the launcher found that n allows. */
#define LAUNCH(kernel, n, count, ...)                                                                                  \
    if ((n) % WIDE == 0)                                                                                               \
        kernel<WIDE><<<blocks_for((count) / WIDE), THREADS, 0, stream>>>(__VA_ARGS__);                                 \
    else                                                                                                               \
        kernel<1><<<blocks_for(count), THREADS, 0, stream>>>(__VA_ARGS__);

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
template <class T>
static __global__ void dropout(const T *src, const uint32_t *samples, T *dst, struct ls_cuda_dropout d,
                               const struct ls_cuda_now *now)
{
    const int64_t quads = (d.n + 3) / 4;
    const float scale = 1.0f / (1.0f - d.p);
    const uint64_t seed = now ? now->seed : d.seed;
    const int64_t step = now ? now->step : d.step;
    FOR_EACH(i, d.mb * quads)
    {
        const struct divided at = divide(i, quads);
        const int64_t s = at.quotient, e = at.rest * 4;
        const uint32_t sample = samples && s < d.n_valid ? samples[s] : (uint32_t)s;
        const struct ls_rng4 r = ls__rng(seed, LS_RNG_DROPOUT, (uint32_t)step, (uint32_t)d.layer,
                                         (uint64_t)sample << 32 | (uint64_t)at.rest);
        for (int k = 0; k < 4 && e + k < d.n; k++)
            dst[s * d.n + e + k] = narrow<T>(ls__rng_unit(r.v[k]) >= d.p ? widen(src[s * d.n + e + k]) * scale : 0.0f);
    }
}

extern "C" cudaError_t ls__cuda_run_dropout(cudaStream_t stream, const void *src, const uint32_t *samples, void *dst,
                                            struct ls_cuda_dropout d, const struct ls_cuda_now *now)
{
    const unsigned blocks = blocks_for(d.mb * ((d.n + 3) / 4));
    if (d.type == LS_CUDA_BF16)
        dropout<<<blocks, THREADS, 0, stream>>>((const bf16 *)src, samples, (bf16 *)dst, d, now);
    else
        dropout<<<blocks, THREADS, 0, stream>>>((const float *)src, samples, (float *)dst, d, now);
    return cudaGetLastError();
}
