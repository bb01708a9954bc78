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

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_update u = ls__ref_update_of(k, ctx);
    const struct rates r = {u.unit, ctx->clip_scale, k->attrs.weight_decay, k->attrs.momentum, ctx->lr};
    float *param = (float *)b->in[0] + u.begin;
    int64_t *sum = (int64_t *)b->in[1] + u.begin;
    float *buf = b->in[2] ? (float *)b->in[2] + u.begin : NULL;
    if (!buf)
        sgd_plain(param, sum, u.n, r);
    else if (k->attrs.nesterov)
        sgd_nesterov(param, sum, buf, u.n, r);
    else
        sgd_momentum(param, sum, buf, u.n, r);
    return LS_OK;
}

const struct ls_impl ls__ref_sgd = {
    .name = "ref",
    .op = LS_OP_SGD,
    .prepare = ls__ref_prepare_update,
    .launch = launch,
};
