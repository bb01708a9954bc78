/* sums.cu: whether something has failed, told to the other cards and heard from them. */
#include "backend/cuda/kernels/common.cuh"

static __global__ void tell(int64_t *words, const struct ls_cuda_fault *fault)
{
    words[0] += fault->id != 0;
}

extern "C" cudaError_t ls__cuda_run_tell(cudaStream_t stream, int64_t *words, const struct ls_cuda_fault *fault)
{
    tell<<<1, 1, 0, stream>>>(words, fault);
    return cudaGetLastError();
}

static __global__ void heed(const int64_t *words, struct ls_cuda_fault *fault)
{
    if (words[0] != 0 && fault->id == 0) fault->id = LS_CUDA_FAULT_ELSEWHERE;
}

extern "C" cudaError_t ls__cuda_run_heed(cudaStream_t stream, const int64_t *words, struct ls_cuda_fault *fault)
{
    heed<<<1, 1, 0, stream>>>(words, fault);
    return cudaGetLastError();
}
