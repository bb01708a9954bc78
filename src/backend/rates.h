/* rates.h: the factors of an update, from the node's attributes and the step. Computed in double, then rounded: every
 * backend starts from the same ones.
 */
#ifndef LS_BACKEND_RATES_H
#define LS_BACKEND_RATES_H

#include "backend/backend.h"

#include <math.h>

/* 2^-scale_log2: of fixed point. Updates whose attributes name no scale use LS_SCALE_GRAD. */
static inline double ls__update_unit(const struct ls_attrs *a)
{
    return ldexp(1.0, -(a->scale_log2 != 0 ? a->scale_log2 : LS_SCALE_GRAD));
}

static inline float ls__update_lr(const struct ls_attrs *a, const struct ls_step_ctx *ctx)
{
    return a->lr_factor == 0 ? ctx->lr : (float)((double)ctx->lr * a->lr_factor);
}

struct ls_sgd_rates {
    double unit;
    float clip, decay, momentum, lr;
};

static inline struct ls_sgd_rates ls__sgd_rates(const struct ls_attrs *a, const struct ls_step_ctx *ctx)
{
    return (struct ls_sgd_rates){ls__update_unit(a), ctx->clip_scale, a->weight_decay, a->momentum,
                                 ls__update_lr(a, ctx)};
}

struct ls_adamw_rates {
    double unit;
    float clip, keep, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction2, eps;
};

static inline struct ls_adamw_rates ls__adamw_rates(const struct ls_attrs *a, const struct ls_step_ctx *ctx)
{
    const double t = (double)(ctx->step + 1), lr = (double)ls__update_lr(a, ctx);
    return (struct ls_adamw_rates){
        .unit = ls__update_unit(a),
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

#endif
