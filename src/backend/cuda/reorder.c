/* reorder.c: a copy: this backend has the plain layout only.
 *
 * In:  src   Out: dst
 */
#include "backend/cuda/cuda.h"

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    if (prep->in[0].id > LS_LAYOUT_PLAIN || prep->out[0].id > LS_LAYOUT_PLAIN)
        return ls_fail(LS_UNSUPPORTED, "cuda: reorders plain to plain only, not %s to %s", prep->in[0].tag,
                       prep->out[0].tag);
    return ls__cuda_prepare(prep, out);
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(
        cudaMemcpyAsync(b->out[0], b->in[0], k->base.in[0].bytes, cudaMemcpyDeviceToDevice, k->device->stream));
}

const struct ls_impl ls__cuda_reorder = {
    .name = "cuda",
    .op = LS_OP_REORDER,
    .prepare = prepare,
    .launch = launch,
};
