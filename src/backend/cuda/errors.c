/* errors.c: what CUDA, cuDNN and cuBLASLt say, as our status and one line that says what to do. */
#include "backend/cuda/cuda.h"

#include <stdio.h>
#include <string.h>

/* "cudaMalloc(&p, n)" -> "cudaMalloc" */
static int name_length(const char *call)
{
    return (int)strcspn(call, "(");
}

static enum ls_status out_of_memory(void)
{
    size_t free_bytes = 0, total = 0;
    (void)cudaGetLastError();
    if (cudaMemGetInfo(&free_bytes, &total) != cudaSuccess) return ls_fail(LS_NOMEM, "cuda: the card is out of memory");
    return ls_fail(
        LS_NOMEM,
        "cuda: the card is out of memory (%zu of %zu MiB are free); a smaller -b or more --shards needs less, "
        "nvidia-smi shows who else uses it",
        free_bytes >> 20, total >> 20);
}

/* Errors after which the card, or this process's use of it, is lost. */
static bool is_lost(cudaError_t error)
{
    switch (error) {
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorDevicesUnavailable:
    case cudaErrorDeviceUninitialized:
    case cudaErrorLaunchTimeout:
    case cudaErrorUnknown:
        return true;
    default:
        return false;
    }
}

enum ls_status ls__cuda_status(cudaError_t error, const char *call)
{
    if (error == cudaSuccess) return LS_OK;
    if (error == cudaErrorMemoryAllocation) return out_of_memory();
    (void)cudaGetLastError(); /* forget it, where it can be forgotten */
    if (is_lost(error))
        return ls_fail(LS_ERROR,
                       "cuda: the card failed in %.*s: %s; checkpoints are whole, --resume goes on from the newest",
                       name_length(call), call, cudaGetErrorString(error));
    return ls_fail(LS_ERROR, "cuda: %.*s: %s", name_length(call), call, cudaGetErrorString(error));
}

enum ls_status ls__cuda_dnn_status(cudnnStatus_t error, const char *call)
{
    char last[256] = "";
    if (error == CUDNN_STATUS_SUCCESS) return LS_OK;
    cudnnGetLastErrorString(last, sizeof last);
    const bool is_memory = error == CUDNN_STATUS_ALLOC_FAILED;
    const bool is_unsupported = error >= CUDNN_STATUS_NOT_SUPPORTED && error < CUDNN_STATUS_INTERNAL_ERROR;
    return ls_fail(is_memory        ? LS_NOMEM
                   : is_unsupported ? LS_UNSUPPORTED
                                    : LS_ERROR,
                   "cuDNN: %.*s: %s%s%s", name_length(call), call, cudnnGetErrorString(error), last[0] ? ": " : "",
                   last);
}

enum ls_status ls__cuda_blas_status(cublasStatus_t error, const char *call)
{
    if (error == CUBLAS_STATUS_SUCCESS) return LS_OK;
    return ls_fail(error == CUBLAS_STATUS_ALLOC_FAILED    ? LS_NOMEM
                   : error == CUBLAS_STATUS_NOT_SUPPORTED ? LS_UNSUPPORTED
                                                          : LS_ERROR,
                   "cuBLASLt: %.*s: %s", name_length(call), call, cublasLtGetStatusString(error));
}
