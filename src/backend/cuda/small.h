/* small.h: small networks: which they are (small_ops.c), and the list in which their ops wait (small.c). */
#ifndef LS_BACKEND_CUDA_SMALL_LIST_H
#define LS_BACKEND_CUDA_SMALL_LIST_H

#include "backend/cuda/cuda.h"
#include "backend/cuda/kernels/small.h"

/* The network is small: every op of it is one of small_ops.c, and so are all its shapes. By the shapes and the
 * precision alone. */
bool ls__cuda_is_small(const struct ls_device *device, const struct ls_graph *graph);

static inline struct ls_cuda_divisor ls__cuda_divisor(int by)
{
    return (struct ls_cuda_divisor){(uint32_t)by, by > 1 ? (uint32_t)((UINT64_C(1) << 32) / (uint32_t)by + 1) : 0};
}

/* Adds an op, or what is to be added up over samples after all ops; they have mb samples. */
enum ls_status ls__cuda_small_op(struct ls_device *device, int64_t mb, const struct ls_cuda_small_op *op) LS_MUST_CHECK;
enum ls_status ls__cuda_small_sum(struct ls_device *device, int64_t mb,
                                  const struct ls_cuda_across_job *job) LS_MUST_CHECK;

#endif
