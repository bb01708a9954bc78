/* lrn.c: local response normalisation across channels, and its gradient.
 *
 * In:  src [mb,c,h,w] | src, diff_dst, workspace?
 * Out: dst, workspace? | diff_src
 *
 *     s[c] = k + alpha/size * (sum of src^2 over channels [c - size/2, c + (size-1)/2])
 *     dst[c] = src[c] * s[c]^-beta
 *     diff_src[c] = diff_dst[c] * s[c]^-beta
 *                 - 2 alpha beta / size * src[c] * (sum over channels i whose window holds c of
 *                                                   diff_dst[i] * src[i] * s[i]^(-beta-1))
 */
#include "backend/ref/ref.h"

#include <math.h>
#include <string.h>

/* One sample at a time: s, and for the gradient two more like it. */
static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(ls__ref_prepare(prep, out));
    const struct ls_ref_nchw n = ls__ref_nchw(&((struct ls_ref_kernel *)*out)->in[0]);
    (*out)->scratch_bytes = (size_t)(n.c * n.hw) * sizeof(double) * (prep->node->op == LS_OP_LRN ? 1 : 2);
    if (prep->node->op == LS_OP_LRN) (*out)->out[1].bytes = 0;                        /* workspace: none */
    if (prep->node->n_in > 2 && prep->forward) (*out)->in[2] = prep->forward->out[1]; /* and not read */
    return LS_OK;
}

/* s [c,hw] of one sample. */
static void norms(const float *src, struct ls_ref_nchw n, const struct ls_attrs *a, double *s)
{
    for (int64_t c = 0; c < n.c; c++) {
        const int64_t first = c - a->size / 2 > 0 ? c - a->size / 2 : 0;
        const int64_t last = c + (a->size - 1) / 2 < n.c ? c + (a->size - 1) / 2 : n.c - 1;
        double *row = s + c * n.hw;
        memset(row, 0, (size_t)n.hw * sizeof *row);
        for (int64_t j = first; j <= last; j++)
            for (int64_t i = 0; i < n.hw; i++) row[i] += (double)src[j * n.hw + i] * (double)src[j * n.hw + i];
        for (int64_t i = 0; i < n.hw; i++) row[i] = (double)a->k + (double)a->alpha / a->size * row[i];
    }
}

static enum ls_status launch_forward(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_ref_nchw n = ls__ref_nchw(&k->in[0]);
    const int64_t per_sample = n.c * n.hw;
    const float *src = b->in[0];
    float *dst = b->out[0];
    double *s = b->scratch; /* [c,hw] */
    for (int64_t mb = 0; mb < n.mb; mb++, src += per_sample, dst += per_sample) {
        norms(src, n, &k->attrs, s);
        for (int64_t i = 0; i < per_sample; i++) dst[i] = (float)((double)src[i] * pow(s[i], -(double)k->attrs.beta));
    }
    return LS_OK;
}

/* s becomes s^-beta, t becomes diff_dst * src * s^(-beta-1). */
static void powers(const float *src, const float *diff_dst, int64_t n, double beta, double *s, double *t)
{
    for (int64_t i = 0; i < n; i++) {
        const double power = pow(s[i], -beta);
        t[i] = (double)diff_dst[i] * (double)src[i] * power / s[i];
        s[i] = power;
    }
}

static enum ls_status launch_bwd(const struct ls_bound *b, const struct ls_step_ctx *ctx)
{
    const struct ls_ref_kernel *k = ls__ref_kernel_of(b);
    const struct ls_attrs *a = &k->attrs;
    const struct ls_ref_nchw n = ls__ref_nchw(&k->in[0]);
    const int64_t per_sample = n.c * n.hw;
    const float *src = b->in[0], *diff_dst = b->in[1];
    float *diff_src = b->out[0];
    double *s = b->scratch, *t = s + per_sample; /* [c,hw] each */
    const double factor = 2.0 * (double)a->alpha * (double)a->beta / a->size;
    for (int64_t mb = 0; mb < n.mb; mb++, src += per_sample, diff_dst += per_sample, diff_src += per_sample) {
        norms(src, n, a, s);
        powers(src, diff_dst, per_sample, (double)a->beta, s, t);
        for (int64_t c = 0; c < n.c; c++) {
            const int64_t first = c - (a->size - 1) / 2 > 0 ? c - (a->size - 1) / 2 : 0;
            const int64_t last = c + a->size / 2 < n.c ? c + a->size / 2 : n.c - 1;
            for (int64_t i = 0; i < n.hw; i++) {
                double sum = 0.0;
                for (int64_t j = first; j <= last; j++) sum += t[j * n.hw + i];
                const int64_t at = c * n.hw + i;
                diff_src[at] = (float)((double)diff_dst[at] * s[at] - factor * (double)src[at] * sum);
            }
        }
    }
    return LS_OK;
}

const struct ls_impl ls__ref_lrn = {
    .name = "ref",
    .op = LS_OP_LRN,
    .prepare = prepare,
    .launch = launch_forward,
};

const struct ls_impl ls__ref_lrn_bwd = {
    .name = "ref",
    .op = LS_OP_LRN_BWD,
    .prepare = prepare,
    .launch = launch_bwd,
};
