/* conv2d.c: convolution by oneDNN, forward, by data and by weights.
 *
 * oneDNN chooses the layouts of activations and weights. The weights' gradient should come in the weights' own layout;
 * when oneDNN's favourite is another, the parameter's is tried first with the same kind of implementation, and only if
 * that is not to be had does the plan reorder the gradient.
 */
#include "backend/cpu/dnn.h"
#include "backend/cpu/impls.h"

#include <string.h>

/* "dnnl2" is the library's second choice for a problem, and so on; the first is "dnnl". */
static int skip_of(const struct dnn_kernel *k)
{
    const char *name = k->base.impl->name;
    return strncmp(name, "dnnl", 4) == 0 && name[4] ? name[4] - '1' : 0;
}

static void window_of(const struct ls_prep *prep, const struct dnn_kernel *k, const struct ls_shape *src,
                      const struct ls_shape *dst, struct dnn_window *w)
{
    ls__dnn_window_of(&prep->node->attrs, src, dst, w);
    w->skip = skip_of(k);
}

static dnnl_alg_kind_t alg_of(const struct dnn_kernel *k)
{
    return strcmp(k->base.impl->name, "wino") == 0 ? dnnl_convolution_winograd : dnnl_convolution_direct;
}

/* The forward kernel of a backward one, if it is any of oneDNN's. */
static const_dnnl_primitive_desc_t hint_of(const struct ls_prep *prep)
{
    const struct ls_impl *const forward[] = {&ls__cpu_conv2d, &ls__cpu_conv2d_wino, &ls__cpu_conv2d_dnnl2,
                                             &ls__cpu_conv2d_dnnl3, &ls__cpu_conv2d_dnnl4};
    const_dnnl_primitive_desc_t hint = NULL;
    for (int i = 0; i < 5 && !hint; i++) hint = ls__dnn_hint(prep, forward[i]);
    return hint;
}

static enum ls_status make_forward(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                   dnnl_primitive_attr_t attr)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *weights = ls__dnn_value_in(prep, 1),
                          *bias = ls__dnn_value_in(prep, 2);
    const struct ls_value *dst = ls__dnn_value_out(prep, 0);
    int groups = prep->node->attrs.groups;
    struct dnn_window w;
    window_of(prep, k, &src->shape, &dst->shape, &w);
    TRY(ls__dnn_any_md(src, 1, &md[0]));
    TRY(ls__dnn_any_md(weights, groups, &md[1]));
    if (bias) TRY(ls__dnn_plain_md(bias, 1, &md[2]));
    TRY(ls__dnn_any_md(dst, 1, &md[3]));
    TRY(ls__dnn_check(ls__dnn_conv_fwd(&k->pd, k->engine, alg_of(k), ls__dnn_md_of(&md[0]), ls__dnn_md_of(&md[1]),
                                       ls__dnn_md_of(&md[2]), ls__dnn_md_of(&md[3]), &w, attr),
                      "convolution"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_WEIGHTS, 1, groups));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_BIAS, 2, 1));
    return ls__dnn_add_out(prep, k, DNNL_ARG_DST, 0, 1);
}

static enum ls_status make_bwd_data(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                    dnnl_primitive_attr_t attr)
{
    const struct ls_value *diff_dst = ls__dnn_value_in(prep, 0), *weights = ls__dnn_value_in(prep, 1),
                          *diff_src = ls__dnn_value_out(prep, 0);
    int groups = prep->node->attrs.groups;
    struct dnn_window w;
    window_of(prep, k, &diff_src->shape, &diff_dst->shape, &w);
    TRY(ls__dnn_any_md(diff_src, 1, &md[0]));
    TRY(ls__dnn_any_md(weights, groups, &md[1]));
    TRY(ls__dnn_any_md(diff_dst, 1, &md[2]));
    TRY(ls__dnn_check(ls__dnn_conv_bwd_data(&k->pd, k->engine, alg_of(k), ls__dnn_md_of(&md[0]), ls__dnn_md_of(&md[1]),
                                            ls__dnn_md_of(&md[2]), &w, attr, hint_of(prep)),
                      "convolution backward by data"));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_DIFF_DST, 0, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_WEIGHTS, 1, groups));
    return ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_SRC, 0, 1);
}

static bool is_same_kind(const_dnnl_primitive_desc_t a, const_dnnl_primitive_desc_t b)
{
    const char *x = "", *y = "";
    dnnl_primitive_desc_query(a, dnnl_query_impl_info_str, 0, &x);
    dnnl_primitive_desc_query(b, dnnl_query_impl_info_str, 0, &y);
    return strcmp(x, y) == 0;
}

static enum ls_status make_bwd_weights(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                       dnnl_primitive_attr_t attr)
{
    const struct ls_value *src = ls__dnn_value_in(prep, 0), *diff_dst = ls__dnn_value_in(prep, 1);
    const struct ls_value *diff_weights = ls__dnn_value_out(prep, 0), *diff_bias = ls__dnn_value_out(prep, 1);
    int groups = prep->node->attrs.groups;
    struct dnn_window w;
    window_of(prep, k, &src->shape, &diff_dst->shape, &w);
    TRY(ls__dnn_any_md(src, 1, &md[0]));
    TRY(ls__dnn_any_md(diff_weights, groups, &md[1]));
    if (diff_bias) TRY(ls__dnn_plain_md(diff_bias, 1, &md[2]));
    TRY(ls__dnn_any_md(diff_dst, 1, &md[3]));
    const_dnnl_primitive_desc_t hint = hint_of(prep);
    TRY(ls__dnn_check(ls__dnn_conv_bwd_weights(&k->pd, k->engine, alg_of(k), ls__dnn_md_of(&md[0]),
                                               ls__dnn_md_of(&md[1]), ls__dnn_md_of(&md[2]), ls__dnn_md_of(&md[3]), &w,
                                               attr, hint),
                      "convolution backward by weights"));
    if (prep->out[0].id != LS_LAYOUT_ANY) {
        struct dnn_md_box wished = {0};
        dnnl_primitive_desc_t other = NULL;
        TRY(ls__dnn_layout_md(prep->device, &prep->out[0], diff_weights, groups, &wished));
        dnnl_status_t status =
            ls__dnn_conv_bwd_weights(&other, k->engine, alg_of(k), ls__dnn_md_of(&md[0]), ls__dnn_md_of(&wished),
                                     ls__dnn_md_of(&md[2]), ls__dnn_md_of(&md[3]), &w, attr, hint);
        if (status == dnnl_success && is_same_kind(other, k->pd)) {
            dnnl_primitive_desc_destroy(k->pd);
            k->pd = other;
        } else if (other) {
            dnnl_primitive_desc_destroy(other);
        }
        ls__dnn_md_free(&wished);
    }
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_SRC, 0, 1));
    TRY(ls__dnn_add_in(prep, k, DNNL_ARG_DIFF_DST, 1, 1));
    TRY(ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_WEIGHTS, 0, groups));
    return ls__dnn_add_out(prep, k, DNNL_ARG_DIFF_BIAS, 1, 1);
}

static enum ls_status prepare_forward(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_conv2d, make_forward, prep->node->attrs.relu, out);
}

static enum ls_status prepare_bwd_data(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_conv2d_bwd_data, make_bwd_data, false, out);
}

static enum ls_status prepare_bwd_weights(const struct ls_prep *prep, struct ls_kernel **out)
{
    return ls__dnn_prepare(prep, &ls__cpu_conv2d_bwd_weights, make_bwd_weights, false, out);
}

const struct ls_impl ls__cpu_conv2d = DNN_IMPL(LS_OP_CONV2D, prepare_forward);
const struct ls_impl ls__cpu_conv2d_bwd_data = DNN_IMPL(LS_OP_CONV2D_BWD_DATA, prepare_bwd_data);
const struct ls_impl ls__cpu_conv2d_bwd_weights = DNN_IMPL(LS_OP_CONV2D_BWD_WEIGHTS, prepare_bwd_weights);

/* --- what oneDNN itself would choose next: only where a tuning table asks for it --- */

static bool is_reference(const struct dnn_kernel *k)
{
    const char *info = "";
    dnnl_primitive_desc_query(k->pd, dnnl_query_impl_info_str, 0, &info);
    return strstr(info, "ref") != NULL;
}

static enum ls_status prepare_next(const struct ls_prep *prep, const struct ls_impl *impl, dnn_make *make,
                                   struct ls_kernel **out)
{
    if (!prep->is_asked_for) return ls_fail(LS_UNSUPPORTED, "only where a table asks for it");
    TRY(ls__dnn_prepare(prep, impl, make, prep->node->op == LS_OP_CONV2D && prep->node->attrs.relu, out));
    if (!is_reference((const struct dnn_kernel *)*out)) return LS_OK;
    ls_kernel_destroy(out);
    return ls_fail(LS_UNSUPPORTED, "the library has only its reference code left");
}

#define NEXT_IMPL(OP, suffix, make, number)                                                                            \
    static enum ls_status prepare##suffix##_##number(const struct ls_prep *prep, struct ls_kernel **out)               \
    {                                                                                                                  \
        return prepare_next(prep, &ls__cpu_conv2d##suffix##_##number, make, out);                                      \
    }                                                                                                                  \
    const struct ls_impl ls__cpu_conv2d##suffix##_##number = {.name = #number,                                         \
                                                              .op = (OP),                                              \
                                                              .prepare = prepare##suffix##_##number,                   \
                                                              .bind = ls__dnn_bind,                                    \
                                                              .unbind = ls__dnn_unbind,                                \
                                                              .launch = ls__dnn_launch,                                \
                                                              .release = ls__dnn_release};

NEXT_IMPL(LS_OP_CONV2D, , make_forward, dnnl2)
NEXT_IMPL(LS_OP_CONV2D, , make_forward, dnnl3)
NEXT_IMPL(LS_OP_CONV2D, , make_forward, dnnl4)
NEXT_IMPL(LS_OP_CONV2D_BWD_DATA, _bwd_data, make_bwd_data, dnnl2)
NEXT_IMPL(LS_OP_CONV2D_BWD_DATA, _bwd_data, make_bwd_data, dnnl3)
NEXT_IMPL(LS_OP_CONV2D_BWD_DATA, _bwd_data, make_bwd_data, dnnl4)
NEXT_IMPL(LS_OP_CONV2D_BWD_WEIGHTS, _bwd_weights, make_bwd_weights, dnnl2)
NEXT_IMPL(LS_OP_CONV2D_BWD_WEIGHTS, _bwd_weights, make_bwd_weights, dnnl3)
NEXT_IMPL(LS_OP_CONV2D_BWD_WEIGHTS, _bwd_weights, make_bwd_weights, dnnl4)

/* --- Winograd: 3x3, stride 1, where docs/performance.md shows that it pays --- */

/* Where it won in the measurements: enough channels on both sides to fill the matrix products, and an image larger than
 * one 4x4 tile (backward gains even there). A rule, not a stopwatch, so that every machine of an instruction set
 * chooses alike. */
enum { WINO_MIN_CHANNELS = 16, WINO_MIN_FORWARD_PIXELS = 17 };

static enum ls_status suits_winograd(const struct ls_prep *prep, const struct ls_value *src, const struct ls_value *dst)
{
    const struct ls_attrs *a = &prep->node->attrs;
    if (a->kh != 3 || a->kw != 3 || a->sh != 1 || a->sw != 1 || a->dh > 1 || a->dw > 1 || a->groups != 1)
        return ls_fail(LS_UNSUPPORTED, "not 3x3 with stride 1");
    if (prep->is_asked_for) return LS_OK;
    if (src->shape.dims[1] < WINO_MIN_CHANNELS || dst->shape.dims[1] < WINO_MIN_CHANNELS)
        return ls_fail(LS_UNSUPPORTED, "fewer than %d channels", WINO_MIN_CHANNELS);
    if (prep->node->op == LS_OP_CONV2D && dst->shape.dims[2] * dst->shape.dims[3] < WINO_MIN_FORWARD_PIXELS)
        return ls_fail(LS_UNSUPPORTED, "one tile covers the image");
    return LS_OK;
}

static enum ls_status prepare_forward_wino(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(suits_winograd(prep, ls__dnn_value_in(prep, 0), ls__dnn_value_out(prep, 0)));
    return ls__dnn_prepare(prep, &ls__cpu_conv2d_wino, make_forward, prep->node->attrs.relu, out);
}

static enum ls_status prepare_bwd_data_wino(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(suits_winograd(prep, ls__dnn_value_out(prep, 0), ls__dnn_value_in(prep, 0)));
    return ls__dnn_prepare(prep, &ls__cpu_conv2d_bwd_data_wino, make_bwd_data, false, out);
}

static enum ls_status prepare_bwd_weights_wino(const struct ls_prep *prep, struct ls_kernel **out)
{
    TRY(suits_winograd(prep, ls__dnn_value_in(prep, 0), ls__dnn_value_in(prep, 1)));
    return ls__dnn_prepare(prep, &ls__cpu_conv2d_bwd_weights_wino, make_bwd_weights, false, out);
}

#define WINO_IMPL(OP, prepare_fn)                                                                                      \
    {                                                                                                                  \
        .name = "wino", .op = (OP), .prepare = (prepare_fn), .bind = ls__dnn_bind, .unbind = ls__dnn_unbind,           \
        .launch = ls__dnn_launch, .release = ls__dnn_release                                                           \
    }
const struct ls_impl ls__cpu_conv2d_wino = WINO_IMPL(LS_OP_CONV2D, prepare_forward_wino);
const struct ls_impl ls__cpu_conv2d_bwd_data_wino = WINO_IMPL(LS_OP_CONV2D_BWD_DATA, prepare_bwd_data_wino);
const struct ls_impl ls__cpu_conv2d_bwd_weights_wino = WINO_IMPL(LS_OP_CONV2D_BWD_WEIGHTS, prepare_bwd_weights_wino);
