/* small.cuh: what the ops of small networks share: the threads of a sample, its values, their exchange. */
#ifndef LS_BACKEND_CUDA_SMALL_CUH
#define LS_BACKEND_CUDA_SMALL_CUH

#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/small.h"

extern __shared__ __align__(16) float pool[]; /* values of the sample, and weights of convolutions */

/* The threads that take a sample through the ops: those of `size` blocks. */
struct team {
    int sample;
    int first, n; /* this thread's number, and how many there are */
    int rank, size;
};

static __device__ __forceinline__ const float *shared_of(const struct ls_cuda_small_value &v)
{
    return pool + v.at;
}

static __device__ __forceinline__ uint32_t divided_by(const struct ls_cuda_divisor &d, uint32_t i)
{
    return d.factor ? __umulhi(i, d.factor) : i;
}

/* To the same place in the shared memory of every other block of the team. */
static __device__ __forceinline__ void put_afar(const struct team &t, float *at, float x)
{
#if __CUDA_ARCH__ >= 900
    const uint32_t here = (uint32_t)__cvta_generic_to_shared(at);
#pragma unroll 1
    for (int r = 0; r < t.size; r++) {
        uint32_t there;
        if (r == t.rank) continue;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(r));
        asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(there), "f"(x) : "memory");
    }
#endif
}

/* Where a value of the sample goes: into shared memory for the next ops, into memory for those of later kernels. */
struct sink {
    float *memory, *shared;
};

static __device__ __forceinline__ struct sink sink_of(const struct team &t, const struct ls_cuda_small_value &v)
{
    struct sink s;
    s.memory = (float *)__cvta_generic_to_global(v.data + (int64_t)t.sample * v.n);
    s.shared = pool + v.at;
    return s;
}

/* Element i. What is read in this kernel is never what was written to memory in it, so nothing need wait. */
static __device__ __forceinline__ void put(const struct team &t, const struct sink &to, int i, float x)
{
    asm volatile("st.global.f32 [%0], %1;" ::"l"(to.memory + i), "f"(x));
    to.shared[i] = x;
    if (t.size > 1) put_afar(t, to.shared + i, x);
}

/* f(i) for all i < n, to element i: four at a time, so that they wait for each other's reads only once. */
template <class F>
static __device__ __forceinline__ void put_all(const struct team &t, const struct sink &to, int n, F f)
{
    enum { AT_ONCE = 4 };
    for (int first = t.first; first < n; first += AT_ONCE * t.n) {
        float x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) x[k] = f(min(first + k * t.n, n - 1));
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (first + k * t.n < n) put(t, to, first + k * t.n, x[k]);
    }
}

/* Weights and what else no kernel changes while it is read here. */
template <int V> static __device__ __forceinline__ struct pack<V> load_constant(const float *x, int64_t i) {
    struct pack<V> p;
    if (V == 4) {
        const float4 f = __ldg(reinterpret_cast<const float4 *>(x) + i);
        p.v[0] = f.x;
        p.v[1 % V] = f.y;
        p.v[2 % V] = f.z;
        p.v[3 % V] = f.w;
    } else {
        p.v[0] = __ldg(x + i);
    }
    return p;
}

/* Until all threads of the sample have come here, and have seen what the others put. */
static __device__ __forceinline__ void
meet(const struct team &t)
{
#if __CUDA_ARCH__ >= 900
    if (t.size > 1) {
        /* not .aligned: after a loop the threads of a warp need not be together */
        asm volatile("barrier.cluster.arrive.release;" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
        return;
    }
#endif
    __syncthreads();
}

/* Shared memory gets bytes without a thread waiting for them; await_copies does. */
static __device__ __forceinline__ void copy_word(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}

static __device__ __forceinline__ void copy_four(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}

static __device__ __forceinline__ void await_copies(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* The sum over groups of n neighbouring lanes, n a power of two, in all of them. */
static __device__ __forceinline__ float lanes_sum(float x, int n)
{
    for (int offset = n / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

#endif
