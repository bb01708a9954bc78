/* add.c: dst = a + b, and a relu if the attributes say so. Its gradient is no node: both inputs get diff_dst.
 *
 * In:  a, b   (same shape)
 * Out: dst
 */
#include "backend/ref/ref.h"

static enum ls_status launch(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n = ls_shape_count(&k->in[0]);
    const float *left = b->in[0], *right = b->in[1];
    float *dst = b->out[0];
    if (k->attrs.relu)
        for (int64_t i = 0; i < n; i++) dst[i] = ls__ref_relu1(left[i] + right[i]);
    else
        for (int64_t i = 0; i < n; i++) dst[i] = left[i] + right[i];
    return LS_OK;
}

const struct ls_impl ls__ref_add = {
    .name = "ref",
    .op = LS_OP_ADD,
    .prepare = ls__ref_prepare_in_place,
    .launch = launch,
};
