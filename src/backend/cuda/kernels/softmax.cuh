/* softmax.cuh: softmax, cross entropy and their gradient for one sample, by one warp, in double; ref/softmax_ce.c has
 * the formulas. */
#ifndef LS_BACKEND_CUDA_SOFTMAX_CUH
#define LS_BACKEND_CUDA_SOFTMAX_CUH

#include "backend/cuda/kernels/common.cuh"

struct best {
    float value;
    int at;
};

/* The first of the largest. */
static __device__ struct best warp_argmax(struct best b)
{
#pragma unroll 1
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const float value = __shfl_xor_sync(0xffffffffu, b.value, offset);
        const int at = __shfl_xor_sync(0xffffffffu, b.at, offset);
        if (value > b.value || (value == b.value && at < b.at)) {
            b.value = value;
            b.at = at;
        }
    }
    return b;
}

static __device__ __noinline__ double warp_total(double x)
{
#pragma unroll 1
    for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(0xffffffffu, x, offset);
    return x;
}

/* Calls: the code is long, and where it runs once per step it has to be fetched. */
static __device__ __noinline__ double exp_of(double x)
{
    return exp(x);
}

static __device__ struct best argmax_of(const float *logits, int n, int lane)
{
    struct best b;
    b.value = -INFINITY;
    b.at = n; /* loses every tie */
    for (int c = lane; c < n; c += WARP)
        if (logits[c] > b.value || (b.at == n && !isnan(logits[c]))) {
            b.value = logits[c];
            b.at = c;
        }
    b = warp_argmax(b);
    if (b.at == n) b.at = 0; /* all NaN */
    return b;
}

struct target {
    int32_t label, other; /* -1: the sample does not count */
    double share;         /* of the first */
};

/* Sample i, whose logits these are. rows [2][mb]: loss, right. put(c, x): the gradient of logit c is x. */
template <class Put>
static __device__ void softmax_row(const float *logits, int64_t i, const struct target &t, double *rows,
                                   struct ls_cuda_fault *fault, const struct ls_cuda_softmax &a, int lane, Put put)
{
    const int n = (int)a.n;
    const int32_t label = t.label, other = t.other;
    const double share = t.share;
    if (lane == 0) rows[i] = rows[a.mb + i] = 0.0;
    if (label < 0 || label >= n || other >= n) {
        if (label >= 0 && lane == 0) report(fault, a.fault_id, label >= n ? label : other);
        for (int c = lane; c < n; c += WARP) put(c, 0.0f);
        return;
    }
    const struct best top = argmax_of(logits, n, lane);
    const double most = (double)logits[top.at], smoothing = (double)a.smoothing;
    double sum = 0.0, spread = 0.0, each = 0.0; /* each: what smoothing gives to every class */
#pragma unroll 1
    for (int c = lane; c < n; c += WARP) sum += exp_of((double)logits[c] - most);
    sum = warp_total(sum);
    const double log_sum = most + log(sum);
    if (smoothing > 0.0) {
        double total = 0.0;
        for (int c = lane; c < n; c += WARP) total += (double)logits[c];
        spread = smoothing * (log_sum - warp_total(total) / (double)n);
        each = smoothing / (double)n;
    }
    if (lane == 0) {
        const double own = share * (double)logits[label] + (1.0 - share) * (double)logits[other];
        rows[i] = (1.0 - smoothing) * (log_sum - own) + spread;
        rows[a.mb + i] = top.at == (share >= 0.5 ? label : other) ? 1.0 : 0.0;
    }
#pragma unroll 1
    for (int c = lane; c < n; c += WARP) {
        const double is = (c == label ? share : 0.0) + (c == other ? 1.0 - share : 0.0);
        const double t1 = each + (1.0 - smoothing) * is;
        put(c, (float)((exp_of((double)logits[c] - log_sum) - t1) * (double)a.grad_scale));
    }
}

/* The sums of rows [2][mb] by a block of THREADS, in an order that follows from mb. */
static __device__ void softmax_total(const double *rows, float *stats, int64_t mb, double *shared)
{
    for (int which = 0; which < 2; which++) {
        double sum = 0.0;
        for (int64_t i = threadIdx.x; i < mb; i += THREADS) sum += rows[which * mb + i];
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) stats[which] = (float)sum;
    }
}

#endif
