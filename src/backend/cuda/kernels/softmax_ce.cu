/* softmax_ce.cu: softmax, cross entropy and their gradient; ref/softmax_ce.c has the formulas. One warp per sample, in
 * double; then one block adds the samples' losses, in an order that follows from their number. */
#include "backend/cuda/kernels/common.cuh"

struct best {
    float value;
    int64_t at;
};

/* The first of the largest. */
static __device__ struct best warp_argmax(struct best b)
{
    for (int offset = WARP / 2; offset > 0; offset /= 2) {
        const float value = __shfl_xor_sync(0xffffffffu, b.value, offset);
        const int64_t at = __shfl_xor_sync(0xffffffffu, b.at, offset);
        if (value > b.value || (value == b.value && at < b.at)) {
            b.value = value;
            b.at = at;
        }
    }
    return b;
}

static __device__ double warp_total(double x)
{
    return __shfl_sync(0xffffffffu, warp_sum(x), 0);
}

static __device__ struct best argmax_of(const float *logits, int64_t n, int lane)
{
    struct best b;
    b.value = -INFINITY;
    b.at = n; /* loses every tie */
    for (int64_t c = lane; c < n; c += WARP)
        if (logits[c] > b.value || (b.at == n && !isnan(logits[c]))) {
            b.value = logits[c];
            b.at = c;
        }
    b = warp_argmax(b);
    if (b.at == n) b.at = 0; /* all NaN */
    return b;
}

static __device__ void clear(float *x, int64_t n, int lane)
{
    for (int64_t c = lane; x && c < n; c += WARP) x[c] = 0.0f;
}

/* rows [2][mb]: loss, right. */
static __global__ void softmax_rows(const float *all_logits, const int32_t *labels, const int32_t *others,
                                    const float *shares, float *diff_logits, double *rows, struct ls_cuda_fault *fault,
                                    struct ls_cuda_softmax a)
{
    const int lane = threadIdx.x % WARP;
    const int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP, n = a.n;
    if (i >= a.mb) return;
    const float *logits = all_logits + i * n;
    float *diff = diff_logits ? diff_logits + i * n : NULL;
    const int32_t label = i < a.n_valid ? labels[i] : -1;
    const int32_t other = others && label >= 0 ? others[i] : label;
    const double share = others && label >= 0 ? (double)shares[i] : 1.0;
    if (lane == 0) rows[i] = rows[a.mb + i] = 0.0;
    if (label < 0 || label >= n || other >= n) {
        if (label >= 0 && lane == 0) report(fault, a.fault_id, label >= n ? label : other);
        clear(diff, n, lane);
        return;
    }
    const struct best top = argmax_of(logits, n, lane);
    const double most = (double)logits[top.at], smoothing = (double)a.smoothing;
    double sum = 0.0, total = 0.0;
    for (int64_t c = lane; c < n; c += WARP) {
        sum += exp((double)logits[c] - most);
        total += (double)logits[c];
    }
    sum = warp_total(sum);
    total = warp_total(total);
    const double log_sum = most + log(sum);
    if (lane == 0) {
        const double own = share * (double)logits[label] + (1.0 - share) * (double)logits[other];
        rows[i] = (1.0 - smoothing) * (log_sum - own) + smoothing * (log_sum - total / (double)n);
        rows[a.mb + i] = top.at == (share >= 0.5 ? label : other) ? 1.0 : 0.0;
    }
    for (int64_t c = lane; diff && c < n; c += WARP) {
        const double is = (c == label ? share : 0.0) + (c == other ? 1.0 - share : 0.0);
        const double t = smoothing / (double)n + (1.0 - smoothing) * is;
        diff[c] = (float)((exp((double)logits[c] - log_sum) - t) * (double)a.grad_scale);
    }
}

static __global__ void softmax_totals(const double *rows, float *stats, int64_t mb)
{
    __shared__ double shared[THREADS / WARP];
    for (int which = 0; which < 2; which++) {
        double sum = 0.0;
        for (int64_t i = threadIdx.x; i < mb; i += THREADS) sum += rows[which * mb + i];
        sum = block_sum(sum, shared);
        if (threadIdx.x == 0) stats[which] = (float)sum;
    }
}

extern "C" cudaError_t ls__cuda_run_softmax_ce(cudaStream_t stream, const float *logits, const int32_t *labels,
                                               const int32_t *others, const float *shares, float *diff_logits,
                                               float *stats, double *rows, struct ls_cuda_fault *fault,
                                               struct ls_cuda_softmax a)
{
    const int64_t per_block = THREADS / WARP;
    const unsigned blocks = (unsigned)((a.mb + per_block - 1) / per_block);
    softmax_rows<<<blocks, THREADS, 0, stream>>>(logits, labels, others, shares, diff_logits, rows, fault, a);
    softmax_totals<<<1, THREADS, 0, stream>>>(rows, stats, a.mb);
    return cudaGetLastError();
}
