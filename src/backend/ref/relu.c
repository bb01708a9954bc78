/* relu.c: negative elements become zero; NaN stays NaN.
 *
 * In:  src | dst, diff_dst          (any shape)
 * Out: dst | diff_src
 */
#include "backend/ref/ref.h"

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const int64_t n = ls_shape_count(&ls__ref_kernel_of(b)->in[0]);
    const float *src = b->in[0];
    float *dst = b->out[0];
    for (int64_t i = 0; i < n; i++) dst[i] = ls__ref_relu1(src[i]);
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const int64_t n = ls_shape_count(&ls__ref_kernel_of(b)->in[0]);
    const float *dst = b->in[0], *diff_dst = b->in[1];
    float *diff_src = b->out[0];
    for (int64_t i = 0; i < n; i++) {
        const float d = diff_dst[i]; /* read always: a choice of values vectorises, a choice of loads does not */
        diff_src[i] = dst[i] > 0.0f ? d : 0.0f;
    }
    return LS_OK;
}

const struct ls_impl ls__ref_relu = {
    .name = "ref",
    .op = LS_OP_RELU,
    .prepare = ls__ref_prepare_in_place,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_relu_bwd = {
    .name = "ref",
    .op = LS_OP_RELU_BWD,
    .prepare = ls__ref_prepare_over_1,
    .launch = launch_bwd,
};
