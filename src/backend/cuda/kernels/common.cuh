/* common.cuh: what the kernels share: grids, indices, sums in a fixed order. */
#ifndef LS_BACKEND_CUDA_COMMON_CUH
#define LS_BACKEND_CUDA_COMMON_CUH

#include "backend/cuda/kernels/kernels.h"

enum { THREADS = 256, WARP = 32 };

/* Blocks for n elements at one per thread; beyond what a grid may have, threads take more than one. */
static inline unsigned blocks_for(int64_t n)
{
    const int64_t blocks = (n + THREADS - 1) / THREADS;
    return blocks < 1 ? 1u : blocks < 1 << 20 ? (unsigned)blocks : 1u << 20;
}

#define FOR_EACH(i, n)                                                                                                 \
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (int64_t)gridDim.x * blockDim.x)

/* i / n and i % n: in 32 bits where that is enough, which is many times faster. */
struct divided {
    int64_t quotient, rest;
};
static __device__ __forceinline__ struct divided divide(int64_t i, int64_t n)
{
    struct divided d;
    if ((uint64_t)i <= 0xffffffffu && (uint64_t)n <= 0xffffffffu) {
        d.quotient = (uint32_t)i / (uint32_t)n;
        d.rest = (uint32_t)i % (uint32_t)n;
    } else {
        d.quotient = i / n;
        d.rest = i % n;
    }
    return d;
}

/* The same by a divisor that the host has prepared, a product and a shift: factor is 2^shift / n rounded up. For i
 * below 2^31 that is exact: i * factor / 2^shift exceeds i / n by less than 1 / n. */
struct divisor {
    uint32_t n, factor, shift;
};
static inline struct divisor divisor_of(int n)
{
    struct divisor d = {(uint32_t)n, 0, 31};
    while ((uint32_t)1 << (d.shift - 31) < d.n) d.shift++;
    d.factor = (uint32_t)((((uint64_t)1 << d.shift) + d.n - 1) / d.n);
    return d;
}
struct divided32 {
    int quotient, rest;
};
static __device__ __forceinline__ struct divided32 divide(uint32_t i, const struct divisor &by)
{
    struct divided32 d;
    d.quotient = (int)((uint64_t)i * by.factor >> by.shift);
    d.rest = (int)(i - (uint32_t)d.quotient * by.n);
    return d;
}

/* Four neighbours in one access, where the number of elements allows it; all tensors begin at multiples of 64 bytes. */
template <int V> struct alignas(4 * V) pack {
    float v[V];
};
enum { WIDE = 4 };
template <int V> static __device__ __forceinline__ struct pack<V> load(const float *x, int64_t i) {
    return reinterpret_cast<const struct pack<V> *>(x)[i];
} template <int V> static __device__ __forceinline__ void store(float *x, int64_t i, const struct pack<V> &p)
{
    reinterpret_cast<struct pack<V> *>(x)[i] = p;
}

/* Keeps NaN, as ref's does. */
static __device__ __forceinline__ float relu1(float x)
{
    return x <= 0.0f ? 0.0f : x;
}

static __device__ __forceinline__ double warp_sum(double x)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_down_sync(0xffffffffu, x, offset);
    return x; /* in lane 0 */
}

/* The sum over a block of THREADS threads, in thread 0. `shared` has one element per warp and is free afterwards. */
static __device__ __forceinline__ double block_sum(double x, double *shared)
{
    const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    x = threadIdx.x < THREADS / WARP ? shared[threadIdx.x] : 0.0;
    if (warp == 0) x = warp_sum(x);
    __syncthreads();
    return x;
}

/* One thread; see struct ls_cuda_next_now. */
static __device__ __forceinline__ void set_now(const struct ls_cuda_next_now &next)
{
    if (!next.now) return;
    if (next.fault->id == 0)
        *next.now = next.values;
    else
        next.fault->is_over = 1;
}

/* Of all that fail in a step the lowest is remembered: who comes first differs from run to run. Both numbers are
 * exchanged as one word. */
static __device__ __forceinline__ void report(struct ls_cuda_fault *fault, int id, int detail)
{
    unsigned long long *word = reinterpret_cast<unsigned long long *>(fault);
    const unsigned long long mine = (unsigned long long)(unsigned)id << 32 | (unsigned)detail;
    if (__ldcg(&fault->is_over)) return;
    unsigned long long seen = __ldcg(word);
    while (seen == 0 || mine < seen) {
        const unsigned long long before = atomicCAS(word, seen, mine);
        if (before == seen) return;
        seen = before;
    }
}

#endif
