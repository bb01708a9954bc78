/* sgd.c: stochastic gradient descent with momentum, as torch.optim.SGD computes it (dampening 0).
 *
 * In, changed in place:  param f32, sum i64 (the gradient in fixed point; zeroed for the next step), momentum f32?
 *
 *     d = gradient * clip_scale + weight_decay * param
 *     buf = momentum * buf + d        (torch starts with buf = d, the same as buf = 0 before)
 *     param -= lr * (nesterov ? d + momentum * buf : buf)
 *
 * One pass over memory, on a part of the elements.
 */
#include "backend/rates.h"
#include "backend/ref/update.h"

static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const struct ls_attrs *a = &ls__ref_kernel_of(b)->attrs;
    const struct ls_sgd_rates r = ls__sgd_rates(a, ctx);
    float *param = (float *)b->in[0] + begin, *buf = b->in[2] ? (float *)b->in[2] + begin : NULL;
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)((double)sums[i] * r.unit) * r.clip;
        const float d = g + r.decay * param[i];
        if (buf) buf[i] = r.momentum * buf[i] + d;
        param[i] -= r.lr * (!buf ? d : a->nesterov ? d + r.momentum * buf[i] : buf[i]);
        sums[i] = 0;
    }
}

const struct ls_impl ls__ref_sgd = {
    .name = "ref",
    .op = LS_OP_SGD,
    .prepare = ls__ref_prepare_update,
    .launch = ls__ref_launch_update,
    .update = update,
};
