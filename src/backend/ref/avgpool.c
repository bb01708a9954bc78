/* avgpool.c: the mean of each window, and its gradient. Padding counts as zeros: the divisor is always kh * kw.
 *
 * In:  src [mb,c,ih,iw] | diff_dst [mb,c,oh,ow]
 * Out: dst [mb,c,oh,ow] | diff_src [mb,c,ih,iw]
 */
#include "backend/ref/ref.h"

#include <string.h>

struct window {
    int64_t y0, y1, x0, x1; /* clipped to the image */
};

static struct window window_of(const struct ls_attrs *a, int64_t ih, int64_t iw, int64_t oh, int64_t ow)
{
    struct window w = {.y0 = oh * a->sh - a->ph, .x0 = ow * a->sw - a->pw};
    w.y1 = w.y0 + a->kh < ih ? w.y0 + a->kh : ih;
    w.x1 = w.x0 + a->kw < iw ? w.x0 + a->kw : iw;
    if (w.y0 < 0) w.y0 = 0;
    if (w.x0 < 0) w.x0 = 0;
    return w;
}

static float mean_of(const float *plane, int64_t iw, struct window w, double divisor)
{
    double sum = 0.0;
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t x = w.x0; x < w.x1; x++) sum += (double)plane[y * iw + x];
    return (float)(sum / divisor);
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n_planes = k->in[0].dims[0] * k->in[0].dims[1], ih = k->in[0].dims[2], iw = k->in[0].dims[3];
    const int64_t oh = k->out[0].dims[2], ow = k->out[0].dims[3];
    const float *src = b->in[0];
    float *dst = b->out[0];
    const double divisor = (double)k->attrs.kh * k->attrs.kw;
    for (int64_t plane = 0; plane < n_planes; plane++, src += ih * iw)
        for (int64_t y = 0; y < oh; y++)
            for (int64_t x = 0; x < ow; x++) *dst++ = mean_of(src, iw, window_of(&k->attrs, ih, iw, y, x), divisor);
    return LS_OK;
}

static void spread(float *plane, int64_t iw, struct window w, float v)
{
    for (int64_t y = w.y0; y < w.y1; y++)
        for (int64_t x = w.x0; x < w.x1; x++) plane[y * iw + x] += v;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n_planes = k->out[0].dims[0] * k->out[0].dims[1], ih = k->out[0].dims[2], iw = k->out[0].dims[3];
    const int64_t oh = k->in[0].dims[2], ow = k->in[0].dims[3];
    const float *diff_dst = b->in[0];
    float *diff_src = b->out[0];
    const float divisor = (float)(k->attrs.kh * k->attrs.kw);
    memset(diff_src, 0, (size_t)(n_planes * ih * iw) * sizeof *diff_src);
    for (int64_t plane = 0; plane < n_planes; plane++, diff_src += ih * iw)
        for (int64_t y = 0; y < oh; y++)
            for (int64_t x = 0; x < ow; x++)
                spread(diff_src, iw, window_of(&k->attrs, ih, iw, y, x), *diff_dst++ / divisor);
    return LS_OK;
}

const struct ls_impl ls__ref_avgpool = {
    .name = "ref",
    .op = LS_OP_AVGPOOL,
    .prepare = ls__ref_prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_avgpool_bwd = {
    .name = "ref",
    .op = LS_OP_AVGPOOL_BWD,
    .prepare = ls__ref_prepare,
    .launch = launch_bwd,
};
