/* dnn.h: kernels made of one oneDNN primitive: layouts, preparing, binding, launching.
 *
 * A device interns every layout oneDNN asks for: layout id i is layouts[i-1]. Descriptors include the dimensions, so
 * equal ids mean equal tensors. All primitives are made with one thread and a scratchpad that the plan provides.
 */
#ifndef LS_BACKEND_CPU_DNN_H
#define LS_BACKEND_CPU_DNN_H

#include "backend/backend.h"
#include "backend/cpu/dnn_compat.h"

struct ls_device {
    dnnl_engine_t engine;
    struct dnn_md_box *layouts;
    int n_layouts;
};

/* oneDNN's status as ours: unimplemented -> LS_UNSUPPORTED (try the next candidate). */
enum ls_status ls__dnn_check(dnnl_status_t status, const char *what) LS_MUST_CHECK;

enum { DNN_MAX_ARGS = 10 };

struct dnn_arg {
    int arg;     /* DNNL_ARG_... */
    bool is_out; /* which list of the kernel */
    int index;   /* and where in it */
    struct dnn_md_box md;
};

struct dnn_kernel {
    struct ls_kernel base;
    dnnl_primitive_desc_t pd; /* kept: hint for the backward kernel */
    dnnl_primitive_t primitive;
    dnnl_engine_t engine;
    struct dnn_arg args[DNN_MAX_ARGS];
    int n_args;
    struct dnn_md_box scratch;
};

/* The plain descriptor of a value; with groups > 1 of convolution weights (5-D). */
enum ls_status ls__dnn_plain_md(const struct ls_value *v, int groups, struct dnn_md_box *box) LS_MUST_CHECK;
/* The same dimensions, layout left to oneDNN. */
enum ls_status ls__dnn_any_md(const struct ls_value *v, int groups, struct dnn_md_box *box) LS_MUST_CHECK;
/* The descriptor of a value in a layout of this device (or plain). */
enum ls_status ls__dnn_layout_md(const struct ls_device *device, const struct ls_layout *layout,
                                 const struct ls_value *v, int groups, struct dnn_md_box *box) LS_MUST_CHECK;
/* Our layout for oneDNN's descriptor of v, interned in the device. */
enum ls_status ls__dnn_layout_from(struct ls_device *device, dnn_md md, const struct ls_value *v, int groups,
                                   struct ls_layout *out) LS_MUST_CHECK;

/* The layout [c][h][w][n] of an image value. */
enum ls_status ls__dnn_samples_last(struct ls_device *device, const struct ls_value *v,
                                    struct ls_layout *out) LS_MUST_CHECK;

/* Prepares a kernel: makes it, lets `make` build the primitive descriptor (k->pd) and name the arguments, finishes it.
 * md[] are descriptors for make's use, freed afterwards; attr has the user scratchpad and, with relu, a relu at the
 * end. */
typedef enum ls_status dnn_make(const struct ls_prep *prep, struct dnn_kernel *k, struct dnn_md_box md[4],
                                dnnl_primitive_attr_t attr);
enum ls_status ls__dnn_prepare(const struct ls_prep *prep, const struct ls_impl *impl, dnn_make *make, bool relu,
                               struct ls_kernel **out) LS_MUST_CHECK;
/* For make: argument DNNL_ARG_x of the primitive is input or output `index` of the node. Sets the kernel's layout for
 * it. Absent values are skipped. */
enum ls_status ls__dnn_add_in(const struct ls_prep *prep, struct dnn_kernel *k, int arg, int index,
                              int groups) LS_MUST_CHECK;
enum ls_status ls__dnn_add_out(const struct ls_prep *prep, struct dnn_kernel *k, int arg, int index,
                               int groups) LS_MUST_CHECK;
/* The value at an input or output of the node, NULL if absent. */
const struct ls_value *ls__dnn_value_in(const struct ls_prep *prep, int index);
const struct ls_value *ls__dnn_value_out(const struct ls_prep *prep, int index);

/* The forward kernel's descriptor, or NULL when the forward was not one of `impl`. */
const_dnnl_primitive_desc_t ls__dnn_hint(const struct ls_prep *prep, const struct ls_impl *impl);

/* bind, unbind, launch and release of every kernel of this kind. */
enum ls_status ls__dnn_bind(struct ls_bound *b);
void ls__dnn_unbind(struct ls_bound *b);
enum ls_status ls__dnn_launch(const struct ls_bound *b, const struct ls_step_ctx *ctx);
void ls__dnn_release(struct ls_kernel *kernel);

/* The members every oneDNN kernel shares. */
#define DNN_IMPL(OP, prepare_fn)                                                                                       \
    {                                                                                                                  \
        .name = "dnnl", .op = (OP), .prepare = (prepare_fn), .bind = ls__dnn_bind, .unbind = ls__dnn_unbind,           \
        .launch = ls__dnn_launch, .release = ls__dnn_release                                                           \
    }

/* The window of a convolution or a pooling, with the padding on the right and below that makes the sizes come out. */
void ls__dnn_window_of(const struct ls_attrs *a, const struct ls_shape *src, const struct ls_shape *dst,
                       struct dnn_window *w);

#endif
