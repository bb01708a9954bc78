/* typed.cuh: elements of either type, several in one access; computed with as floats. */
#ifndef LS_BACKEND_CUDA_TYPED_CUH
#define LS_BACKEND_CUDA_TYPED_CUH

#include "backend/cuda/kernels/common.cuh"

#include <cuda_bf16.h>

typedef __nv_bfloat16 bf16;

static __device__ __forceinline__ float widen(float x)
{
    return x;
}
static __device__ __forceinline__ float widen(bf16 x)
{
    return __bfloat162float(x);
}
template <class T> static __device__ __forceinline__ T narrow(float x);
template <> __device__ __forceinline__ float narrow<float>(float x)
{
    return x;
}
template <> __device__ __forceinline__ bf16 narrow<bf16>(float x)
{
    return __float2bfloat16_rn(x);
}

/* V neighbours, V * sizeof(T) a power of two up to 16. */
template <class T, int V> struct alignas(sizeof(T) * V) stored {
    T v[V];
};
template <int V> struct floats {
    float v[V];
};
template <class T, int V> static __device__ __forceinline__ struct stored<T, V> fetch(const void *x, int64_t i) {
    return reinterpret_cast<const struct stored<T, V> *>(x)[i];
} template <class T, int V> static __device__ __forceinline__ struct floats<V> widened(const struct stored<T, V> &s) {
    struct floats<V> f;
#pragma unroll
    for (int k = 0; k < V; k++) f.v[k] = widen(s.v[k]);
    return f;
} template <class T, int V> static __device__ __forceinline__ struct floats<V> get(const void *x, int64_t i) {
    const struct stored<T, V> s = fetch<T, V>(x, i);
    struct floats<V> f;
#pragma unroll
    for (int k = 0; k < V; k++) f.v[k] = widen(s.v[k]);
    return f;
} template <class T, int V> static __device__ __forceinline__ void put(void *x, int64_t i, const struct floats<V> &f)
{
    struct stored<T, V> s;
#pragma unroll
    for (int k = 0; k < V; k++) s.v[k] = narrow<T>(f.v[k]);
    reinterpret_cast<struct stored<T, V> *>(x)[i] = s;
}

/* Neighbours that wait in registers, as whole words: behind a branch the compiler would keep each in a register of its
 * own. */
template <int BYTES> struct words;
template <> struct words<16> {
    typedef uint4 type;
};
template <> struct words<8> {
    typedef uint2 type;
};
template <> struct words<4> {
    typedef uint32_t type;
};
template <> struct words<2> {
    typedef uint16_t type;
};
template <> struct words<1> {
    typedef uint8_t type;
};
template <class T, int V> struct held {
    typename words<sizeof(T) * V>::type w;
};
template <class T, int V> static __device__ __forceinline__ struct held<T, V> hold(const void *x, int64_t i) {
    return {reinterpret_cast<const typename words<sizeof(T) * V>::type *>(x)[i]};
} template <class T, int V> static __device__ __forceinline__ struct stored<T, V> unpack(const struct held<T, V> &h) {
    return reinterpret_cast<const struct stored<T, V> &>(h.w);
}

/* CALL is a macro of (type, elements per access): 16 bytes where n allows it. */
#define BY_TYPE(type, n, CALL)                                                                                         \
    if ((type) == LS_CUDA_BF16 && (n) % 8 == 0) {                                                                      \
        CALL(bf16, 8)                                                                                                  \
    } else if ((type) == LS_CUDA_BF16) {                                                                               \
        CALL(bf16, 1)                                                                                                  \
    } else if ((n) % 4 == 0) {                                                                                         \
        CALL(float, 4)                                                                                                 \
    } else {                                                                                                           \
        CALL(float, 1)                                                                                                 \
    }

#endif
