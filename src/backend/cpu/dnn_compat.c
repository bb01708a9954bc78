/* dnn_compat.c: see dnn_compat.h. The only file that knows which oneDNN it is built against. */
#include "backend/cpu/dnn_compat.h"

#include <stdio.h>
#include <string.h>

/* Passes a failure of oneDNN up; local to this file. */
#define DNN_TRY(expr)                                                                                                  \
    do {                                                                                                               \
        dnnl_status_t dnn_status_ = (expr);                                                                            \
        if (dnn_status_ != dnnl_success) return dnn_status_;                                                           \
    } while (0)

/* How a block structure is read from a descriptor in either API. */
struct blocks {
    int ndims, n_inner;
    dnnl_dims_t strides, inner_blks, inner_idxs, padded;
};

static void write_tag(const struct blocks *b, char *tag, size_t size)
{
    /* Outer order: dimensions by falling stride; blocked ones are written in capitals. */
    char text[64];
    int at = 0;
    bool used[DNNL_MAX_NDIMS] = {false};
    for (int n = 0; n < b->ndims; n++) {
        int best = -1;
        for (int d = 0; d < b->ndims; d++)
            if (!used[d] && (best < 0 || b->strides[d] > b->strides[best])) best = d;
        used[best] = true;
        bool is_blocked = false;
        for (int i = 0; i < b->n_inner; i++) is_blocked |= b->inner_idxs[i] == best;
        text[at++] = (char)((is_blocked ? 'A' : 'a') + best);
    }
    for (int i = 0; i < b->n_inner && at < (int)sizeof text - 8; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%d%c", (int)b->inner_blks[i],
                       (char)('a' + b->inner_idxs[i]));
    text[at] = '\0';
    snprintf(tag, size, "%s", text);
}

static dnnl_alg_kind_t pool_alg(enum dnn_pool kind)
{
    return kind == DNN_POOL_MAX    ? dnnl_pooling_max
           : kind == DNN_POOL_MEAN ? dnnl_pooling_avg_include_padding
                                   : dnnl_pooling_avg_exclude_padding;
}

#if DNNL_VERSION_MAJOR >= 3

dnn_md ls__dnn_md_of(const struct dnn_md_box *box)
{
    return box->is_set ? box->md : NULL;
}

dnnl_status_t ls__dnn_md_make(struct dnn_md_box *box, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    DNN_TRY(dnnl_memory_desc_create_with_tag(&box->md, ndims, dims, dnnl_f32, tag));
    box->is_set = true;
    return dnnl_success;
}

dnnl_status_t ls__dnn_md_clone(struct dnn_md_box *box, dnn_md from)
{
    DNN_TRY(dnnl_memory_desc_clone(&box->md, from));
    box->is_set = true;
    return dnnl_success;
}

void ls__dnn_md_free(struct dnn_md_box *box)
{
    if (box->is_set) dnnl_memory_desc_destroy(box->md);
    box->is_set = false;
}

void ls__dnn_md_tag(dnn_md md, char *tag, size_t size)
{
    dnnl_format_kind_t kind;
    struct blocks b = {0};
    dnnl_dims_t *strides, *blks, *idxs;
    snprintf(tag, size, "opaque");
    if (dnnl_memory_desc_query(md, dnnl_query_format_kind, &kind) != dnnl_success || kind != dnnl_blocked) return;
    if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &b.ndims) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_strides, &strides) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_nblks_s32, &b.n_inner) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_blks, &blks) != dnnl_success ||
        dnnl_memory_desc_query(md, dnnl_query_inner_idxs, &idxs) != dnnl_success)
        return;
    memcpy(b.strides, strides, sizeof b.strides);
    memcpy(b.inner_blks, blks, sizeof b.inner_blks);
    memcpy(b.inner_idxs, idxs, sizeof b.inner_idxs);
    write_tag(&b, tag, size);
}

int ls__dnn_md_groups(dnn_md md)
{
    int ndims = 0;
    dnnl_dims_t *dims;
    if (dnnl_memory_desc_query(md, dnnl_query_ndims_s32, &ndims) != dnnl_success || ndims != 5) return 1;
    return dnnl_memory_desc_query(md, dnnl_query_dims, &dims) == dnnl_success ? (int)(*dims)[0] : 1;
}

dnnl_status_t ls__dnn_append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, dnnl_eltwise_relu, 0.f, 0.f);
}

/* Passes over the first `skip` implementations; unimplemented if there are no more. */
static dnnl_status_t skip_impls(dnnl_status_t status, dnnl_primitive_desc_t *pd, int skip)
{
    for (; status == dnnl_success && skip > 0; skip--)
        if (dnnl_primitive_desc_next_impl(*pd) != dnnl_success) {
            dnnl_primitive_desc_destroy(*pd);
            *pd = NULL;
            return dnnl_unimplemented;
        }
    return status;
}

dnnl_status_t ls__dnn_conv_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, dnn_md src,
                               dnn_md weights, dnn_md bias, dnn_md dst, const struct dnn_window *w,
                               dnnl_primitive_attr_t attr)
{
    return skip_impls(dnnl_convolution_forward_primitive_desc_create(pd, engine, dnnl_forward_training, alg, src,
                                                                     weights, bias, dst, w->strides, w->dilates,
                                                                     w->padding_l, w->padding_r, attr),
                      pd, w->skip);
}

dnnl_status_t ls__dnn_conv_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg,
                                    dnn_md diff_src, dnn_md weights, dnn_md diff_dst, const struct dnn_window *w,
                                    dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    return skip_impls(dnnl_convolution_backward_data_primitive_desc_create(pd, engine, alg, diff_src, weights, diff_dst,
                                                                           w->strides, w->dilates, w->padding_l,
                                                                           w->padding_r, hint, attr),
                      pd, w->skip);
}

dnnl_status_t ls__dnn_conv_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, dnn_md src,
                                       dnn_md diff_weights, dnn_md diff_bias, dnn_md diff_dst,
                                       const struct dnn_window *w, dnnl_primitive_attr_t attr,
                                       const_dnnl_primitive_desc_t hint)
{
    return skip_impls(dnnl_convolution_backward_weights_primitive_desc_create(
                          pd, engine, alg, src, diff_weights, diff_bias, diff_dst, w->strides, w->dilates, w->padding_l,
                          w->padding_r, hint, attr),
                      pd, w->skip);
}

dnnl_status_t ls__dnn_ip_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md src, dnn_md weights, dnn_md bias,
                             dnn_md dst, dnnl_primitive_attr_t attr)
{
    return dnnl_inner_product_forward_primitive_desc_create(pd, engine, dnnl_forward_training, src, weights, bias, dst,
                                                            attr);
}

dnnl_status_t ls__dnn_ip_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md diff_src, dnn_md weights,
                                  dnn_md diff_dst, dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    return dnnl_inner_product_backward_data_primitive_desc_create(pd, engine, diff_src, weights, diff_dst, hint, attr);
}

dnnl_status_t ls__dnn_ip_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md src, dnn_md diff_weights,
                                     dnn_md diff_bias, dnn_md diff_dst, dnnl_primitive_attr_t attr,
                                     const_dnnl_primitive_desc_t hint)
{
    return dnnl_inner_product_backward_weights_primitive_desc_create(pd, engine, src, diff_weights, diff_bias, diff_dst,
                                                                     hint, attr);
}

dnnl_status_t ls__dnn_pool_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, bool is_training, enum dnn_pool kind,
                               dnn_md src, dnn_md dst, const struct dnn_window *w, dnnl_primitive_attr_t attr)
{
    return dnnl_pooling_forward_primitive_desc_create(
        pd, engine, is_training ? dnnl_forward_training : dnnl_forward_inference, pool_alg(kind), src, dst, w->strides,
        w->kernel, w->dilates, w->padding_l, w->padding_r, attr);
}

dnnl_status_t ls__dnn_pool_bwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, enum dnn_pool kind, dnn_md diff_src,
                               dnn_md diff_dst, const struct dnn_window *w, dnnl_primitive_attr_t attr,
                               const_dnnl_primitive_desc_t hint)
{
    return dnnl_pooling_backward_primitive_desc_create(pd, engine, pool_alg(kind), diff_src, diff_dst, w->strides,
                                                       w->kernel, w->dilates, w->padding_l, w->padding_r, hint, attr);
}

dnnl_status_t ls__dnn_lrn_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, bool is_training, dnn_md data, int size,
                              float alpha, float beta, float k, dnnl_primitive_attr_t attr)
{
    return dnnl_lrn_forward_primitive_desc_create(pd, engine,
                                                  is_training ? dnnl_forward_training : dnnl_forward_inference,
                                                  dnnl_lrn_across_channels, data, data, size, alpha, beta, k, attr);
}

dnnl_status_t ls__dnn_lrn_bwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md diff, dnn_md data, int size,
                              float alpha, float beta, float k, dnnl_primitive_attr_t attr,
                              const_dnnl_primitive_desc_t hint)
{
    return dnnl_lrn_backward_primitive_desc_create(pd, engine, dnnl_lrn_across_channels, diff, diff, data, size, alpha,
                                                   beta, k, hint, attr);
}

#else /* 2.x */

dnn_md ls__dnn_md_of(const struct dnn_md_box *box)
{
    return box->is_set ? &box->md : NULL;
}

dnnl_status_t ls__dnn_md_make(struct dnn_md_box *box, int ndims, const dnnl_dims_t dims, dnnl_format_tag_t tag)
{
    DNN_TRY(dnnl_memory_desc_init_by_tag(&box->md, ndims, dims, dnnl_f32, tag));
    box->is_set = true;
    return dnnl_success;
}

dnnl_status_t ls__dnn_md_clone(struct dnn_md_box *box, dnn_md from)
{
    box->md = *from;
    box->is_set = true;
    return dnnl_success;
}

void ls__dnn_md_free(struct dnn_md_box *box)
{
    box->is_set = false;
}

void ls__dnn_md_tag(dnn_md md, char *tag, size_t size)
{
    struct blocks b = {.ndims = md->ndims};
    snprintf(tag, size, "opaque");
    if (md->format_kind != dnnl_blocked) return;
    b.n_inner = md->format_desc.blocking.inner_nblks;
    memcpy(b.strides, md->format_desc.blocking.strides, sizeof b.strides);
    memcpy(b.inner_blks, md->format_desc.blocking.inner_blks, sizeof b.inner_blks);
    memcpy(b.inner_idxs, md->format_desc.blocking.inner_idxs, sizeof b.inner_idxs);
    write_tag(&b, tag, size);
}

int ls__dnn_md_groups(dnn_md md)
{
    return md->ndims == 5 ? (int)md->dims[0] : 1;
}

dnnl_status_t ls__dnn_append_relu(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_eltwise(ops, 1.f, dnnl_eltwise_relu, 0.f, 0.f);
}

/* The implementation after the first `skip`; unimplemented if there are no more. */
static dnnl_status_t create_after(dnnl_primitive_desc_t *pd, const dnnl_convolution_desc_t *d,
                                  dnnl_primitive_attr_t attr, dnnl_engine_t engine, const_dnnl_primitive_desc_t hint,
                                  int skip)
{
    dnnl_primitive_desc_iterator_t it;
    if (skip == 0) return dnnl_primitive_desc_create(pd, d, attr, engine, hint);
    DNN_TRY(dnnl_primitive_desc_iterator_create(&it, d, attr, engine, hint));
    dnnl_status_t status = dnnl_success;
    for (; status == dnnl_success && skip > 0; skip--) status = dnnl_primitive_desc_iterator_next(it);
    *pd = status == dnnl_success ? dnnl_primitive_desc_iterator_fetch(it) : NULL;
    dnnl_primitive_desc_iterator_destroy(it);
    return *pd ? dnnl_success : dnnl_unimplemented;
}

dnnl_status_t ls__dnn_conv_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, dnn_md src,
                               dnn_md weights, dnn_md bias, dnn_md dst, const struct dnn_window *w,
                               dnnl_primitive_attr_t attr)
{
    dnnl_convolution_desc_t d;
    DNN_TRY(dnnl_dilated_convolution_forward_desc_init(&d, dnnl_forward_training, alg, src, weights, bias, dst,
                                                       w->strides, w->dilates, w->padding_l, w->padding_r));
    return create_after(pd, &d, attr, engine, NULL, w->skip);
}

dnnl_status_t ls__dnn_conv_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg,
                                    dnn_md diff_src, dnn_md weights, dnn_md diff_dst, const struct dnn_window *w,
                                    dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t d;
    DNN_TRY(dnnl_dilated_convolution_backward_data_desc_init(&d, alg, diff_src, weights, diff_dst, w->strides,
                                                             w->dilates, w->padding_l, w->padding_r));
    return create_after(pd, &d, attr, engine, hint, w->skip);
}

dnnl_status_t ls__dnn_conv_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, dnn_md src,
                                       dnn_md diff_weights, dnn_md diff_bias, dnn_md diff_dst,
                                       const struct dnn_window *w, dnnl_primitive_attr_t attr,
                                       const_dnnl_primitive_desc_t hint)
{
    dnnl_convolution_desc_t d;
    DNN_TRY(dnnl_dilated_convolution_backward_weights_desc_init(&d, alg, src, diff_weights, diff_bias, diff_dst,
                                                                w->strides, w->dilates, w->padding_l, w->padding_r));
    return create_after(pd, &d, attr, engine, hint, w->skip);
}

dnnl_status_t ls__dnn_ip_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md src, dnn_md weights, dnn_md bias,
                             dnn_md dst, dnnl_primitive_attr_t attr)
{
    dnnl_inner_product_desc_t d;
    DNN_TRY(dnnl_inner_product_forward_desc_init(&d, dnnl_forward_training, src, weights, bias, dst));
    return dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

dnnl_status_t ls__dnn_ip_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md diff_src, dnn_md weights,
                                  dnn_md diff_dst, dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint)
{
    dnnl_inner_product_desc_t d;
    DNN_TRY(dnnl_inner_product_backward_data_desc_init(&d, diff_src, weights, diff_dst));
    return dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

dnnl_status_t ls__dnn_ip_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md src, dnn_md diff_weights,
                                     dnn_md diff_bias, dnn_md diff_dst, dnnl_primitive_attr_t attr,
                                     const_dnnl_primitive_desc_t hint)
{
    dnnl_inner_product_desc_t d;
    DNN_TRY(dnnl_inner_product_backward_weights_desc_init(&d, src, diff_weights, diff_bias, diff_dst));
    return dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

dnnl_status_t ls__dnn_pool_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, bool is_training, enum dnn_pool kind,
                               dnn_md src, dnn_md dst, const struct dnn_window *w, dnnl_primitive_attr_t attr)
{
    dnnl_pooling_desc_t d;
    DNN_TRY(dnnl_pooling_forward_desc_init(&d, is_training ? dnnl_forward_training : dnnl_forward_inference,
                                           pool_alg(kind), src, dst, w->strides, w->kernel, w->padding_l,
                                           w->padding_r));
    return dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

dnnl_status_t ls__dnn_pool_bwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, enum dnn_pool kind, dnn_md diff_src,
                               dnn_md diff_dst, const struct dnn_window *w, dnnl_primitive_attr_t attr,
                               const_dnnl_primitive_desc_t hint)
{
    dnnl_pooling_desc_t d;
    DNN_TRY(dnnl_pooling_backward_desc_init(&d, pool_alg(kind), diff_src, diff_dst, w->strides, w->kernel, w->padding_l,
                                            w->padding_r));
    return dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

dnnl_status_t ls__dnn_lrn_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, bool is_training, dnn_md data, int size,
                              float alpha, float beta, float k, dnnl_primitive_attr_t attr)
{
    dnnl_lrn_desc_t d;
    DNN_TRY(dnnl_lrn_forward_desc_init(&d, is_training ? dnnl_forward_training : dnnl_forward_inference,
                                       dnnl_lrn_across_channels, data, size, alpha, beta, k));
    return dnnl_primitive_desc_create(pd, &d, attr, engine, NULL);
}

dnnl_status_t ls__dnn_lrn_bwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md diff, dnn_md data, int size,
                              float alpha, float beta, float k, dnnl_primitive_attr_t attr,
                              const_dnnl_primitive_desc_t hint)
{
    dnnl_lrn_desc_t d;
    DNN_TRY(dnnl_lrn_backward_desc_init(&d, dnnl_lrn_across_channels, diff, data, size, alpha, beta, k));
    return dnnl_primitive_desc_create(pd, &d, attr, engine, hint);
}

#endif

dnnl_status_t ls__dnn_attr_deterministic(dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR > 3 || (DNNL_VERSION_MAJOR == 3 && DNNL_VERSION_MINOR >= 4)
    return dnnl_primitive_attr_set_deterministic(attr, 1);
#else
    return dnnl_success;
#endif
}

bool ls__dnn_md_equal(dnn_md a, dnn_md b)
{
    return dnnl_memory_desc_equal(a, b) == 1;
}

size_t ls__dnn_md_bytes(dnn_md md)
{
    return dnnl_memory_desc_get_size(md);
}
