/* jobs.cu: into fixed point (reduce), out of it (updates), and parameters' copies in bf16: many tensors in one launch.
 * Each element alone, so no order matters; the arithmetic is ref's, rounding for rounding. A thread has GROUPS of four
 * neighbours each and reads all it needs before it writes, so that the reads do not wait for each other. */
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/typed.cuh"

enum {
    QUAD = 4,
    GROUPS = 2,
    CHUNK = THREADS * QUAD * GROUPS
}; /* elements of a group; groups of a thread; of a block */

static_assert(sizeof(struct ls_cuda_jobs) <= 32764 - 2 * sizeof(void *), "what a kernel takes as arguments");

#define EACH_OF_QUAD(k) _Pragma("unroll") for (int k = 0; k < QUAD; k++)
#define EACH_GROUP(u) _Pragma("unroll") for (int u = 0; u < GROUPS; u++)

/* A group: `n` elements from `first` on, none if n < 1. All tensors begin at multiples of 16 bytes. */
struct mine {
    int64_t first;
    int n;
};

template <class T> struct quad {
    T v[QUAD];
};

template <class T> static __device__ __forceinline__ struct quad<T> read(const void *from, const struct mine &m) {
    constexpr int V = sizeof(T) * QUAD > 16 ? 16 / sizeof(T) : QUAD;
    struct quad<T> q;
    if (m.n == QUAD) {
#pragma unroll
        for (int p = 0; p < QUAD / V; p++) {
            const struct stored<T, V> s = reinterpret_cast<const struct stored<T, V> *>(from)[m.first / V + p];
#pragma unroll
            for (int k = 0; k < V; k++) q.v[p * V + k] = s.v[k];
        }
        return q;
    }
    EACH_OF_QUAD(k) if (k < m.n) q.v[k] = ((const T *)from)[m.first + k];
    return q;
} template <class T>
static __device__ __forceinline__ void write(void *to, const struct mine &m, const struct quad<T> &q)
{
    constexpr int V = sizeof(T) * QUAD > 16 ? 16 / sizeof(T) : QUAD;
    if (m.n == QUAD) {
#pragma unroll
        for (int p = 0; p < QUAD / V; p++) {
            struct stored<T, V> s;
#pragma unroll
            for (int k = 0; k < V; k++) s.v[k] = q.v[p * V + k];
            reinterpret_cast<struct stored<T, V> *>(to)[m.first / V + p] = s;
        }
        return;
    }
    EACH_OF_QUAD(k) if (k < m.n)((T *)to)[m.first + k] = q.v[k];
}

/* src as floats, of either type. */
static __device__ __forceinline__ struct quad<float> source(const struct ls_cuda_job &j, const struct mine &m) {
    struct quad<float> x;
    if (j.type == LS_CUDA_F32) return read<float>(j.src, m);
    const struct quad<bf16> narrow = read<bf16>(j.src, m);
    EACH_OF_QUAD(k) x.v[k] = widen(narrow.v[k]);
    return x;
}

static __device__ void
check(const struct ls_cuda_job &j, const struct mine m[GROUPS], struct ls_cuda_fault *fault)
{
    struct quad<float> x[GROUPS];
    EACH_GROUP(u) x[u] = source(j, m[u]);
    EACH_GROUP(u) EACH_OF_QUAD(k) if (k < m[u].n && is_bad(j.reduce, x[u].v[k])) report(fault, j.reduce.fault_id, 0);
}

static __device__ void reduce(const struct ls_cuda_job &j, const struct mine m[GROUPS], struct ls_cuda_fault *fault)
{
    struct quad<float> x[GROUPS];
    struct quad<int64_t> sum[GROUPS];
    EACH_GROUP(u) x[u] = source(j, m[u]);
    EACH_GROUP(u) sum[u] = read<int64_t>(j.sum, m[u]);
    EACH_GROUP(u)
    {
        EACH_OF_QUAD(k)
        {
            if (k >= m[u].n) break;
            if (is_bad(j.reduce, x[u].v[k])) report(fault, j.reduce.fault_id, 0);
            sum[u].v[k] = added(j.reduce, sum[u].v[k], x[u].v[k]);
        }
        write(j.sum, m[u], sum[u]);
    }
}

/* What becomes a gradient: read first, so that nothing waits twice. */
struct taken {
    struct quad<int64_t> sum[GROUPS];
    struct quad<float> x[GROUPS];
};

static __device__ __forceinline__ void fetch(const struct ls_cuda_job &j, const struct mine m[GROUPS], struct taken *t)
{
    const bool has_sum = !j.src || !j.reduce.is_only;
    EACH_GROUP(u) t->sum[u] = {};
    if (j.src) EACH_GROUP(u) t->x[u] = source(j, m[u]);
    if (has_sum) EACH_GROUP(u) t->sum[u] = read<int64_t>(j.sum, m[u]);
}

/* (double)__double2ll_rn(x), by additions, of which a card makes four times as many; never -0. */
static __device__ __forceinline__ double rounded(double x)
{
    const double whole = copysign(4503599627370496.0, x); /* 2^52: from there on x has no fraction */
    return fabs(x) < 4503599627370496.0 ? (x + whole) - whole + 0.0 : x;
}

/* The gradients; their sums are set back to zero for the next step. */
static __device__ __forceinline__ void take(const struct ls_cuda_job &j, const struct mine m[GROUPS], struct taken *t,
                                            struct quad<float> g[GROUPS])
{
    if (j.src && j.reduce.is_only && !j.reduce.is_float) { /* no sum is in memory */
        const double factor = j.reduce.factor, unit = j.unit;
        EACH_GROUP(u)
        EACH_OF_QUAD(k) g[u].v[k] = (float)(rounded((double)t->x[u].v[k] * factor) * unit) * j.clip;
        return;
    }
    EACH_GROUP(u)
    {
        bool is_zero = true;
        EACH_OF_QUAD(k)
        {
            if (k >= m[u].n) break;
            const int64_t total = j.src ? added(j.reduce, t->sum[u].v[k], t->x[u].v[k]) : t->sum[u].v[k];
            is_zero = is_zero && t->sum[u].v[k] == 0;
            g[u].v[k] = (float)((double)total * j.unit) * j.clip;
            t->sum[u].v[k] = 0;
        }
        if (!is_zero) write(j.sum, m[u], t->sum[u]);
    }
}

static __device__ __forceinline__ void write_param(const struct ls_cuda_job &j, const struct mine &m,
                                                   const struct quad<float> &p)
{
    struct quad<bf16> y;
    write(j.a, m, p);
    if (!j.copy) return;
    EACH_OF_QUAD(k) y.v[k] = narrow<bf16>(p.v[k]);
    write(j.copy, m, y);
}

static __device__ __forceinline__ bool is_set(const struct ls_cuda_fault *fault)
{
    return __ldcg(&fault->id) != 0;
}

static __device__ __forceinline__ void sgd(const struct ls_cuda_job &j, const struct mine m[GROUPS],
                                           const struct ls_cuda_fault *fault, const struct ls_cuda_now *now)
{
    const struct ls_cuda_sgd &a = j.of.sgd;
    const float lr = ls__cuda_sgd_lr(&a, now);
    struct quad<float> p[GROUPS], b[GROUPS], g[GROUPS];
    struct taken t;
    EACH_GROUP(u) p[u] = read<float>(j.a, m[u]);
    if (j.b) EACH_GROUP(u) b[u] = read<float>(j.b, m[u]);
    fetch(j, m, &t);
    if (is_set(fault)) return;
    take(j, m, &t, g);
    EACH_GROUP(u)
    {
        EACH_OF_QUAD(k)
        {
            if (k >= m[u].n) break;
            const float d = g[u].v[k] + a.decay * p[u].v[k];
            if (j.b) b[u].v[k] = a.momentum * b[u].v[k] + d;
            const float by = !j.b ? d : a.nesterov ? d + a.momentum * b[u].v[k] : b[u].v[k];
            p[u].v[k] = p[u].v[k] - lr * by;
        }
        if (j.b) write(j.b, m[u], b[u]);
        write_param(j, m[u], p[u]);
    }
}

static __device__ __forceinline__ void adamw(const struct ls_cuda_job &j, const struct mine m[GROUPS],
                                             const struct ls_cuda_fault *fault, const struct ls_cuda_now *now)
{
    const struct ls_cuda_adamw a = now && j.rates >= 0 ? now->rates[j.rates] : j.of.adamw;
    struct quad<float> p[GROUPS], first[GROUPS], second[GROUPS], g[GROUPS];
    struct taken t;
    EACH_GROUP(u) p[u] = read<float>(j.a, m[u]);
    EACH_GROUP(u) first[u] = read<float>(j.b, m[u]);
    EACH_GROUP(u) second[u] = read<float>(j.c, m[u]);
    fetch(j, m, &t);
    if (is_set(fault)) return;
    take(j, m, &t, g);
    EACH_GROUP(u)
    {
        EACH_OF_QUAD(k)
        {
            if (k >= m[u].n) break;
            const float m1 = first[u].v[k] + a.one_minus_beta1 * (g[u].v[k] - first[u].v[k]);
            const float v1 = a.beta2 * second[u].v[k] + a.one_minus_beta2 * (g[u].v[k] * g[u].v[k]);
            first[u].v[k] = m1;
            second[u].v[k] = v1;
            p[u].v[k] = p[u].v[k] * a.keep - a.step_size * (m1 / (sqrtf(v1) / a.root_correction2 + a.eps));
        }
        write(j.b, m[u], first[u]);
        write(j.c, m[u], second[u]);
        write_param(j, m[u], p[u]);
    }
}

static __device__ __forceinline__ void running(const struct ls_cuda_job &j, const struct mine m[GROUPS],
                                               const struct ls_cuda_fault *fault)
{
    struct quad<float> r[GROUPS], g[GROUPS];
    struct taken t;
    EACH_GROUP(u) r[u] = read<float>(j.a, m[u]);
    fetch(j, m, &t);
    if (is_set(fault)) return;
    take(j, m, &t, g);
    EACH_GROUP(u)
    {
        EACH_OF_QUAD(k) if (k < m[u].n) r[u].v[k] = (1.0f - j.of.momentum) * r[u].v[k] + j.of.momentum * g[u].v[k];
        write(j.a, m[u], r[u]);
    }
}

static __device__ void copy_narrow(const struct ls_cuda_job &j, const struct mine m[GROUPS])
{
    struct quad<float> x[GROUPS];
    EACH_GROUP(u) x[u] = read<float>(j.src, m[u]);
    EACH_GROUP(u)
    {
        struct quad<bf16> y;
        EACH_OF_QUAD(k) if (k < m[u].n) y.v[k] = narrow<bf16>(x[u].v[k]);
        write(j.a, m[u], y);
    }
}

/* The job of this block: the last that begins at or before it. */
static __device__ int find(const struct ls_cuda_jobs &jobs)
{
    int low = 0, high = jobs.n;
    while (high - low > 1) {
        const int middle = (low + high) / 2;
        if (jobs.first_block[middle] <= blockIdx.x)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static __device__ __forceinline__ void find_mine(const struct ls_cuda_job &j, unsigned first_block,
                                                 struct mine m[GROUPS])
{
    EACH_GROUP(u)
    {
        m[u].first = (int64_t)(blockIdx.x - first_block) * CHUNK + (u * THREADS + (int)threadIdx.x) * QUAD;
        const int64_t left = j.n - m[u].first;
        m[u].n = left < QUAD ? (int)(left < 0 ? 0 : left) : QUAD;
    }
}

/* Three kernels, for some need more registers than the others. */
static __global__ void __launch_bounds__(THREADS)
    run_sums(const __grid_constant__ struct ls_cuda_jobs jobs, struct ls_cuda_fault *fault)
{
    const int which = find(jobs);
    const struct ls_cuda_job &j = jobs.list[which];
    struct mine m[GROUPS];
    find_mine(j, jobs.first_block[which], m);
    if (j.kind == LS_CUDA_JOB_CHECK) return check(j, m, fault);
    if (j.kind == LS_CUDA_JOB_NARROW) return copy_narrow(j, m);
    reduce(j, m, fault);
}

template <bool HAS_ADAMW>
static __global__ void __launch_bounds__(THREADS, HAS_ADAMW ? 2 : 3)
    run_updates(const __grid_constant__ struct ls_cuda_jobs jobs, const struct ls_cuda_fault *fault,
                const struct ls_cuda_now *now)
{
    const int which = find(jobs);
    const struct ls_cuda_job &j = jobs.list[which];
    struct mine m[GROUPS];
    find_mine(j, jobs.first_block[which], m);
    if (j.kind == LS_CUDA_JOB_RUNNING) return running(j, m, fault);
    if (HAS_ADAMW)
        adamw(j, m, fault, now);
    else
        sgd(j, m, fault, now);
}

extern "C" cudaError_t ls__cuda_run_jobs(cudaStream_t stream, struct ls_cuda_jobs *jobs, struct ls_cuda_fault *fault,
                                         const struct ls_cuda_now *now)
{
    int64_t blocks = 0;
    for (int i = 0; i < jobs->n; i++) {
        jobs->first_block[i] = (unsigned)blocks;
        blocks += (jobs->list[i].n + CHUNK - 1) / CHUNK;
    }
    if (blocks == 0) return cudaSuccess;
    if (blocks > 0x7fffffff) return cudaErrorInvalidConfiguration;
    bool has_sgd = false, has_adamw = false, has_update = false;
    for (int i = 0; i < jobs->n; i++) {
        has_sgd = has_sgd || jobs->list[i].kind == LS_CUDA_JOB_SGD;
        has_adamw = has_adamw || jobs->list[i].kind == LS_CUDA_JOB_ADAMW;
        has_update = has_update || jobs->list[i].kind == LS_CUDA_JOB_RUNNING;
    }
    if (has_sgd && has_adamw) return cudaErrorInvalidValue; /* a network has one optimizer */
    if (has_adamw)
        run_updates<true><<<(unsigned)blocks, THREADS, 0, stream>>>(*jobs, fault, now);
    else if (has_sgd || has_update)
        run_updates<false><<<(unsigned)blocks, THREADS, 0, stream>>>(*jobs, fault, now);
    else
        run_sums<<<(unsigned)blocks, THREADS, 0, stream>>>(*jobs, fault);
    return cudaGetLastError();
}

static __global__ void run_now(struct ls_cuda_next_now next)
{
    if (threadIdx.x == 0) set_now(next);
}

extern "C" cudaError_t ls__cuda_run_now(cudaStream_t stream, struct ls_cuda_next_now next)
{
    run_now<<<1, WARP, 0, stream>>>(next);
    return cudaGetLastError();
}
