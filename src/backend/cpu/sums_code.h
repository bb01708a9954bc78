/* sums_code.h: the loops of sums.h, compiled for one level. Before it: TARGET, and ACCUMULATE where a level brings its
 * own. Without contraction and reassociation every level gives the same bits, which are ref's.
 */
#include "backend/cpu/fixed.h"
#include "backend/cpu/sums.h"

#ifndef ACCUMULATE
#define ACCUMULATE accumulate
TARGET static uint32_t accumulate(const float *restrict src, int64_t *restrict sum, int64_t n, double factor)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &src[i], sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
        sum[i] = (int64_t)((uint64_t)sum[i] + ls__fixed_round((double)src[i] * factor));
    }
    return largest;
}
#endif

TARGET static void sgd_plain(float *restrict param, int64_t *restrict sum, int64_t n, struct ls_sgd_rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        param[i] -= r.lr * (g + r.decay * param[i]);
        sum[i] = 0;
    }
}

TARGET static void sgd_momentum(float *restrict param, int64_t *restrict sum, float *restrict buf, int64_t n,
                                struct ls_sgd_rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        const float d = g + r.decay * param[i];
        buf[i] = r.momentum * buf[i] + d;
        param[i] -= r.lr * buf[i];
        sum[i] = 0;
    }
}

TARGET static void sgd_nesterov(float *restrict param, int64_t *restrict sum, float *restrict buf, int64_t n,
                                struct ls_sgd_rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        const float d = g + r.decay * param[i];
        buf[i] = r.momentum * buf[i] + d;
        param[i] -= r.lr * (d + r.momentum * buf[i]);
        sum[i] = 0;
    }
}

static void sgd(float *param, int64_t *sum, float *buf, int64_t n, const struct ls_sgd_rates *r, bool nesterov)
{
    if (!buf)
        sgd_plain(param, sum, n, *r);
    else if (nesterov)
        sgd_nesterov(param, sum, buf, n, *r);
    else
        sgd_momentum(param, sum, buf, n, *r);
}

TARGET static void adamw_loop(float *restrict param, int64_t *restrict sum, float *restrict m, float *restrict v,
                              int64_t n, struct ls_adamw_rates r)
{
    for (int64_t i = 0; i < n; i++) {
        const float g = (float)(ls__fixed_to_double(sum[i]) * r.unit) * r.clip;
        m[i] += r.one_minus_beta1 * (g - m[i]);
        v[i] = r.beta2 * v[i] + r.one_minus_beta2 * (g * g);
        param[i] = param[i] * r.keep - r.step_size * (m[i] / (sqrtf(v[i]) / r.root_correction2 + r.eps));
        sum[i] = 0;
    }
}

static void adamw(float *param, int64_t *sum, float *m, float *v, int64_t n, const struct ls_adamw_rates *r)
{
    adamw_loop(param, sum, m, v, n, *r);
}

TARGET static void running_stats(float *restrict running, int64_t *restrict sum, int64_t n, double unit, float momentum)
{
    for (int64_t i = 0; i < n; i++) {
        const float now = (float)(ls__fixed_to_double(sum[i]) * unit);
        running[i] = (1.0f - momentum) * running[i] + momentum * now;
        sum[i] = 0;
    }
}

static const struct cpu_sums sums = {
    .accumulate = ACCUMULATE,
    .sgd = sgd,
    .adamw = adamw,
    .running_stats = running_stats,
};
