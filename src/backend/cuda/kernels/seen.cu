/* seen.cu: what the host reads at the end of a step, written into its own memory: a number last, for which it waits. */
#include "backend/cuda/kernels/common.cuh"

static __global__ void show(struct ls_cuda_seen *seen, const unsigned char *data, int bytes,
                            const struct ls_cuda_fault *fault, uint32_t number)
{
    for (int i = threadIdx.x; i < bytes; i += blockDim.x) seen->bytes[i] = data[i];
    if (threadIdx.x == 0) seen->fault = *fault;
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) *(volatile uint32_t *)&seen->number = number;
}

extern "C" cudaError_t ls__cuda_run_show(cudaStream_t stream, struct ls_cuda_seen *seen, const void *data, int bytes,
                                         const struct ls_cuda_fault *fault, uint32_t number)
{
    show<<<1, WARP, 0, stream>>>(seen, (const unsigned char *)data, bytes, fault, number);
    return cudaGetLastError();
}
