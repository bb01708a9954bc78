/* adamw.c: Adam with decoupled weight decay, as torch.optim.AdamW computes it.
 *
 * In, changed in place:  param f32, sum i64 (the gradient in fixed point; zeroed for the next step), m f32, v f32
 *
 *     param *= 1 - lr * weight_decay
 *     m += (1 - beta1) * (g - m);   v = beta2 * v + (1 - beta2) * g^2
 *     param -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)       t = step + 1
 *
 * The factors are computed in double, then rounded. One pass over memory, on a part of the elements.
 */
#include "backend/ref/fixed.h"
#include "backend/ref/update.h"

struct rates {
    double unit;
    float clip, keep, beta2, one_minus_beta1, one_minus_beta2, step_size, root_correction2, eps;
};

static struct rates rates_of(const struct ls_attrs *a, const struct ls_step_ctx *ctx, double unit)
{
    const double t = (double)(ctx->step + 1), lr = (double)ctx->lr;
    return (struct rates){
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

LS_VECTORIZE
static void adamw_update(float *restrict param, int64_t *restrict sum, float *restrict m, float *restrict v, int64_t n,
                         struct rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        m[i] += r.one_minus_beta1 * (g - m[i]);
        v[i] = r.beta2 * v[i] + r.one_minus_beta2 * (g * g);
        param[i] = param[i] * r.keep - r.step_size * (m[i] / (sqrtf(v[i]) / r.root_correction2 + r.eps));
        sum[i] = 0;
    }
}

static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    adamw_update((float *)b->in[0] + begin, sums, (float *)b->in[2] + begin, (float *)b->in[3] + begin, n,
                 rates_of(&k->attrs, ctx, ls__ref_update_unit(k)));
}

const struct ls_impl ls__ref_adamw = {
    .name = "ref",
    .op = LS_OP_ADAMW,
    .prepare = ls__ref_prepare_update,
    .launch = ls__ref_launch_update,
    .update = update,
};
