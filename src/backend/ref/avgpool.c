/* avgpool.c: the mean of each window, and its gradient. Padding counts as zeros unless
 * skip_pad says otherwise; what ceil adds beyond it does not count.
 *
 * In:  src [mb,c,ih,iw] | diff_dst [mb,c,oh,ow]
 * Out: dst [mb,c,oh,ow] | diff_src [mb,c,ih,iw]
 */
#include "backend/ref/ref.h"

#include <string.h>

/* One direction of a window: [begin,end) within the image, and how many places count. */
struct span {
    int64_t begin, end, n;
};

static struct span span_of(int64_t at, int64_t size, int kernel, int stride, int pad, bool skip_pad)
{
    struct span s = {.begin = at * stride - pad};
    s.end = s.begin + kernel < size + pad ? s.begin + kernel : size + pad;
    s.n = s.end - s.begin;
    if (s.begin < 0) s.begin = 0;
    if (s.end > size) s.end = size;
    if (skip_pad) s.n = s.end - s.begin;
    return s;
}

/* Part `at` of n that together cover the image; where it does not divide they overlap. */
static struct span part_of(int64_t at, int64_t size, int n)
{
    const int64_t begin = at * size / n, end = ((at + 1) * size + n - 1) / n;
    return (struct span){begin, end, end - begin};
}

static struct span rows_of(const struct ls_attrs *a, int64_t ih, int64_t y)
{
    return a->oh ? part_of(y, ih, a->oh) : span_of(y, ih, a->kh, a->sh, a->ph, a->skip_pad);
}

static struct span columns_of(const struct ls_attrs *a, int64_t iw, int64_t x)
{
    return a->ow ? part_of(x, iw, a->ow) : span_of(x, iw, a->kw, a->sw, a->pw, a->skip_pad);
}

static float mean_of(const float *plane, int64_t iw, struct span rows, struct span columns)
{
    double sum = 0.0;
    for (int64_t y = rows.begin; y < rows.end; y++)
        for (int64_t x = columns.begin; x < columns.end; x++) sum += (double)plane[y * iw + x];
    return (float)(sum / (double)(rows.n * columns.n));
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n_planes = k->in[0].dims[0] * k->in[0].dims[1], ih = k->in[0].dims[2], iw = k->in[0].dims[3];
    const int64_t oh = k->out[0].dims[2], ow = k->out[0].dims[3];
    const float *src = b->in[0];
    float *dst = b->out[0];
    for (int64_t plane = 0; plane < n_planes; plane++, src += ih * iw)
        for (int64_t y = 0; y < oh; y++)
            for (int64_t x = 0; x < ow; x++)
                *dst++ = mean_of(src, iw, rows_of(&k->attrs, ih, y), columns_of(&k->attrs, iw, x));
    return LS_OK;
}

static void spread(float *plane, int64_t iw, struct span rows, struct span columns, float v)
{
    const float each = v / (float)(rows.n * columns.n);
    for (int64_t y = rows.begin; y < rows.end; y++)
        for (int64_t x = columns.begin; x < columns.end; x++) plane[y * iw + x] += each;
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const int64_t n_planes = k->out[0].dims[0] * k->out[0].dims[1], ih = k->out[0].dims[2], iw = k->out[0].dims[3];
    const int64_t oh = k->in[0].dims[2], ow = k->in[0].dims[3];
    const float *diff_dst = b->in[0];
    float *diff_src = b->out[0];
    memset(diff_src, 0, (size_t)(n_planes * ih * iw) * sizeof *diff_src);
    for (int64_t plane = 0; plane < n_planes; plane++, diff_src += ih * iw)
        for (int64_t y = 0; y < oh; y++)
            for (int64_t x = 0; x < ow; x++)
                spread(diff_src, iw, rows_of(&k->attrs, ih, y), columns_of(&k->attrs, iw, x), *diff_dst++);
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
