/* bias.c: a number per channel added, and the gradient of those numbers.
 *
 * In:  src [mb,c,h,w] or [mb,c], bias [c] | diff_dst like src
 * Out: dst like src | diff_bias [c]
 */
#include "backend/ref/ref.h"

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_nchw n = ls__ref_nchw(&ls__ref_kernel_of(b)->in[0]);
    const float *src = b->in[0], *bias = b->in[1];
    float *dst = b->out[0];
    for (int64_t plane = 0; plane < n.mb * n.c; plane++)
        for (int64_t i = 0; i < n.hw; i++) dst[plane * n.hw + i] = src[plane * n.hw + i] + bias[plane % n.c];
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_nchw n = ls__ref_nchw(&ls__ref_kernel_of(b)->in[0]);
    const float *diff_dst = b->in[0];
    float *diff_bias = b->out[0];
    for (int64_t c = 0; c < n.c; c++) {
        double sum = 0.0;
        for (int64_t mb = 0; mb < n.mb; mb++)
            for (int64_t i = 0; i < n.hw; i++) sum += (double)diff_dst[(mb * n.c + c) * n.hw + i];
        diff_bias[c] = (float)sum;
    }
    return LS_OK;
}

const struct ls_impl ls__ref_bias = {
    .name = "ref",
    .op = LS_OP_BIAS,
    .prepare = ls__ref_prepare_in_place,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_bias_bwd = {
    .name = "ref",
    .op = LS_OP_BIAS_BWD,
    .prepare = ls__ref_prepare,
    .launch = launch_bwd,
};
