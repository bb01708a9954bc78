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
#include "backend/rates.h"
#include "backend/ref/update.h"

static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const struct ls_adamw_rates r = ls__adamw_rates(&ls__ref_kernel_of(b)->attrs, ctx);
    float *param = (float *)b->in[0] + begin, *m = (float *)b->in[2] + begin, *v = (float *)b->in[3] + begin;
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)((double)sums[i] * r.unit) * r.clip;
        m[i] += r.one_minus_beta1 * (g - m[i]);
        v[i] = r.beta2 * v[i] + r.one_minus_beta2 * (g * g);
        param[i] = param[i] * r.keep - r.step_size * (m[i] / (sqrtf(v[i]) / r.root_correction2 + r.eps));
        sums[i] = 0;
    }
}

const struct ls_impl ls__ref_adamw = {
    .name = "ref",
    .op = LS_OP_ADAMW,
    .prepare = ls__ref_prepare_update,
    .launch = ls__ref_launch_update,
    .update = update,
};
