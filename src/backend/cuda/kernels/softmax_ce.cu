/* softmax_ce.cu: softmax, cross entropy and their gradient. One warp per sample; then one block adds the samples'
 * losses, in an order that follows from their number. */
#include "backend/cuda/kernels/softmax.cuh"

static __global__ void softmax_rows(const float *logits, const int32_t *labels, const int32_t *others,
                                    const float *shares, float *diff_logits, double *rows, struct ls_cuda_fault *fault,
                                    struct ls_cuda_softmax a)
{
    const int lane = threadIdx.x % WARP;
    const int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    if (i >= a.mb) return;
    float *diff = diff_logits ? diff_logits + i * a.n : NULL;
    struct target target;
    target.label = i < a.n_valid ? labels[i] : -1;
    target.other = others && target.label >= 0 ? others[i] : target.label;
    target.share = others && target.label >= 0 ? (double)shares[i] : 1.0;
    softmax_row(logits + i * a.n, i, target, rows, fault, a, lane, [diff](int c, float x) {
        if (diff) diff[c] = x;
    });
}

static __global__ void softmax_totals(const double *rows, float *stats, int64_t mb)
{
    __shared__ double shared[THREADS / WARP];
    softmax_total(rows, stats, mb, shared);
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
