/* sgd.c: stochastic gradient descent with momentum; ref/sgd.c has the formulas, and the bits are the same.
 *
 * In, changed in place:  param f32, sum i64 (zeroed for the next step), momentum f32?
 */
#include "backend/cuda/cuda.h"

#include <math.h>

double ls__cuda_update_unit(const struct ls_cuda_kernel *k)
{
    return ldexp(1.0, -(k->attrs.scale_log2 != 0 ? k->attrs.scale_log2 : LS_SCALE_GRAD));
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_range r = ls__cuda_part(&k->base, ctx);
    const struct ls_cuda_sgd a = {.unit = ls__cuda_update_unit(k),
                                  .clip = ctx->clip_scale,
                                  .decay = k->attrs.weight_decay,
                                  .momentum = k->attrs.momentum,
                                  .lr = ctx->lr,
                                  .nesterov = k->attrs.nesterov};
    return LS_CUDA(ls__cuda_run_sgd(k->device->stream, (float *)b->in[0] + r.begin, (int64_t *)b->in[1] + r.begin,
                                    b->in[2] ? (float *)b->in[2] + r.begin : NULL, r.n, k->device->fault, a));
}

const struct ls_impl ls__cuda_sgd = {
    .name = "cuda",
    .op = LS_OP_SGD,
    .prepare = ls__cuda_prepare,
    .launch = launch,
};
