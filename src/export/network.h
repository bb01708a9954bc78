/* network.h: a network as ONNX tells it, before it becomes bytes: operators over named values, and tensors that come
 * with it. Internal to src/export.
 *
 *     struct onnx_network net = {0};
 *     struct onnx_node *node;
 *     TRY(ls__onnx_add_node(&net, "Conv", "conv1", &node));
 *     TRY(ls__onnx_add_input(node, "images")); ...
 *     ls__onnx_add_ints(node, "strides", (int64_t[]){2, 2}, 2);
 *     ls__onnx_release(&net);                   after a failure too
 *
 * Names are borrowed and live as long as the network: ls__onnx_name makes them.
 */
#ifndef LS_EXPORT_NETWORK_H
#define LS_EXPORT_NETWORK_H

#include "base/names.h"
#include "tensor/tensor.h"

enum { ONNX_MAX_INPUTS = 16, ONNX_MAX_ATTRS = 8, ONNX_MAX_INTS = 8, ONNX_MAX_META = 16 };

enum onnx_attr_type { ONNX_FLOAT = 1, ONNX_INT = 2, ONNX_INTS = 7 }; /* as the format numbers them */

struct onnx_attr {
    const char *name;
    enum onnx_attr_type type;
    float f;
    int64_t i;
    int64_t ints[ONNX_MAX_INTS];
    int n_ints;
};

struct onnx_node {
    const char *op, *name;
    const char *inputs[ONNX_MAX_INPUTS]; /* "": an optional one that is absent */
    int n_inputs;
    const char *output; /* every operator here has one */
    struct onnx_attr attrs[ONNX_MAX_ATTRS];
    int n_attrs;
};

struct onnx_tensor {
    const char *name;
    enum ls_dtype dtype; /* LS_F32, LS_I64 */
    struct ls_shape shape;
    const void *data;
    void *owned; /* the same, if the network frees it; NULL: another's */
};

struct onnx_network {
    const char *name;
    const char *input; /* [batch,c,h,w] */
    enum ls_dtype input_dtype;
    int c, h, w;
    const char *output; /* [batch,n_classes] */
    int n_classes;
    int64_t step; /* the version of the model */
    struct onnx_node *nodes;
    int n_nodes, nodes_cap;
    struct onnx_tensor *tensors;
    int n_tensors, tensors_cap;
    struct {
        const char *key, *value;
    } meta[ONNX_MAX_META];
    int n_meta;
    struct ls_names names; /* texts made for it */
};

void ls__onnx_release(struct onnx_network *net);

/* A text that lives as long as the network. */
enum ls_status ls__onnx_name(struct onnx_network *net, const char **out, const char *fmt, ...)
    LS_PRINTF(3, 4) LS_MUST_CHECK;
/* *node is valid until the next is added. Its output is to be set. */
enum ls_status ls__onnx_add_node(struct onnx_network *net, const char *op, const char *name,
                                 struct onnx_node **node) LS_MUST_CHECK;
void ls__onnx_add_input(struct onnx_node *node, const char *name);
void ls__onnx_add_int(struct onnx_node *node, const char *name, int64_t value);
void ls__onnx_add_float(struct onnx_node *node, const char *name, float value);
void ls__onnx_add_ints(struct onnx_node *node, const char *name, const int64_t *values, int n);
void ls__onnx_add_meta(struct onnx_network *net, const char *key, const char *value);

/* Borrowed numbers. A name that is there already is the same tensor and not added again. */
enum ls_status ls__onnx_add_tensor(struct onnx_network *net, const struct onnx_tensor *tensor) LS_MUST_CHECK;
/* Zeroed float32 numbers of its own, to be filled. */
enum ls_status ls__onnx_make_tensor(struct onnx_network *net, const char *name, const struct ls_shape *shape,
                                    float **data) LS_MUST_CHECK;
/* A few int64 numbers, copied: shapes. */
enum ls_status ls__onnx_add_int64s(struct onnx_network *net, const char *name, const int64_t *values,
                                   int n) LS_MUST_CHECK;

/* onnx_real.c, onnx_stub.c: to a file, whole or not at all. *bytes: its size. */
enum ls_status ls__onnx_write(const struct onnx_network *net, const char *path, int64_t *bytes) LS_MUST_CHECK;
/* LS_UNSUPPORTED where this build cannot. */
enum ls_status ls__onnx_can_write(void) LS_MUST_CHECK;

#endif
