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
#include "backend/ref/fixed.h"
#include "backend/ref/update.h"

struct rates {
    double unit;
    float clip, decay, momentum, lr;
};

LS_VECTORIZE
static void sgd_plain(float *restrict param, int64_t *restrict sum, int64_t n, struct rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        param[i] -= r.lr * (g + r.decay * param[i]);
        sum[i] = 0;
    }
}

LS_VECTORIZE
static void sgd_momentum(float *restrict param, int64_t *restrict sum, float *restrict buf, int64_t n, struct rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        const float d = g + r.decay * param[i];
        buf[i] = r.momentum * buf[i] + d;
        param[i] -= r.lr * buf[i];
        sum[i] = 0;
    }
}

LS_VECTORIZE
static void sgd_nesterov(float *restrict param, int64_t *restrict sum, float *restrict buf, int64_t n, struct rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        const float d = g + r.decay * param[i];
        buf[i] = r.momentum * buf[i] + d;
        param[i] -= r.lr * (d + r.momentum * buf[i]);
        sum[i] = 0;
    }
}

static void update(const struct ls_bound *b, const struct ls_step_ctx *ctx, int64_t begin, int64_t n, int64_t *sums)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct rates r = {ls__ref_update_unit(k), ctx->clip_scale, k->attrs.weight_decay, k->attrs.momentum, ctx->lr};
    float *param = (float *)b->in[0] + begin;
    float *buf = b->in[2] ? (float *)b->in[2] + begin : NULL;
    if (!buf)
        sgd_plain(param, sums, n, r);
    else if (k->attrs.nesterov)
        sgd_nesterov(param, sums, buf, n, r);
    else
        sgd_momentum(param, sums, buf, n, r);
}

const struct ls_impl ls__ref_sgd = {
    .name = "ref",
    .op = LS_OP_SGD,
    .prepare = ls__ref_prepare_update,
    .launch = ls__ref_launch_update,
    .update = update,
};
