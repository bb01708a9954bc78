/* add.c: dst = a + b, and a relu if the attributes say so.
 *
 * In:  a, b   (same shape)
 * Out: dst
 */
#include "backend/cuda/cuda.h"

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    return LS_CUDA(ls__cuda_run_add(ls__cuda_stream(k->device), k->type, b->in[0], b->in[1], b->out[0],
                                    ls_shape_count(&k->in[0]), k->attrs.relu));
}

const struct ls_impl ls__cuda_add = {
    .name = "cuda",
    .op = LS_OP_ADD,
    .prepare = ls__cuda_prepare_following,
    .launch = launch,
};
