/* lrn.c: local response normalisation across channels by oneDNN, which keeps what its backward needs in a workspace.
 *
 * oneDNN has fast code for some layouts only, not the same ones in both directions, and very slow loops for the rest.
 * So the layout is the first of: the one the input has, blocks of 16 channels, blocks of 8, for which it is fast both
 * ways; if there is none, lrn is refused.
 */
#include "backend/cpu/blocking.h"
#include "backend/cpu/impls.h"

#include <string.h>

static bool is_fast(const_dnnl_primitive_desc_t pd)
{
    const char *info = NULL;
    return dnnl_primitive_desc_query(pd, dnnl_query_impl_info_str, 0, &info) == dnnl_success && !strstr(info, "ref");
}

/* Tries a layout; k->pd is set if it is good in all directions the graph needs. */
static enum ls_status try_layout(const struct ls_prep *prep, struct dnn_kernel *k, const struct ls_layout *layout,
                                 dnnl_primitive_attr_t attr)
{
    const struct ls_attrs *a = &prep->node->attrs;
    const bool is_training = prep->graph->is_training;
    struct dnn_md_box md = {.is_set = false};
    dnnl_primitive_desc_t bwd = NULL;
    TRY(ls__dnn_layout_md(prep->device, layout, ls__dnn_value_in(prep, 0), 1, &md));
    bool is_good = ls__dnn_lrn_fwd(&k->pd, k->engine, is_training, ls__dnn_md_of(&md), a->size, a->alpha, a->beta, a->k,
                                   attr) == dnnl_success &&
                   is_fast(k->pd);
    if (is_good && is_training)
        is_good = ls__dnn_lrn_bwd(&bwd, k->engine, ls__dnn_md_of(&md), ls__dnn_md_of(&md), a->size, a->alpha, a->beta,
                                  a->k, attr, k->pd) == dnnl_success &&
                  is_fast(bwd);
    if (bwd) dnnl_primitive_desc_destroy(bwd);
    if (k->pd && !is_good) {
        dnnl_primitive_desc_destroy(k->pd);
        k->pd = NULL;
    }
    ls__dnn_md_free(&md);
    return LS_OK;
}

static enum ls_status make_forward(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                   dnnl_primitive_attr_t attr)
{
    struct ls_layout layouts[3] = {prep->in[0]};
    TRY(ls__dnn_blocking_layout(prep->device, ls__dnn_value_in(prep, 0), DNN_BLOCK16, &layouts[1]));
    TRY(ls__dnn_blocking_layout(prep->device, ls__dnn_value_in(prep, 0), DNN_BLOCK8, &layouts[2]));
    for (int i = 0; i < 3 && !k->pd; i++) TRY(try_layout(prep, k, &layouts[i], attr));
    if (!k->pd) return ls_fail(LS_UNSUPPORTED, "oneDNN has no fast lrn for this problem");
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(ls__dnn_add_out(prep, k, DNNL_ARG_DST, 0, 1));
    return ls__dnn_add_out(prep, k, DNNL_ARG_WORKSPACE, 1, 1);
}

static enum ls_status make_bwd(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                               dnnl_primitive_attr_t attr)
{
    const struct ls_attrs *a = &prep->node->attrs;
    const_dnnl_primitive_desc_t hint = ls__dnn_hint(prep, &ls__cpu_lrn);
    if (!hint) return ls_fail(LS_UNSUPPORTED, "the forward lrn is not oneDNN's");
    TRY(ls__dnn_layout_md(prep->device, &prep->forward->in[0], ls__dnn_value_in(prep, 0), 1, &md[0]));
    TRY(ls__dnn_check(ls__dnn_lrn_bwd(&k->pd, k->engine, ls__dnn_md_of(&md[0]), ls__dnn_md_of(&md[0]), a->size,
                                      a->alpha, a->beta, a->k, attr, hint),
                      "lrn backward"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_DIFF_DST, 1, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_WORKSPACE, 2, 1));
    return ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_SRC, 0, 1);
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_lrn, make_forward, false, out);
}

static enum ls_status prepare_bwd(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_lrn_bwd, make_bwd, false, out);
}

const struct ls_impl ls__cpu_lrn = DNN_IMPL(LS_OP_LRN, prepare_forward);
const struct ls_impl ls__cpu_lrn_bwd = DNN_IMPL(LS_OP_LRN_BWD, prepare_bwd);
