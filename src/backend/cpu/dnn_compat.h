/* dnn_compat.h: one face for oneDNN's two C APIs (2.x and 3.x).
 *
 * They differ in two things: a memory descriptor is a struct by value in 2.x and an owned handle in 3.x, and a
 * primitive descriptor is made from an operation descriptor in 2.x and directly in 3.x. Both are hidden here;
 * everything after the primitive descriptor is the same in both. All functions return oneDNN's status; dnn.c turns it
 * into ours.
 *
 * Within 3.x nothing was removed up to 3.13, so "3.0 and later" is one case.
 */
#ifndef LS_BACKEND_CPU_DNN_COMPAT_H
#define LS_BACKEND_CPU_DNN_COMPAT_H

#include <dnnl.h>
#include <stdbool.h>
#include <stddef.h>

/* A borrowed descriptor, as the query functions return it. */
#if DNNL_VERSION_MAJOR >= 3
typedef const_dnnl_memory_desc_t dnn_md;
#else
typedef const dnnl_memory_desc_t *dnn_md;
#endif

/* An owned descriptor. */
struct dnn_md_box {
    dnnl_memory_desc_t md;
    bool is_set;
};

dnn_md ls__dnn_md_of(const struct dnn_md_box *box);
dnnl_status_t ls__dnn_md_make(struct dnn_md_box *box, int ndims, const dnnl_dims_t dims,
                              dnnl_format_tag_t tag); /* f32 */
dnnl_status_t ls__dnn_md_clone(struct dnn_md_box *box, dnn_md from);
void ls__dnn_md_free(struct dnn_md_box *box);
bool ls__dnn_md_equal(dnn_md a, dnn_md b);
size_t ls__dnn_md_bytes(dnn_md md);
/* "aBcd16b", "ab", or "opaque" when the format is not made of blocks. */
void ls__dnn_md_tag(dnn_md md, char *tag, size_t size);
/* The number of groups of 5-D (grouped convolution) weights, 1 for anything else. */
int ls__dnn_md_groups(dnn_md md);

dnnl_status_t ls__dnn_append_relu(dnnl_post_ops_t ops);
/* Asks for the same bits every time where that can be asked for (3.4 and later); before, one thread is enough. */
dnnl_status_t ls__dnn_attr_deterministic(dnnl_primitive_attr_t attr);

/* The geometry of a sliding window, 2-D. */
struct dnn_window {
    dnnl_dims_t strides, kernel, dilates, padding_l, padding_r; /* dilates: 0 = none */
    int skip; /* convolution: how many of the library's implementations to pass over, best first */
};

/* alg: dnnl_convolution_direct, or dnnl_convolution_winograd, which 3.x knows but no longer has for x86. */
dnnl_status_t ls__dnn_conv_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, dnn_md src,
                               dnn_md weights, dnn_md bias, dnn_md dst, const struct dnn_window *w,
                               dnnl_primitive_attr_t attr);
dnnl_status_t ls__dnn_conv_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg,
                                    dnn_md diff_src, dnn_md weights, dnn_md diff_dst, const struct dnn_window *w,
                                    dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint);
dnnl_status_t ls__dnn_conv_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnnl_alg_kind_t alg, dnn_md src,
                                       dnn_md diff_weights, dnn_md diff_bias, dnn_md diff_dst,
                                       const struct dnn_window *w, dnnl_primitive_attr_t attr,
                                       const_dnnl_primitive_desc_t hint);
dnnl_status_t ls__dnn_ip_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md src, dnn_md weights, dnn_md bias,
                             dnn_md dst, dnnl_primitive_attr_t attr);
dnnl_status_t ls__dnn_ip_bwd_data(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md diff_src, dnn_md weights,
                                  dnn_md diff_dst, dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t hint);
dnnl_status_t ls__dnn_ip_bwd_weights(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md src, dnn_md diff_weights,
                                     dnn_md diff_bias, dnn_md diff_dst, dnnl_primitive_attr_t attr,
                                     const_dnnl_primitive_desc_t hint);
/* MEAN counts the padding, MEAN_INSIDE does not. */
enum dnn_pool { DNN_POOL_MAX, DNN_POOL_MEAN, DNN_POOL_MEAN_INSIDE };
dnnl_status_t ls__dnn_pool_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, bool is_training, enum dnn_pool kind,
                               dnn_md src, dnn_md dst, const struct dnn_window *w, dnnl_primitive_attr_t attr);
dnnl_status_t ls__dnn_pool_bwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, enum dnn_pool kind, dnn_md diff_src,
                               dnn_md diff_dst, const struct dnn_window *w, dnnl_primitive_attr_t attr,
                               const_dnnl_primitive_desc_t hint);
dnnl_status_t ls__dnn_lrn_fwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, bool is_training, dnn_md data, int size,
                              float alpha, float beta, float k, dnnl_primitive_attr_t attr);
dnnl_status_t ls__dnn_lrn_bwd(dnnl_primitive_desc_t *pd, dnnl_engine_t engine, dnn_md diff, dnn_md data, int size,
                              float alpha, float beta, float k, dnnl_primitive_attr_t attr,
                              const_dnnl_primitive_desc_t hint);

#endif
