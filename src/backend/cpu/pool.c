/* pool.c: maximum and average pooling by oneDNN. The layout is what the input has; backward follows the forward kernel.
 */
#include "backend/cpu/blocking.h"
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"

/* What oneDNN has no words for is left to ref. */
static enum ls_status check_window(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst,
                                   bool is_max)
{
    if (a->oh > 0) return ls_fail(LS_UNSUPPORTED, "the image does not divide into equal windows");
    if (is_max && (a->dh > 1 || a->dw > 1)) return ls_fail(LS_UNSUPPORTED, "windows are dilated");
    if (is_max || a->skip_pad) return LS_OK;
    if ((dst->dims[2] - 1) * a->sh + a->kh > src->dims[2] + 2 * a->ph ||
        (dst->dims[3] - 1) * a->sw + a->kw > src->dims[3] + 2 * a->pw)
        return ls_fail(LS_UNSUPPORTED, "a window ends outside the padding, and is a mean of fewer");
    return LS_OK;
}

static enum dnn_pool kind_of(const struct ls_attrs *a, bool is_max)
{
    return is_max ? DNN_POOL_MAX : a->skip_pad ? DNN_POOL_MEAN_INSIDE : DNN_POOL_MEAN;
}

static enum ls_status forward(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                              dnnl_primitive_attr_t attr, bool is_max)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *dst = ls__dnn_value_out(prep, 0);
    struct dnn_window w;
    TRY(check_window(&prep->node->attrs, &src->shape, &dst->shape, is_max));
    ls__dnn_window_of(&prep->node->attrs, &src->shape, &dst->shape, &w);
    if (w.padding_r[0] < 0 || w.padding_r[1] < 0) { /* rows at the end that no window reaches */
        w.padding_r[0] = w.padding_r[0] < 0 ? 0 : w.padding_r[0];
        w.padding_r[1] = w.padding_r[1] < 0 ? 0 : w.padding_r[1];
    }
    TRY(ls__dnn_library_md(prep, &md[0]));
    TRY(ls__dnn_any_md(dst, 1, &md[1]));
    bool is_training = prep->graph->is_training;
    TRY(ls__dnn_check(ls__dnn_pool_fwd(&k->pd, k->engine, is_training, kind_of(&prep->node->attrs, is_max),
                                       ls__dnn_md_of(&md[0]), ls__dnn_md_of(&md[1]), &w, attr),
                      "pooling"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(ls__dnn_add_out(prep, k, DNNL_ARG_DST, 0, 1));
    return is_max ? ls__dnn_add_out(prep, k, DNNL_ARG_WORKSPACE, 1, 1) : LS_OK;
}

static enum ls_status backward(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                               dnnl_primitive_attr_t attr, bool is_max)
{
    const struct ls_value *diff_dst = ls__dnn_value_in(prep, 0), *diff_src = ls__dnn_value_out(prep, 0);
    const_dnnl_primitive_desc_t hint = ls__dnn_hint(prep, is_max ? &ls__cpu_maxpool : &ls__cpu_avgpool);
    struct dnn_window w;
    if (!hint) return ls_fail(LS_UNSUPPORTED, "the forward pooling is not oneDNN's");
    ls__dnn_window_of(&prep->node->attrs, &diff_src->shape, &diff_dst->shape, &w);
    if (w.padding_r[0] < 0) w.padding_r[0] = 0;
    if (w.padding_r[1] < 0) w.padding_r[1] = 0;
    TRY(ls__dnn_layout_md(prep->device, &prep->forward->in[0], diff_src, 1, &md[0]));
    TRY(ls__dnn_layout_md(prep->device, &prep->forward->out[0], diff_dst, 1, &md[1]));
    TRY(ls__dnn_check(ls__dnn_pool_bwd(&k->pd, k->engine, kind_of(&prep->node->attrs, is_max), ls__dnn_md_of(&md[0]),
                                       ls__dnn_md_of(&md[1]), &w, attr, hint),
                      "pooling backward"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_DIFF_DST, 0, 1));
    TRY(ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_SRC, 0, 1));
    return is_max ? ls__dnn_add_in(prep, k, DNNL_ARG_WORKSPACE, 1, 1) : LS_OK;
}

static enum ls_status make_max(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                               dnnl_primitive_attr_t attr)
{
    return forward(prep, k, md, attr, true);
}

static enum ls_status make_avg(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                               dnnl_primitive_attr_t attr)
{
    return forward(prep, k, md, attr, false);
}

static enum ls_status make_max_bwd(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                   dnnl_primitive_attr_t attr)
{
    return backward(prep, k, md, attr, true);
}

static enum ls_status make_avg_bwd(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                   dnnl_primitive_attr_t attr)
{
    return backward(prep, k, md, attr, false);
}

static enum ls_status prepare_max(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_maxpool, make_max, false, out);
}

static enum ls_status prepare_avg(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_avgpool, make_avg, false, out);
}

static enum ls_status prepare_max_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_maxpool_bwd, make_max_bwd, false, out);
}

static enum ls_status prepare_avg_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_avgpool_bwd, make_avg_bwd, false, out);
}

const struct ls_impl ls__cpu_maxpool = DNN_IMPL(LS_OP_MAXPOOL, prepare_max);
const struct ls_impl ls__cpu_avgpool = DNN_IMPL(LS_OP_AVGPOOL, prepare_avg);
const struct ls_impl ls__cpu_maxpool_bwd = DNN_IMPL(LS_OP_MAXPOOL_BWD, prepare_max_bwd);
const struct ls_impl ls__cpu_avgpool_bwd = DNN_IMPL(LS_OP_AVGPOOL_BWD, prepare_avg_bwd);
