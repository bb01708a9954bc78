/* coarse.cu: --compress: a gradient rounded to few bits on its way into fixed point; exec/compress.c has the rules, and
 * its arithmetic. A block has a part of PART neighbours: it finds the largest, then rounds all to multiples of the
 * power of two that lets it fit. Only the largest depends on more than one element, and a maximum has no order. */
#include "backend/cuda/kernels/reduce.cuh"
#include "backend/cuda/kernels/typed.cuh"

enum { PART = 1 << 15, WARPS = THREADS / WARP };

static __device__ float largest_of_block(float x)
{
    __shared__ float largest[WARPS];
    for (int k = WARP / 2; k > 0; k /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, k));
    if (threadIdx.x % WARP == 0) largest[threadIdx.x / WARP] = x;
    __syncthreads();
    for (int i = 0; i < WARPS; i++) x = fmaxf(x, largest[i]);
    return x;
}

template <class T>
static __global__ void __launch_bounds__(THREADS) coarse(const __grid_constant__ struct ls_cuda_job j, float *remainder,
                                                         struct ls_cuda_coarse how, struct ls_cuda_fault *fault)
{
    const T *src = (const T *)j.src;
    const int64_t begin = (int64_t)blockIdx.x * PART, end = j.n - begin < PART ? j.n : begin + PART;
    float largest = 0;
    int exponent;
    for (int64_t i = begin + threadIdx.x; i < end; i += THREADS) /* a NaN is passed over here and refused below */
        largest = fmaxf(largest, fabsf(widen(src[i]) + remainder[i]));
    largest = largest_of_block(largest);
    if (!isfinite(largest)) {
        if (threadIdx.x == 0) report(fault, j.reduce.fault_id, 0);
        return;
    }
    frexpf(largest, &exponent); /* largest < 2^exponent */
    const int unit_log2 = max(exponent - (how.bits - 1), how.least_log2);
    const float unit = ldexpf(1, unit_log2), inverse = ldexpf(1, -unit_log2);
    for (int64_t i = begin + threadIdx.x; i < end; i += THREADS) {
        const float x = widen(src[i]) + remainder[i], kept = rintf(x * inverse) * unit;
        if (is_bad(j.reduce, kept)) report(fault, j.reduce.fault_id, 0);
        remainder[i] = x - kept;
        j.sum[i] = added(j.reduce, j.sum[i], kept);
    }
}

extern "C" cudaError_t ls__cuda_run_coarse(cudaStream_t stream, const struct ls_cuda_job *job, float *remainder,
                                           struct ls_cuda_coarse how, struct ls_cuda_fault *fault)
{
    const int64_t blocks = (job->n + PART - 1) / PART;
    if (blocks == 0) return cudaSuccess;
    if (job->type == LS_CUDA_F32)
        coarse<float><<<(unsigned)blocks, THREADS, 0, stream>>>(*job, remainder, how, fault);
    else
        coarse<bf16><<<(unsigned)blocks, THREADS, 0, stream>>>(*job, remainder, how, fault);
    return cudaGetLastError();
}
