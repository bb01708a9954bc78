/* maxpool.c: the largest element of each window, and its gradient.
 *
 * In:  src [mb,c,ih,iw] | diff_dst [mb,c,oh,ow], workspace
 * Out: dst [mb,c,oh,ow], workspace? | diff_src [mb,c,ih,iw]
 *
 * The workspace is i32 [mb,c,oh,ow]: ih * IW + iw of the element chosen, within its plane; -1 for a window that lies
 * wholly in the padding. Padding never wins; of equal elements the first in row-major order wins; a NaN wins over all.
 */
#include "backend/ref/ref.h"

#include <math.h>
#include <string.h>

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    if (prep->node->n_out > 1 && prep->node->out[1] >= 0) {
        const struct ls_shape *dst = &((struct ls_ref_kernel *)*out)->out[0];
        (*out)->out[1] = ls_layout_plain(dst, LS_I32);
    }
    return LS_OK;
}

/* The chosen element of the window whose first corner is (y0, x0), or -1. */
static int32_t choose(const float *plane, int64_t ih, int64_t iw, int64_t y0, int64_t x0, const struct ls_attrs *a)
{
    const int64_t dh = a->dh > 1 ? a->dh : 1, dw = a->dw > 1 ? a->dw : 1;
    int32_t best = -1;
    float max = -INFINITY;
    for (int64_t y = y0; y < y0 + a->kh * dh && y < ih; y += dh) {
        for (int64_t x = x0; x < x0 + a->kw * dw && x < iw; x += dw) {
            if (y < 0 || x < 0) continue;
            const float v = plane[y * iw + x];
            if (best >= 0 && !(v > max) && !isnan(v)) continue;
            best = (int32_t)(y * iw + x);
            max = v;
            if (isnan(v)) return best;
        }
    }
    return best;
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n_planes = k->in[0].dims[0] * k->in[0].dims[1], ih = k->in[0].dims[2], iw = k->in[0].dims[3];
    const int64_t oh = k->out[0].dims[2], ow = k->out[0].dims[3];
    const struct ls_attrs *a = &k->attrs;
    const float *src = b->in[0];
    float *dst = b->out[0];
    int32_t *workspace = b->out[1];
    for (int64_t plane = 0; plane < n_planes; plane++, src += ih * iw) {
        for (int64_t y = 0; y < oh; y++) {
            for (int64_t x = 0; x < ow; x++) {
                const int32_t at = choose(src, ih, iw, y * a->sh - a->ph, x * a->sw - a->pw, a);
                *dst++ = at >= 0 ? src[at] : -INFINITY;
                if (workspace) *workspace++ = at;
            }
        }
    }
    return LS_OK;
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    if (!prep->forward || prep->forward->impl != &ls__ref_maxpool)
        return ls_fail(LS_UNSUPPORTED, "ref: reads the workspace of ref's maxpool only");
    TRY(ls__ref_prepare(prep, out));
    (*out)->in[1] = prep->forward->out[1];
    return LS_OK;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_nchw in = ls__ref_nchw(&k->out[0]), out = ls__ref_nchw(&k->in[0]);
    const float *diff_dst = b->in[0];
    const int32_t *workspace = b->in[1];
    float *diff_src = b->out[0];
    memset(diff_src, 0, (size_t)(in.mb * in.c * in.hw) * sizeof *diff_src);
    for (int64_t plane = 0; plane < in.mb * in.c; plane++)
        for (int64_t i = plane * out.hw; i < (plane + 1) * out.hw; i++)
            if (workspace[i] >= 0) diff_src[plane * in.hw + workspace[i]] += diff_dst[i];
    return LS_OK;
}

const struct ls_impl ls__ref_maxpool = {
    .name = "ref",
    .op = LS_OP_MAXPOOL,
    .prepare = prepare_forward,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_maxpool_bwd = {
    .name = "ref",
    .op = LS_OP_MAXPOOL_BWD,
    .prepare = prepare_bwd,
    .launch = launch_bwd,
};
