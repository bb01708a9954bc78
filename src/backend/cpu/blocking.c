/* blocking.c: activations in blocks of channels, as own kernels see them, to and from the layouts of oneDNN. */
#include "backend/cpu/blocking.h"

#include "backend/cpu/isa.h"

static const dnnl_format_tag_t tags[] = {
    [DNN_BLOCK8] = dnnl_aBcd8b, [DNN_BLOCK16] = dnnl_aBcd16b, [DNN_LAST] = dnnl_acdb};

static enum ls_status make_md(const struct ls_value *v, enum dnn_blocking blocking, struct dnn_md_box *box)
{
    dnnl_dims_t dims = {0};
    for (int i = 0; i < v->shape.n_dims; i++) dims[i] = v->shape.dims[i];
    return ls__dnn_check(ls__dnn_md_make(box, v->shape.n_dims, dims, tags[blocking]), "descriptor");
}

enum ls_status ls__dnn_blocking_of(const struct ls_device *device, const struct ls_layout *layout,
                                   const struct ls_value *v, enum dnn_blocking *out)
{
    *out = layout->id == LS_LAYOUT_PLAIN ? DNN_PLAIN : DNN_OTHER;
    if (layout->id <= 0 || v->shape.n_dims != 4) return LS_OK;
    for (enum dnn_blocking b = DNN_BLOCK8; b < DNN_OTHER && *out == DNN_OTHER; b++) {
        struct dnn_md_box box = {.is_set = false};
        TRY(make_md(v, b, &box));
        if (ls__dnn_md_equal(ls__dnn_md_of(&box), ls__dnn_md_of(&device->layouts[layout->id - 1]))) *out = b;
        ls__dnn_md_free(&box);
    }
    return LS_OK;
}

enum ls_status ls__dnn_blocking_layout(struct ls_device *device, const struct ls_value *v, enum dnn_blocking blocking,
                                       struct ls_layout *out)
{
    struct dnn_md_box box = {.is_set = false};
    if (blocking == DNN_PLAIN) {
        *out = ls_layout_plain(&v->shape, v->dtype);
        return LS_OK;
    }
    TRY(make_md(v, blocking, &box));
    enum ls_status status = ls__dnn_layout_from(device, ls__dnn_md_of(&box), v, 1, out);
    ls__dnn_md_free(&box);
    return status;
}

struct dnn_view ls__dnn_view_of(const struct ls_shape *shape, enum dnn_blocking blocking)
{
    struct dnn_view v = {.mb = shape->dims[0], .c = shape->dims[1], .hw = 1, .block = 1};
    for (int i = 2; i < shape->n_dims; i++) v.hw *= shape->dims[i];
    if (blocking == DNN_BLOCK8) v.block = 8;
    if (blocking == DNN_BLOCK16) v.block = 16;
    v.is_last = blocking == DNN_LAST || shape->n_dims == 2;
    if (v.is_last) v.block = v.c;
    v.n_blocks = (v.c + v.block - 1) / v.block;
    return v;
}

enum ls_status ls__dnn_view_input(const struct ls_prep *prep, struct ls_layout *layout, struct dnn_view *view)
{
    const struct ls_value *v = ls__dnn_value_in(prep, 0);
    enum dnn_blocking blocking;
    TRY(ls__dnn_blocking_of(prep->device, &prep->in[0], v, &blocking));
    bool is_known = blocking != DNN_OTHER;
    *layout = is_known ? prep->in[0] : ls_layout_plain(&v->shape, v->dtype);
    *view = ls__dnn_view_of(&v->shape, is_known ? blocking : DNN_PLAIN);
    return LS_OK;
}

enum dnn_blocking ls__dnn_native_blocking(void)
{
    return ls__cpu_isa_has_avx512() ? DNN_BLOCK16 : DNN_BLOCK8;
}

/* Channels that fill a vector, one after the other: only AVX-512's poolings turn them round by themselves. */
static bool is_plain_and_slow(const struct ls_value *v, const struct ls_layout *layout)
{
    return layout->id == LS_LAYOUT_PLAIN && v->shape.dims[1] >= 8 && !ls__cpu_isa_has_avx512();
}

enum ls_status ls__dnn_library_md(const struct ls_prep *prep, struct dnn_md_box *box)
{
    const struct ls_value *v = ls__dnn_value_in(prep, 0);
    struct ls_layout layout = prep->in[0], samples_last;
    if (v->shape.n_dims == 4) {
        TRY(ls__dnn_samples_last(prep->device, v, &samples_last));
        const bool is_samples_last = layout.id > LS_LAYOUT_PLAIN && layout.id == samples_last.id;
        if (is_samples_last || is_plain_and_slow(v, &layout))
            TRY(ls__dnn_blocking_layout(prep->device, v, ls__dnn_native_blocking(), &layout));
    }
    return ls__dnn_layout_md(prep->device, &layout, v, 1, box);
}
