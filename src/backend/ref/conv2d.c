/* conv2d.c: convolution and its two gradients, as loops over whole rows.
 *
 * In:  src [mb,ic,ih,iw], weights [oc,ic/groups,kh,kw], bias [oc]?, diff_dst [mb,oc,oh,ow]
 * Out: dst [mb,oc,oh,ow] | diff_src [mb,ic,ih,iw] | diff_weights, diff_bias?
 *
 * An output plane is gathered in double in the scratch memory, one kernel tap at a time; for a tap the inner loop runs
 * over the part of the output row whose input lies inside the image, so that padding costs nothing.
 */
#include "backend/ref/ref.h"

#include <string.h>

struct problem {
    int64_t mb, ic, ih, iw, oc, oh, ow, kh, kw;
    int64_t icg, ocg; /* channels per group */
    const struct ls_attrs *a;
};

static struct problem problem_of(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst)
{
    int64_t groups = a->groups > 0 ? a->groups : 1;
    return (struct problem){
        .mb = src->dims[0],
        .ic = src->dims[1],
        .ih = src->dims[2],
        .iw = src->dims[3],
        .oc = dst->dims[1],
        .oh = dst->dims[2],
        .ow = dst->dims[3],
        .kh = a->kh,
        .kw = a->kw,
        .icg = src->dims[1] / groups,
        .ocg = dst->dims[1] / groups,
        .a = a,
    };
}

/* Outputs [begin,end) of `n_out` whose input `out * stride + shift` lies in [0,n_in). */
struct range {
    int64_t begin, end, shift;
};

static struct range range_of(int64_t n_in, int64_t n_out, int k, int stride, int pad, int dilation)
{
    struct range r = {.shift = (int64_t)k * (dilation > 0 ? dilation : 1) - pad};
    r.begin = r.shift < 0 ? (-r.shift + stride - 1) / stride : 0;
    int64_t last = n_in - 1 - r.shift; /* largest out * stride that is inside */
    r.end = last < 0 ? 0 : last / stride + 1;
    if (r.end > n_out) r.end = n_out;
    if (r.begin > r.end) r.begin = r.end;
    return r;
}

static struct range rows_of(const struct problem *p, int64_t kh)
{
    return range_of(p->ih, p->oh, (int)kh, p->a->sh, p->a->ph, p->a->dh);
}

static struct range columns_of(const struct problem *p, int64_t kw)
{
    return range_of(p->iw, p->ow, (int)kw, p->a->sw, p->a->pw, p->a->dw);
}

/* acc[oh,ow] += w * src[ih,iw] for one tap. */
LS_VECTORIZE
static void conv2d_add_tap(const struct problem *p, struct range y, struct range x, double w, const float *src,
                           double *acc)
{
    for (int64_t oh = y.begin; oh < y.end; oh++) {
        const float *restrict s = src + (oh * p->a->sh + y.shift) * p->iw + x.shift;
        double *restrict d = acc + oh * p->ow;
        if (p->a->sw == 1)
            for (int64_t ow = x.begin; ow < x.end; ow++) d[ow] += w * (double)s[ow];
        else
            for (int64_t ow = x.begin; ow < x.end; ow++) d[ow] += w * (double)s[ow * p->a->sw];
    }
}

/* acc[ih,iw] += w * diff_dst[oh,ow] for one tap: conv2d_add_tap turned around. */
LS_VECTORIZE
static void conv2d_add_tap_back(const struct problem *p, struct range y, struct range x, double w,
                                const float *diff_dst, double *acc)
{
    for (int64_t oh = y.begin; oh < y.end; oh++) {
        const float *restrict s = diff_dst + oh * p->ow;
        double *restrict d = acc + (oh * p->a->sh + y.shift) * p->iw + x.shift;
        if (p->a->sw == 1)
            for (int64_t ow = x.begin; ow < x.end; ow++) d[ow] += w * (double)s[ow];
        else
            for (int64_t ow = x.begin; ow < x.end; ow++) d[ow * p->a->sw] += w * (double)s[ow];
    }
}

/* Sum of src * diff_dst over one tap of one plane, added to lanes. */
LS_VECTORIZE
static void conv2d_dot_tap(const struct problem *p, struct range y, struct range x, const float *src,
                           const float *diff_dst, double lanes[LS_REF_LANES])
{
    for (int64_t oh = y.begin; oh < y.end; oh++) {
        const float *s = src + (oh * p->a->sh + y.shift) * p->iw + x.shift;
        const float *d = diff_dst + oh * p->ow;
        if (p->a->sw == 1)
            ls__ref_dot(lanes, s + x.begin, d + x.begin, x.end - x.begin);
        else
            for (int64_t ow = x.begin; ow < x.end; ow++)
                lanes[(ow - x.begin) % LS_REF_LANES] += (double)s[ow * p->a->sw] * (double)d[ow];
    }
}

static void store_plane(const double *acc, int64_t n, bool relu, float *dst)
{
    for (int64_t i = 0; i < n; i++) {
        float v = (float)acc[i];
        dst[i] = relu ? ls__ref_relu1(v) : v;
    }
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    const struct ls_shape *dst = &((struct ls_ref_kernel *)*out)->out[0];
    (*out)->scratch_bytes = (size_t)(dst->dims[2] * dst->dims[3]) * sizeof(double);
    return LS_OK;
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct problem p = problem_of(&k->attrs, &k->in[0], &k->out[0]);
    const float *src = b->in[0], *weights = b->in[1], *bias = b->in[2];
    float *dst = b->out[0];
    double *acc = b->scratch; /* [oh,ow] */
    for (int64_t mb = 0; mb < p.mb; mb++) {
        for (int64_t oc = 0; oc < p.oc; oc++) {
            for (int64_t i = 0; i < p.oh * p.ow; i++) acc[i] = bias ? (double)bias[oc] : 0.0;
            for (int64_t ic = 0; ic < p.icg; ic++) {
                const float *plane = src + (mb * p.ic + oc / p.ocg * p.icg + ic) * p.ih * p.iw;
                const float *w = weights + (oc * p.icg + ic) * p.kh * p.kw;
                for (int64_t kh = 0; kh < p.kh; kh++)
                    for (int64_t kw = 0; kw < p.kw; kw++)
                        conv2d_add_tap(&p, rows_of(&p, kh), columns_of(&p, kw), (double)w[kh * p.kw + kw], plane, acc);
            }
            store_plane(acc, p.oh * p.ow, k->attrs.relu, dst + (mb * p.oc + oc) * p.oh * p.ow);
        }
    }
    return LS_OK;
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    const struct ls_shape *diff_src = &((struct ls_ref_kernel *)*out)->out[0];
    (*out)->scratch_bytes = (size_t)(diff_src->dims[2] * diff_src->dims[3]) * sizeof(double);
    return LS_OK;
}

static enum ls_status launch_bwd_data(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct problem p = problem_of(&k->attrs, &k->out[0], &k->in[0]);
    const float *diff_dst = b->in[0], *weights = b->in[1];
    float *diff_src = b->out[0];
    double *acc = b->scratch; /* [ih,iw] */
    for (int64_t mb = 0; mb < p.mb; mb++) {
        for (int64_t ic = 0; ic < p.ic; ic++) {
            const int64_t group = ic / p.icg;
            memset(acc, 0, (size_t)(p.ih * p.iw) * sizeof *acc);
            for (int64_t oc = group * p.ocg; oc < (group + 1) * p.ocg; oc++) {
                const float *plane = diff_dst + (mb * p.oc + oc) * p.oh * p.ow;
                const float *w = weights + (oc * p.icg + ic % p.icg) * p.kh * p.kw;
                for (int64_t kh = 0; kh < p.kh; kh++)
                    for (int64_t kw = 0; kw < p.kw; kw++)
                        conv2d_add_tap_back(&p, rows_of(&p, kh), columns_of(&p, kw), (double)w[kh * p.kw + kw], plane,
                                            acc);
            }
            store_plane(acc, p.ih * p.iw, false, diff_src + (mb * p.ic + ic) * p.ih * p.iw);
        }
    }
    return LS_OK;
}

/* One element of diff_weights. */
static float weight_gradient(const struct problem *p, const float *src, const float *diff_dst, int64_t oc, int64_t ic,
                             struct range y, struct range x)
{
    double lanes[LS_REF_LANES] = {0.0};
    const int64_t src_channel = oc / p->ocg * p->icg + ic;
    for (int64_t mb = 0; mb < p->mb; mb++)
        conv2d_dot_tap(p, y, x, src + (mb * p->ic + src_channel) * p->ih * p->iw,
                       diff_dst + (mb * p->oc + oc) * p->oh * p->ow, lanes);
    return (float)ls__ref_lanes_sum(lanes);
}

static float bias_gradient(const struct problem *p, const float *diff_dst, int64_t oc)
{
    double sum = 0.0;
    for (int64_t mb = 0; mb < p->mb; mb++) {
        const float *plane = diff_dst + (mb * p->oc + oc) * p->oh * p->ow;
        for (int64_t i = 0; i < p->oh * p->ow; i++) sum += (double)plane[i];
    }
    return (float)sum;
}

static enum ls_status launch_bwd_weights(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct problem p = problem_of(&k->attrs, &k->in[0], &k->in[1]);
    const float *src = b->in[0], *diff_dst = b->in[1];
    float *diff_weights = b->out[0], *diff_bias = b->out[1];
    for (int64_t oc = 0; oc < p.oc; oc++) {
        for (int64_t ic = 0; ic < p.icg; ic++)
            for (int64_t kh = 0; kh < p.kh; kh++)
                for (int64_t kw = 0; kw < p.kw; kw++)
                    *diff_weights++ = weight_gradient(&p, src, diff_dst, oc, ic, rows_of(&p, kh), columns_of(&p, kw));
        if (diff_bias) diff_bias[oc] = bias_gradient(&p, diff_dst, oc);
    }
    return LS_OK;
}

const struct ls_impl ls__ref_conv2d = {
    .name = "ref",
    .op = LS_OP_CONV2D,
    .prepare = prepare_forward,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_conv2d_bwd_data = {
    .name = "ref",
    .op = LS_OP_CONV2D_BWD_DATA,
    .prepare = prepare_bwd_data,
    .launch = launch_bwd_data,
};

const struct ls_impl ls__ref_conv2d_bwd_weights = {
    .name = "ref",
    .op = LS_OP_CONV2D_BWD_WEIGHTS,
    .prepare = ls__ref_prepare,
    .launch = launch_bwd_weights,
};
