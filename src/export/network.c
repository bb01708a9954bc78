/* network.c: grows the lists of struct onnx_network; names are its own copies (network.h). */
#include "export/network.h"

#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ls__onnx_release(struct onnx_network *net)
{
    for (int i = 0; i < net->n_tensors; i++) free(net->tensors[i].owned);
    free(net->tensors);
    free(net->nodes);
    ls__names_release(&net->names);
    *net = (struct onnx_network){.n_nodes = 0};
}

enum ls_status ls__onnx_name(struct onnx_network *net, const char **out, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    if (n < 0 || (size_t)n >= sizeof text) return ls_fail(LS_DATA, "the name of a layer is too long: %.60s...", text);
    TRY(ls__names_add(&net->names, text));
    *out = net->names.at[net->names.n - 1];
    return LS_OK;
}

enum ls_status ls__onnx_add_node(struct onnx_network *net, const char *op, const char *name, struct onnx_node **node)
{
    if (net->n_nodes == net->nodes_cap) {
        int cap = net->nodes_cap ? 2 * net->nodes_cap : 64;
        TRY(ls__grow(&net->nodes, (size_t)net->nodes_cap, (size_t)cap, sizeof *net->nodes));
        net->nodes_cap = cap;
    }
    *node = &net->nodes[net->n_nodes++];
    **node = (struct onnx_node){.op = op, .name = name, .output = ""};
    return LS_OK;
}

void ls__onnx_add_input(struct onnx_node *node, const char *name)
{
    if (node->n_inputs < ONNX_MAX_INPUTS) node->inputs[node->n_inputs++] = name;
}

static void add_attr(struct onnx_node *node, const struct onnx_attr *attr)
{
    if (node->n_attrs < ONNX_MAX_ATTRS) node->attrs[node->n_attrs++] = *attr;
}

void ls__onnx_add_int(struct onnx_node *node, const char *name, int64_t value)
{
    add_attr(node, &(struct onnx_attr){.name = name, .type = ONNX_INT, .i = value});
}

void ls__onnx_add_float(struct onnx_node *node, const char *name, float value)
{
    add_attr(node, &(struct onnx_attr){.name = name, .type = ONNX_FLOAT, .f = value});
}

void ls__onnx_add_ints(struct onnx_node *node, const char *name, const int64_t *values, int n)
{
    struct onnx_attr attr = {.name = name, .type = ONNX_INTS, .n_ints = n < ONNX_MAX_INTS ? n : ONNX_MAX_INTS};
    memcpy(attr.ints, values, (size_t)attr.n_ints * sizeof *values);
    add_attr(node, &attr);
}

void ls__onnx_add_meta(struct onnx_network *net, const char *key, const char *value)
{
    if (net->n_meta == ONNX_MAX_META || !value) return;
    net->meta[net->n_meta].key = key;
    net->meta[net->n_meta++].value = value;
}

enum ls_status ls__onnx_add_tensor(struct onnx_network *net, const struct onnx_tensor *tensor)
{
    for (int i = 0; i < net->n_tensors; i++)
        if (strcmp(net->tensors[i].name, tensor->name) == 0) return LS_OK;
    if (net->n_tensors == net->tensors_cap) {
        int cap = net->tensors_cap ? 2 * net->tensors_cap : 64;
        TRY(ls__grow(&net->tensors, (size_t)net->tensors_cap, (size_t)cap, sizeof *net->tensors));
        net->tensors_cap = cap;
    }
    net->tensors[net->n_tensors++] = *tensor;
    return LS_OK;
}

/* Takes data over, also on failure. */
static enum ls_status add_owned(struct onnx_network *net, const char *name, enum ls_dtype dtype,
                                const struct ls_shape *shape, void *data)
{
    const struct onnx_tensor tensor = {.name = name, .dtype = dtype, .shape = *shape, .data = data, .owned = data};
    int n = net->n_tensors;
    enum ls_status status = ls__onnx_add_tensor(net, &tensor);
    if (status == LS_OK && net->n_tensors == n) status = ls_fail(LS_INTERNAL, "two tensors are named %s", name);
    if (status != LS_OK) free(data);
    return status;
}

enum ls_status ls__onnx_make_tensor(struct onnx_network *net, const char *name, const struct ls_shape *shape,
                                    float **data)
{
    TRY(ls__calloc(data, (size_t)ls_shape_count(shape), sizeof **data));
    return add_owned(net, name, LS_F32, shape, *data);
}

enum ls_status ls__onnx_add_int64s(struct onnx_network *net, const char *name, const int64_t *values, int n)
{
    int64_t *data;
    TRY(ls__calloc(&data, (size_t)n, sizeof *data));
    memcpy(data, values, (size_t)n * sizeof *data);
    return add_owned(net, name, LS_I64, &LS_SHAPE1(n), data);
}
