/* small.cuh: what the ops of small networks share: the threads of a sample, its values, their exchange. */
#ifndef LS_BACKEND_CUDA_SMALL_CUH
#define LS_BACKEND_CUDA_SMALL_CUH

#include "backend/cuda/kernels/common.cuh"
#include "backend/cuda/kernels/small.h"

extern __shared__ __align__(16) float pool[]; /* values of the sample, and weights of convolutions */

enum { LARGEST_TEAM = LS_CUDA_SMALL_LARGEST_TEAM };

/* The threads that take a sample through the ops: those of `size` blocks. */
struct team {
    int sample;
    int first, n; /* this thread's number, and how many there are */
    int rank, size;
    uint32_t others[LARGEST_TEAM - 1]; /* where the shared memory of each other block begins, less our own's */
};

static __device__ __forceinline__ const float *shared_of(const struct ls_cuda_small_value &v)
{
    return pool + v.at;
}

static __device__ __forceinline__ uint32_t divided_by(const struct ls_cuda_divisor &d, uint32_t i)
{
    return d.factor ? __umulhi(i, d.factor) : i;
}

static __device__ __forceinline__ void find_others(struct team &t)
{
#if __CUDA_ARCH__ >= 900
    const uint32_t here = (uint32_t)__cvta_generic_to_shared(pool);
    for (int i = 0; i < LARGEST_TEAM - 1; i++) {
        uint32_t there = here;
        const int rank = i < t.rank ? i : i + 1;
        if (rank < t.size) asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
        t.others[i] = there - here;
    }
#endif
}

/* To the same place in the shared memory of every other block of the team, if `is`. */
static __device__ __forceinline__ void put_afar(const struct team &t, bool is, const float *at, float x)
{
#if __CUDA_ARCH__ >= 900
    const uint32_t here = (uint32_t)__cvta_generic_to_shared(at);
#pragma unroll
    for (int i = 0; i < LARGEST_TEAM - 1; i++)
        asm volatile(
            "{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.shared::cluster.f32 [%0], %1; }" ::"r"(here + t.others[i]),
            "f"(x), "r"((int)(is && i < t.size - 1)));
#endif
}

/* Where word i of a value lies behind its first in shared memory. */
static __device__ __forceinline__ int spread(const struct ls_cuda_small_value &v, int i)
{
    return v.gap ? i + (int)divided_by(v.row, i) * v.gap : i;
}

/* The zeros between rows. Each block of the team has its own. */
static __device__ __forceinline__ void clear_gaps(const struct ls_cuda_small_value &v)
{
    if (v.gap == 0) return;
    const int w = (int)v.row.by, rows = (int)divided_by(v.row, v.n);
    for (int r = threadIdx.x; r <= rows; r += blockDim.x)
        for (int i = 1; i <= v.gap; i++) pool[v.at + r * (w + v.gap) - i] = 0.0f;
}

/* Where a value of the sample goes: into shared memory for the next ops, into memory for those of later kernels. */
struct sink {
    float *memory, *shared;
    bool is_written; /* a later kernel reads it */
};

static __device__ __forceinline__ struct sink sink_of(const struct team &t, const struct ls_cuda_small_value &v)
{
    struct sink s;
    s.memory = (float *)__cvta_generic_to_global(v.data + (int64_t)t.sample * v.n);
    s.shared = pool + v.at;
    s.is_written = v.is_written;
    return s;
}

/* If `is`, x goes to these places. Not a branch: there are many of these, and code has to be fetched. What is read in
 * this kernel is never what was written to memory in it, so nothing need wait. */
static __device__ __forceinline__ void put_if(const struct team &t, bool is, float *memory, bool is_written,
                                              float *shared, float x)
{
    asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; @p st.global.f32 [%0], %1; }" ::"l"(memory), "f"(x),
                 "r"((int)(is && is_written)));
    if (is) *shared = x;
    if (t.size > 1) put_afar(t, is, shared, x);
}

/* Element i, which lies at `at` in shared memory. */
static __device__ __forceinline__ void put(const struct team &t, const struct sink &to, int i, int at, float x)
{
    put_if(t, true, to.memory + i, to.is_written, to.shared + at, x);
}

/* Of an op: where its result goes, and whether it counts. */
struct result {
    struct sink to;
    struct ls_cuda_small_value out, mask;
};

static __device__ __forceinline__ struct result result_of(const struct team &t, const struct ls_cuda_small_op &op)
{
    struct result r;
    r.to = sink_of(t, op.out);
    r.out = op.out;
    r.mask = op.mask;
    clear_gaps(op.out);
    return r;
}

static __device__ __forceinline__ void put_result_if(const struct team &t, bool is, const struct result &r, int i,
                                                     float x)
{
    if (r.mask.data) x = pool[r.mask.at + spread(r.mask, i)] > 0.0f ? x : 0.0f;
    put_if(t, is, r.to.memory + i, r.to.is_written, r.to.shared + spread(r.out, i), x);
}

static __device__ __forceinline__ void put_result(const struct team &t, const struct result &r, int i, float x)
{
    put_result_if(t, true, r, i, x);
}

/* f(i) for all i < n, to element i: AT_ONCE at a time, so that they wait for each other's reads only once. */
template <int AT_ONCE, class F>
static __device__ __forceinline__ void put_all(const struct team &t, const struct ls_cuda_small_op &op, F f)
{
    const struct result r = result_of(t, op);
    const int n = r.out.n;
#pragma unroll 1
    for (int first = t.first; first < n; first += AT_ONCE * t.n) {
        float x[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) x[k] = f(min(first + k * t.n, n - 1));
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) put_result_if(t, first + k * t.n < n, r, min(first + k * t.n, n - 1), x[k]);
    }
}

/* Until all threads of the sample have come here, and have seen what the others put. */
static __device__ __forceinline__ void meet(const struct team &t)
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

/* Shared memory gets bytes without a thread waiting for them; await_copies does. For few bytes: a multiprocessor takes
 * such a copy at about a lane per cycle, words and fours alike. */
static __device__ __forceinline__ void copy_four(float *to, const float *from)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"((uint32_t)__cvta_generic_to_shared(to)), "l"(from)
                 : "memory");
}

static __device__ __forceinline__ void await_copies(void)
{
    asm volatile("cp.async.wait_all;" ::: "memory");
}

/* Many bytes, a multiple of 16, which come by themselves: one thread tells `arrival` first how many of all copies are
 * expected. Others may await it when they have met that thread since. Older cards copy by all threads. */
static __device__ __forceinline__ void expect_bytes(uint64_t *arrival, uint32_t n_bytes)
{
#if __CUDA_ARCH__ >= 900
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(arrival);
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(n_bytes) : "memory");
#endif
}

static __device__ __forceinline__ void copy_bytes(float *to, const float *from, uint32_t n_bytes, uint64_t *arrival)
{
#if __CUDA_ARCH__ >= 900
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(n_bytes), "r"((uint32_t)__cvta_generic_to_shared(arrival))
                 : "memory");
#endif
}

static __device__ __forceinline__ void await_bytes(uint64_t *arrival)
{
#if __CUDA_ARCH__ >= 900
    int is_here = 0;
    while (!is_here)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0; selp.s32 %0, 1, 0, p; }"
                     : "=r"(is_here)
                     : "r"((uint32_t)__cvta_generic_to_shared(arrival))
                     : "memory");
#else
    await_copies();
#endif
}

/* All sums of a thread over groups of n neighbouring lanes, n a power of two, in all of them. */
template <int N> static __device__ __forceinline__ void lanes_sums(float sums[N], int n)
{
#pragma unroll 1
    for (int offset = n / 2; offset > 0; offset /= 2)
#pragma unroll
        for (int i = 0; i < N; i++) sums[i] += __shfl_xor_sync(0xffffffffu, sums[i], offset);
}

#endif
