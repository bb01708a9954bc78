/* concat.c: tensors joined along the channels, and the gradient of one of them: its slice of diff_dst.
 *
 * In:  a [mb,ca,h,w], b [mb,cb,h,w], ... | diff_dst [mb,ca+cb+...,h,w]
 * Out: dst [mb,ca+cb+...,h,w] | diff_src [mb,c,h,w], channels from attrs.offset on
 *
 * Samples are the rows of a copy in two dimensions.
 */
#include "backend/cuda/cuda.h"

static size_t sample_bytes(struct ls_cuda_nchw n)
{
    return (size_t)(n.c * n.hw) * sizeof(float);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_nchw all = ls__cuda_nchw(&k->out[0]);
    char *dst = b->out[0];
    for (int i = 0; i < LS_MAX_IN && b->in[i]; i++) {
        const size_t bytes = sample_bytes(ls__cuda_nchw(&k->in[i]));
        TRY(LS_CUDA(cudaMemcpy2DAsync(dst, sample_bytes(all), b->in[i], bytes, bytes, (size_t)all.mb,
                                      cudaMemcpyDeviceToDevice, ls__cuda_stream(k->device))));
        dst += bytes;
    }
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_nchw all = ls__cuda_nchw(&k->in[0]), one = ls__cuda_nchw(&k->out[0]);
    const float *src = (const float *)b->in[0] + k->attrs.offset * all.hw;
    return LS_CUDA(cudaMemcpy2DAsync(b->out[0], sample_bytes(one), src, sample_bytes(all), sample_bytes(one),
                                     (size_t)all.mb, cudaMemcpyDeviceToDevice, ls__cuda_stream(k->device)));
}

const struct ls_impl ls__cuda_concat = {
    .name = "cuda",
    .op = LS_OP_CONCAT,
    .prepare = ls__cuda_prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__cuda_concat_bwd = {
    .name = "cuda",
    .op = LS_OP_CONCAT_BWD,
    .prepare = ls__cuda_prepare,
    .launch = launch_bwd,
};
