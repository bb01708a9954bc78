/* batchnorm.c: batch norm by oneDNN, over the samples of one shard, with the relu that follows it fused in. */
#include "backend/cpu/blocking.h"
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"

static enum ls_status make_training(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                    dnnl_primitive_attr_t attr)
{
    const struct ls_attrs *a = &prep->node->attrs;
    TRY(dnn_library_md(prep, &md[0]));
    TRY(dnn_check(dnn_bn_fwd(&k->pd, k->engine, true, dnn_md_of(&md[0]), a->eps, a->relu, attr), "batch norm"));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SCALE, 1, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SHIFT, 2, 1));
    TRY(dnn_add_out(prep, k, DNNL_ARG_DST, 0, 1));
    TRY(dnn_add_out(prep, k, DNNL_ARG_MEAN, 1, 1));
    TRY(dnn_add_out(prep, k, DNNL_ARG_VARIANCE, 2, 1));
    return dnn_add_out(prep, k, DNNL_ARG_WORKSPACE, 3, 1);
}

static enum ls_status make_eval(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                dnnl_primitive_attr_t attr)
{
    const struct ls_attrs *a = &prep->node->attrs;
    TRY(dnn_library_md(prep, &md[0]));
    TRY(dnn_check(dnn_bn_fwd(&k->pd, k->engine, false, dnn_md_of(&md[0]), a->eps, a->relu, attr), "batch norm"));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SCALE, 1, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SHIFT, 2, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_MEAN, 3, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_VARIANCE, 4, 1));
    return dnn_add_out(prep, k, DNNL_ARG_DST, 0, 1);
}

static enum ls_status make_bwd(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                               dnnl_primitive_attr_t attr)
{
    const struct ls_attrs *a = &prep->node->attrs;
    const_dnnl_primitive_desc_t hint = dnn_hint(prep, &ls__cpu_batchnorm);
    if (!hint) return ls_fail(LS_UNSUPPORTED, "the forward batch norm is not oneDNN's");
    TRY(dnn_layout_md(prep->device, &prep->forward->in[0], dnn_value_in(prep, 0), 1, &md[0]));
    TRY(dnn_check(dnn_bn_bwd(&k->pd, k->engine, dnn_md_of(&md[0]), dnn_md_of(&md[0]), a->eps, a->relu, attr, hint),
                  "batch norm backward"));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_SCALE, 1, 1));
    if (DNN_BN_BWD_TAKES_SHIFT) TRY(dnn_add_in(prep, k, DNNL_ARG_SHIFT, 1, 1)); /* counted but never read */
    TRY(dnn_add_in(prep, k, DNNL_ARG_MEAN, 2, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_VARIANCE, 3, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_DIFF_DST, 5, 1));
    TRY(dnn_add_in(prep, k, DNNL_ARG_WORKSPACE, 6, 1));
    TRY(dnn_add_out(prep, k, DNNL_ARG_DIFF_SRC, 0, 1));
    TRY(dnn_add_out(prep, k, DNNL_ARG_DIFF_SCALE, 1, 1));
    TRY(dnn_add_out(prep, k, DNNL_ARG_DIFF_SHIFT, 2, 1));
    k->base.in[4] = prep->in[4]; /* dst is not read: the workspace holds the mask */
    return LS_OK;
}

static enum ls_status prepare_training(const struct ls_prep *prep, struct ls_kernel **out)
{
    return dnn_prepare(prep, &ls__cpu_batchnorm, make_training, false, out);
}

static enum ls_status prepare_eval(const struct ls_prep *prep, struct ls_kernel **out)
{
    return dnn_prepare(prep, &ls__cpu_batchnorm_eval, make_eval, false, out);
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(dnn_prepare(prep, &ls__cpu_batchnorm_bwd, make_bwd, false, out));
    (*out)->may_alias = true; /* oneDNN's backward works in place over diff_dst */
    (*out)->alias_in = 5;
    return LS_OK;
}

const struct ls_impl ls__cpu_batchnorm = DNN_IMPL(LS_OP_BATCHNORM, prepare_training);
const struct ls_impl ls__cpu_batchnorm_eval = DNN_IMPL(LS_OP_BATCHNORM_EVAL, prepare_eval);
const struct ls_impl ls__cpu_batchnorm_bwd = DNN_IMPL(LS_OP_BATCHNORM_BWD, prepare_bwd);
