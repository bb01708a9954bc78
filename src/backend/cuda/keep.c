/* keep.c: a shard's rows go to their place in the batch, for linear_sum. */
#include "backend/cuda/cuda.h"

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const size_t row = (size_t)k->in[0].dims[1];
    return LS_CUDA(cudaMemcpyAsync((float *)b->out[0] + (size_t)ctx->first * row, b->in[0],
                                   (size_t)ctx->n_valid * row * sizeof(float), cudaMemcpyDeviceToDevice,
                                   ls__cuda_stream(k->device)));
}

const struct ls_impl ls__cuda_keep = {
    .name = "cuda",
    .op = LS_OP_KEEP,
    .prepare = ls__cuda_prepare,
    .launch = launch,
};
