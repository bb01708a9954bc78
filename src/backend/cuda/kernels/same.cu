/* same.cu: relu, its gradient, add: each element alone and all alike, so the layout does not matter. In float32 with
 * ref's arithmetic; bf16 is computed with as float32 and rounded once. */
#include "backend/cuda/kernels/typed.cuh"

template <class T, int V> static __global__ void relu(const void *src, void *dst, int64_t n)
{
    FOR_EACH(i, n / V)
    {
        struct floats<V> x = get<T, V>(src, i);
        for (int k = 0; k < V; k++) x.v[k] = relu1(x.v[k]);
        put<T, V>(dst, i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_relu(cudaStream_t stream, enum ls_cuda_type type, const void *src, void *dst,
                                         int64_t n)
{
#define CALL(T, V) relu<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(src, dst, n);
    BY_TYPE(type, n, CALL)
#undef CALL
    return cudaGetLastError();
}

template <class T, int V>
static __global__ void relu_bwd(const void *dst, const void *diff_dst, void *diff_src, int64_t n)
{
    FOR_EACH(i, n / V)
    {
        const struct floats<V> y = get<T, V>(dst, i);
        struct floats<V> d = get<T, V>(diff_dst, i);
        for (int k = 0; k < V; k++) d.v[k] = y.v[k] > 0.0f ? d.v[k] : 0.0f;
        put<T, V>(diff_src, i, d);
    }
}

extern "C" cudaError_t ls__cuda_run_relu_bwd(cudaStream_t stream, enum ls_cuda_type type, const void *dst,
                                             const void *diff_dst, void *diff_src, int64_t n)
{
#define CALL(T, V) relu_bwd<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(dst, diff_dst, diff_src, n);
    BY_TYPE(type, n, CALL)
#undef CALL
    return cudaGetLastError();
}

template <class T, int V> static __global__ void add(const void *a, const void *b, void *dst, int64_t n, bool has_relu)
{
    FOR_EACH(i, n / V)
    {
        struct floats<V> x = get<T, V>(a, i);
        const struct floats<V> y = get<T, V>(b, i);
        for (int k = 0; k < V; k++) {
            const float v = x.v[k] + y.v[k];
            x.v[k] = has_relu ? relu1(v) : v;
        }
        put<T, V>(dst, i, x);
    }
}

extern "C" cudaError_t ls__cuda_run_add(cudaStream_t stream, enum ls_cuda_type type, const void *a, const void *b,
                                        void *dst, int64_t n, bool relu)
{
#define CALL(T, V) add<T, V><<<blocks_for(n / V), THREADS, 0, stream>>>(a, b, dst, n, relu);
    BY_TYPE(type, n, CALL)
#undef CALL
    return cudaGetLastError();
}
