/* concat.c: tensors joined along the channels, and the gradient of one of them: its slice of diff_dst.
 *
 * In:  a [mb,ca,h,w], b [mb,cb,h,w], ... | diff_dst [mb,ca+cb+...,h,w]
 * Out: dst [mb,ca+cb+...,h,w] | diff_src [mb,c,h,w], channels from attrs.offset on
 */
#include "backend/ref/ref.h"

#include <string.h>

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_nchw all = ls__ref_nchw(&k->out[0]);
    float *dst = b->out[0];
    int64_t offset = 0;
    for (int i = 0; i < LS_MAX_IN && b->in[i]; i++) {
        const float *src = b->in[i];
        const int64_t c = k->in[i].dims[1];
        for (int64_t mb = 0; mb < all.mb; mb++)
            memcpy(dst + (mb * all.c + offset) * all.hw, src + mb * c * all.hw, (size_t)(c * all.hw) * sizeof *dst);
        offset += c;
    }
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_nchw all = ls__ref_nchw(&k->in[0]), one = ls__ref_nchw(&k->out[0]);
    const float *diff_dst = b->in[0];
    float *diff_src = b->out[0];
    for (int64_t mb = 0; mb < all.mb; mb++)
        memcpy(diff_src + mb * one.c * one.hw, diff_dst + (mb * all.c + k->attrs.offset) * all.hw,
               (size_t)(one.c * one.hw) * sizeof *diff_src);
    return LS_OK;
}

const struct ls_impl ls__ref_concat = {
    .name = "ref",
    .op = LS_OP_CONCAT,
    .prepare = ls__ref_prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_concat_bwd = {
    .name = "ref",
    .op = LS_OP_CONCAT_BWD,
    .prepare = ls__ref_prepare,
    .launch = launch_bwd,
};
