/* linear.c: inner product by oneDNN. Weights stay in plain layout in all three directions: a large linear layer is read
 * and written too often for a reorder to pay. */
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"

static enum ls_status make_forward(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                   dnnl_primitive_attr_t attr)
{
    const struct ls_value *bias = ls__dnn_value_in(prep, 2);
    TRY(ls__dnn_plain_md(ls__dnn_value_in(prep, 0), 1, &md[0]));
    TRY(ls__dnn_plain_md(ls__dnn_value_in(prep, 1), 1, &md[1]));
    if (bias) TRY(ls__dnn_plain_md(bias, 1, &md[2]));
    TRY(ls__dnn_plain_md(ls__dnn_value_out(prep, 0), 1, &md[3]));
    TRY(ls__dnn_check(ls__dnn_ip_fwd(&k->pd, k->engine, ls__dnn_md_of(&md[0]), ls__dnn_md_of(&md[1]),
                                     ls__dnn_md_of(&md[2]), ls__dnn_md_of(&md[3]), attr),
                      "inner product"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_WEIGHTS, 1, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_BIAS, 2, 1));
    return ls__dnn_add_out(prep, k, DNNL_ARG_DST, 0, 1);
}

static enum ls_status make_bwd_data(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                    dnnl_primitive_attr_t attr)
{
    TRY(ls__dnn_plain_md(ls__dnn_value_out(prep, 0), 1, &md[0]));
    TRY(ls__dnn_plain_md(ls__dnn_value_in(prep, 1), 1, &md[1]));
    TRY(ls__dnn_plain_md(ls__dnn_value_in(prep, 0), 1, &md[2]));
    TRY(ls__dnn_check(ls__dnn_ip_bwd_data(&k->pd, k->engine, ls__dnn_md_of(&md[0]), ls__dnn_md_of(&md[1]),
                                          ls__dnn_md_of(&md[2]), attr, ls__dnn_hint(prep, &ls__cpu_linear)),
                      "inner product backward by data"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_DIFF_DST, 0, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_WEIGHTS, 1, 1));
    return ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_SRC, 0, 1);
}

static enum ls_status make_bwd_weights(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                       dnnl_primitive_attr_t attr)
{
    const struct ls_value *diff_bias = ls__dnn_value_out(prep, 1);
    TRY(ls__dnn_plain_md(ls__dnn_value_in(prep, 0), 1, &md[0]));
    TRY(ls__dnn_plain_md(ls__dnn_value_out(prep, 0), 1, &md[1]));
    if (diff_bias) TRY(ls__dnn_plain_md(diff_bias, 1, &md[2]));
    TRY(ls__dnn_plain_md(ls__dnn_value_in(prep, 1), 1, &md[3]));
    TRY(ls__dnn_check(ls__dnn_ip_bwd_weights(&k->pd, k->engine, ls__dnn_md_of(&md[0]), ls__dnn_md_of(&md[1]),
                                             ls__dnn_md_of(&md[2]), ls__dnn_md_of(&md[3]), attr,
                                             ls__dnn_hint(prep, &ls__cpu_linear)),
                      "inner product backward by weights"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_DIFF_DST, 1, 1));
    TRY(ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_WEIGHTS, 0, 1));
    return ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_BIAS, 1, 1);
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_linear, make_forward, prep->node->attrs.relu, out);
}

/* oneDNN's backward wants its own forward as a hint. */
static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_linear_bwd_data, make_bwd_data, false, out);
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_linear_bwd_weights, make_bwd_weights, false, out);
}

const struct ls_impl ls__cpu_linear = DNN_IMPL(LS_OP_LINEAR, prepare_forward);
const struct ls_impl ls__cpu_linear_bwd_data = DNN_IMPL(LS_OP_LINEAR_BWD_DATA, prepare_bwd_data);
const struct ls_impl ls__cpu_linear_bwd_weights = DNN_IMPL(LS_OP_LINEAR_BWD_WEIGHTS, prepare_bwd_weights);
