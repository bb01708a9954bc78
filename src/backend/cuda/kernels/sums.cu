/* sums.cu: into fixed point (reduce) and out of it (updates). One thread per element, so no order matters; the
 * arithmetic is ref's, rounding for rounding. */
#include "backend/cuda/kernels/common.cuh"

static __global__ void reduce(const float *src, int64_t *sum, int64_t n, struct ls_cuda_fault *fault,
                              struct ls_cuda_reduce a)
{
    FOR_EACH(i, n)
    {
        const float x = src[i];
        if (!(fabs((double)x) * a.whole < a.limit)) report(fault, a.fault_id, 0); /* NaN too */
        if (a.is_float) {
            const float total = (float)((double)sum[i] / a.factor) + x;
            sum[i] = __double2ll_rn((double)total * a.factor);
        } else {
            sum[i] += __double2ll_rn((double)x * a.factor);
        }
    }
}

extern "C" cudaError_t ls__cuda_run_reduce(cudaStream_t stream, const float *src, int64_t *sum, int64_t n,
                                           struct ls_cuda_fault *fault, struct ls_cuda_reduce a)
{
    if (n == 0) return cudaSuccess;
    reduce<<<blocks_for(n), THREADS, 0, stream>>>(src, sum, n, fault, a);
    return cudaGetLastError();
}

/* The gradient, and its sum set back to zero for the next step. */
static __device__ __forceinline__ float take(int64_t *sum, double unit, float clip)
{
    const float g = (float)((double)*sum * unit) * clip;
    *sum = 0;
    return g;
}

static __global__ void sgd(float *param, int64_t *sum, float *buf, int64_t n, const struct ls_cuda_fault *fault,
                           struct ls_cuda_sgd a)
{
    if (fault->id) return;
    FOR_EACH(i, n)
    {
        const float p = param[i], d = take(&sum[i], a.unit, a.clip) + a.decay * p;
        if (!buf) {
            param[i] = p - a.lr * d;
            continue;
        }
        const float m = a.momentum * buf[i] + d;
        buf[i] = m;
        param[i] = p - a.lr * (a.nesterov ? d + a.momentum * m : m);
    }
}

extern "C" cudaError_t ls__cuda_run_sgd(cudaStream_t stream, float *param, int64_t *sum, float *momentum, int64_t n,
                                        const struct ls_cuda_fault *fault, struct ls_cuda_sgd a)
{
    if (n == 0) return cudaSuccess;
    sgd<<<blocks_for(n), THREADS, 0, stream>>>(param, sum, momentum, n, fault, a);
    return cudaGetLastError();
}

static __global__ void adamw(float *param, int64_t *sum, float *m, float *v, int64_t n,
                             const struct ls_cuda_fault *fault, struct ls_cuda_adamw a)
{
    if (fault->id) return;
    FOR_EACH(i, n)
    {
        const float g = take(&sum[i], a.unit, a.clip);
        const float m1 = m[i] + a.one_minus_beta1 * (g - m[i]);
        const float v1 = a.beta2 * v[i] + a.one_minus_beta2 * (g * g);
        m[i] = m1;
        v[i] = v1;
        param[i] = param[i] * a.keep - a.step_size * (m1 / (sqrtf(v1) / a.root_correction2 + a.eps));
    }
}

extern "C" cudaError_t ls__cuda_run_adamw(cudaStream_t stream, float *param, int64_t *sum, float *m, float *v,
                                          int64_t n, const struct ls_cuda_fault *fault, struct ls_cuda_adamw a)
{
    if (n == 0) return cudaSuccess;
    adamw<<<blocks_for(n), THREADS, 0, stream>>>(param, sum, m, v, n, fault, a);
    return cudaGetLastError();
}

static __global__ void running_stats(float *running, int64_t *sum, int64_t n, double unit, float momentum,
                                     const struct ls_cuda_fault *fault)
{
    if (fault->id) return;
    FOR_EACH(i, n)
    {
        const float now = take(&sum[i], unit, 1.0f);
        running[i] = (1.0f - momentum) * running[i] + momentum * now;
    }
}

extern "C" cudaError_t ls__cuda_run_running_stats(cudaStream_t stream, float *running, int64_t *sum, int64_t n,
                                                  double unit, float momentum, const struct ls_cuda_fault *fault)
{
    if (n == 0) return cudaSuccess;
    running_stats<<<blocks_for(n), THREADS, 0, stream>>>(running, sum, n, unit, momentum, fault);
    return cudaGetLastError();
}
