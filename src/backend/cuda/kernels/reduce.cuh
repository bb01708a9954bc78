/* reduce.cuh: into fixed point; the arithmetic is ref's, rounding for rounding. */
#ifndef LS_BACKEND_CUDA_REDUCE_CUH
#define LS_BACKEND_CUDA_REDUCE_CUH

#include "backend/cuda/kernels/common.cuh"

static __device__ __forceinline__ int64_t added(const struct ls_cuda_reduce &a, int64_t sum, float x)
{
    if (!a.is_float) return sum + __double2ll_rn((double)x * a.factor);
    const float total = (float)((double)sum / a.factor) + x;
    return __double2ll_rn((double)total * a.factor);
}

static __device__ __forceinline__ bool is_bad(const struct ls_cuda_reduce &a, float x)
{
    return !(fabs((double)x) * a.whole < a.limit); /* NaN too */
}

#endif
