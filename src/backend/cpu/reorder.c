/* reorder.c: from one of oneDNN's layouts to another, or to and from plain. */
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"

/* A layout of 5 dimensions is that of grouped weights; the plain side must then be seen with groups too. */
static int groups_of(const struct ls_prep *prep)
{
    for (int i = 0; i < 2; i++) {
        const struct ls_layout *l = i ? &prep->out[0] : &prep->in[0];
        if (l->id <= 0) continue;
        int groups = ls__dnn_md_groups(ls__dnn_md_of(&prep->device->layouts[l->id - 1]));
        if (groups > 1) return groups;
    }
    return 1;
}

static enum ls_status make(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                           dnnl_primitive_attr_t attr)
{
    int groups = groups_of(prep);
    TRY(ls__dnn_layout_md(prep->device, &prep->in[0], ls__dnn_value_in(prep, 0), groups, &md[0]));
    TRY(ls__dnn_layout_md(prep->device, &prep->out[0], ls__dnn_value_out(prep, 0), groups, &md[1]));
    TRY(ls__dnn_check(dnnl_reorder_primitive_desc_create(&k->pd, ls__dnn_md_of(&md[0]), k->engine,
                                                         ls__dnn_md_of(&md[1]), k->engine, attr),
                      "reorder"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_FROM, 0, groups));
    return ls__dnn_add_out(prep, k, DNNL_ARG_TO, 0, groups);
}

static enum ls_status prepare(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_reorder, make, false, out);
}

const struct ls_impl ls__cpu_reorder = DNN_IMPL(LS_OP_REORDER, prepare);
