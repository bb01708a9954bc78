/* activation.cu: activations element by element and their gradients, in float32; ref/activation.c has the formulas. The
 * layout does not matter. */
#include "backend/cuda/kernels/typed.cuh"

static __device__ __forceinline__ float sigmoid(float x)
{
    const float e = expf(-fabsf(x));
    return x < 0.0f ? e / (1.0f + e) : 1.0f / (1.0f + e);
}

static __device__ __forceinline__ float gelu_inner(float x)
{
    return 1.5957691216f * (x + 0.044715f * x * x * x); /* sqrt(8 / pi) */
}

template <int F> static __device__ __forceinline__ float forward1(float x, float alpha)
{
    switch (F) {
    case LS_CUDA_GELU:
        return x * normcdff(x);
    case LS_CUDA_GELU_TANH:
        return x * sigmoid(gelu_inner(x));
    case LS_CUDA_SILU:
        return x * sigmoid(x);
    case LS_CUDA_HARDSWISH:
        return x <= -3.0f ? 0.0f : x >= 3.0f ? x : x * (x + 3.0f) / 6.0f;
    case LS_CUDA_TANH:
        return tanhf(x);
    case LS_CUDA_SIGMOID:
        return sigmoid(x);
    case LS_CUDA_LEAKY_RELU:
        return x < 0.0f ? alpha * x : x;
    default: /* LS_CUDA_RELU6 */
        return x <= 0.0f ? 0.0f : x >= 6.0f ? 6.0f : x;
    }
}

/* The derivative, given src, or dst for tanh and sigmoid. */
template <int F> static __device__ __forceinline__ float slope1(float x, float alpha)
{
    float s;
    switch (F) {
    case LS_CUDA_GELU:
        return normcdff(x) + x * expf(-0.5f * x * x) * 0.3989422804f;
    case LS_CUDA_GELU_TANH:
        s = sigmoid(gelu_inner(x));
        return s + x * s * (1.0f - s) * (1.5957691216f * (1.0f + 0.134145f * x * x));
    case LS_CUDA_SILU:
        s = sigmoid(x);
        return s + x * s * (1.0f - s);
    case LS_CUDA_HARDSWISH:
        return x <= -3.0f ? 0.0f : x >= 3.0f ? 1.0f : x / 3.0f + 0.5f;
    case LS_CUDA_TANH:
        return (1.0f - x) * (1.0f + x);
    case LS_CUDA_SIGMOID:
        return x * (1.0f - x);
    case LS_CUDA_LEAKY_RELU:
        return x > 0.0f ? 1.0f : alpha;
    default: /* LS_CUDA_RELU6 */
        return x > 0.0f && x < 6.0f ? 1.0f : 0.0f;
    }
}

template <int F, class T, int V> static __global__ void forward(const void *src, void *dst, int64_t n, float alpha)
{
    FOR_EACH(i, n / V)
    {
        struct floats<V> x = get<T, V>(src, i);
        for (int k = 0; k < V; k++) x.v[k] = forward1<F>(x.v[k], alpha);
        put<T, V>(dst, i, x);
    }
}

template <int F, class T, int V>
static __global__ void backward(const void *x, const void *diff_dst, void *diff_src, int64_t n, float alpha)
{
    FOR_EACH(i, n / V)
    {
        const struct floats<V> at = get<T, V>(x, i);
        struct floats<V> d = get<T, V>(diff_dst, i);
        for (int k = 0; k < V; k++) d.v[k] *= slope1<F>(at.v[k], alpha);
        put<T, V>(diff_src, i, d);
    }
}

/* CALL for every F. */
#define BY_FUNCTION(f, CALL)                                                                                           \
    switch (f) {                                                                                                       \
    case LS_CUDA_GELU:                                                                                                 \
        CALL(LS_CUDA_GELU) break;                                                                                      \
    case LS_CUDA_GELU_TANH:                                                                                            \
        CALL(LS_CUDA_GELU_TANH) break;                                                                                 \
    case LS_CUDA_SILU:                                                                                                 \
        CALL(LS_CUDA_SILU) break;                                                                                      \
    case LS_CUDA_HARDSWISH:                                                                                            \
        CALL(LS_CUDA_HARDSWISH) break;                                                                                 \
    case LS_CUDA_TANH:                                                                                                 \
        CALL(LS_CUDA_TANH) break;                                                                                      \
    case LS_CUDA_SIGMOID:                                                                                              \
        CALL(LS_CUDA_SIGMOID) break;                                                                                   \
    case LS_CUDA_LEAKY_RELU:                                                                                           \
        CALL(LS_CUDA_LEAKY_RELU) break;                                                                                \
    case LS_CUDA_RELU6:                                                                                                \
        CALL(LS_CUDA_RELU6) break;                                                                                     \
    }

template <int F>
static void run_forward(cudaStream_t stream, enum ls_cuda_type type, const void *src, void *dst, int64_t n, float alpha)
{
#define CALL(T, V) forward<F, T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(src, dst, n, alpha);
    BY_TYPE(type, n, CALL)
#undef CALL
}

template <int F>
static void run_backward(cudaStream_t stream, enum ls_cuda_type type, const void *x, const void *diff_dst,
                         void *diff_src, int64_t n, float alpha)
{
#define CALL(T, V) backward<F, T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(x, diff_dst, diff_src, n, alpha);
    BY_TYPE(type, n, CALL)
#undef CALL
}

extern "C" cudaError_t ls__cuda_run_activation(cudaStream_t stream, enum ls_cuda_type type, enum ls_cuda_function f,
                                               const void *src, void *dst, int64_t n, float alpha)
{
#define CALL(F) run_forward<F>(stream, type, src, dst, n, alpha);
    BY_FUNCTION(f, CALL)
#undef CALL
    return cudaGetLastError();
}

extern "C" cudaError_t ls__cuda_run_activation_bwd(cudaStream_t stream, enum ls_cuda_type type, enum ls_cuda_function f,
                                                   const void *x, const void *diff_dst, void *diff_src, int64_t n,
                                                   float alpha)
{
#define CALL(F) run_backward<F>(stream, type, x, diff_dst, diff_src, n, alpha);
    BY_FUNCTION(f, CALL)
#undef CALL
    return cudaGetLastError();
}
