/* adamw.c: Adam with decoupled weight decay; ref/adamw.c has the formulas, and the bits are the same.
 *
 * In, changed in place:  param f32, sum i64 (zeroed for the next step), m f32, v f32
 */
#include "backend/cuda/cuda.h"

#include <math.h>

static struct ls_cuda_adamw rates_of(const struct ls_attrs *a, const struct ls_step_ctx *ctx, double unit)
{
    const double t = (double)(ctx->step + 1), lr = (double)ctx->lr;
    return (struct ls_cuda_adamw){
        .unit = unit,
        .clip = ctx->clip_scale,
        .keep = (float)(1.0 - lr * (double)a->weight_decay),
        .beta2 = a->beta2,
        .one_minus_beta1 = (float)(1.0 - (double)a->beta1),
        .one_minus_beta2 = (float)(1.0 - (double)a->beta2),
        .step_size = (float)(lr / (1.0 - pow((double)a->beta1, t))),
        .root_correction2 = (float)sqrt(1.0 - pow((double)a->beta2, t)),
        .eps = a->eps,
    };
}

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_cuda_kernel *k = ls__cuda_kernel_of(b);
    const struct ls_cuda_range r = ls__cuda_part(&k->base, ctx);
    return LS_CUDA(ls__cuda_run_adamw(k->device->stream, (float *)b->in[0] + r.begin, (int64_t *)b->in[1] + r.begin,
                                      (float *)b->in[2] + r.begin, (float *)b->in[3] + r.begin, r.n, k->device->fault,
                                      rates_of(&k->attrs, ctx, ls__cuda_update_unit(k))));
}

const struct ls_impl ls__cuda_adamw = {
    .name = "cuda",
    .op = LS_OP_ADAMW,
    .prepare = ls__cuda_prepare,
    .launch = launch,
};
