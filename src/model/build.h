/* build.h: what the files that build a graph share: build.c the model as a whole, build_layers.c one function per kind
 * of layer, build_values.c shapes, parameters and nodes with their checks. Internal to src/model.
 */
#ifndef LS_MODEL_BUILD_H
#define LS_MODEL_BUILD_H

#include "model/internal.h"

#define LS_MOST_ELEMENTS ((int64_t)1 << 31)   /* of one tensor, per image */
#define LS_MOST_PARAMETERS ((int64_t)1 << 33) /* of the model */

struct ls_builder {
    const struct ls_model *model;
    const struct ls_model_options *options;
    struct ls_graph *g;
    int *values;           /* of tensors: [n_layers + 1] */
    struct ls_mark *marks; /* [n_layers + 1], or NULL */
    int64_t n_parameters;
};

/* --- build_layers.c --- */

/* The layer's nodes; *dst is the value of its tensor. */
enum ls_status ls__build_layer(struct ls_builder *b, const struct ls_layer *l, int *dst) LS_MUST_CHECK;

/* --- build_values.c --- */

/* LS_DATA, "origin:line: conv conv1: ..." */
#define FAIL(b, l, ...) ls__layer_fail((b)->model, l, __VA_ARGS__)
enum ls_status ls__layer_fail(const struct ls_model *m, const struct ls_layer *l, const char *fmt, ...)
    LS_PRINTF(3, 4) LS_MUST_CHECK;

const struct ls_shape *ls__build_shape(const struct ls_builder *b, int tensor);
/* "64x32x32": one image's part of a shape. */
const char *ls__image_text(const struct ls_shape *s, char out[LS_SHAPE_TEXT]);
/* Product of n dims, or -1 if above `most`. */
int64_t ls__dims_product(const int64_t *dims, int n, int64_t most);
enum ls_status ls__build_check_size(const struct ls_builder *b, const struct ls_layer *l,
                                    const struct ls_shape *s) LS_MUST_CHECK;
enum ls_status ls__build_need_image(const struct ls_builder *b, const struct ls_layer *l) LS_MUST_CHECK;
/* The window must fit the padded input once; *oh and *ow say how often it fits. */
enum ls_status ls__build_slide(const struct ls_builder *b, const struct ls_layer *l, int64_t *oh,
                               int64_t *ow) LS_MUST_CHECK;

/* A trained parameter: uniform in [-bound, bound), or a constant. */
enum ls_status ls__build_add_param(struct ls_builder *b, const struct ls_layer *l, const char *suffix,
                                   const struct ls_shape *shape, enum ls_init init, double bound,
                                   int *id) LS_MUST_CHECK;
enum ls_status ls__build_add_buffer(struct ls_builder *b, const struct ls_layer *l, const char *suffix,
                                    int64_t channels, enum ls_init init, int *id) LS_MUST_CHECK;
enum ls_status ls__build_add_node(struct ls_builder *b, const struct ls_layer *l, enum ls_op op,
                                  const struct ls_attrs *attrs, const int *in, int n_in, int *dst) LS_MUST_CHECK;
/* A node with the layer's attributes that reads its one tensor. */
enum ls_status ls__build_add_simple(struct ls_builder *b, const struct ls_layer *l, enum ls_op op,
                                    int *dst) LS_MUST_CHECK;

#endif
