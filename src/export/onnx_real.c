/* onnx_real.c: a network as the bytes of an ONNX file, by protobuf-c.
 *
 * The messages point at the network's texts and numbers; nothing large is copied. The encoder hands out the file piece
 * by piece: small ones are gathered, tensors go to the disk from where they lie (mostly the mapped checkpoint).
 */
#include "base/file.h"
#include "base/mem.h"
#include "export/network.h"

#include <limits.h>
#include <onnx.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { IR_VERSION = 8, OPSET = 17, LARGE_PIECE = 1 << 16 };
enum { TYPE_FLOAT = 1, TYPE_UINT8 = 2, TYPE_INT64 = 7 };

/* All memory of the messages: blocks, freed at the end. */
struct draft {
    void **blocks;
    size_t n_blocks, cap;
};

/* n zeroed elements that live as long as the draft. */
static enum ls_status take(struct draft *d, void *out, size_t n, size_t size)
{
    void *block;
    if (d->n_blocks == d->cap) {
        size_t cap = d->cap ? 2 * d->cap : 64;
        TRY(ls__grow(&d->blocks, d->cap, cap, sizeof *d->blocks));
        d->cap = cap;
    }
    TRY(ls__calloc(&block, n ? n : 1, size));
    d->blocks[d->n_blocks++] = block;
    memcpy(out, &block, sizeof block);
    return LS_OK;
}

static void draft_release(struct draft *d)
{
    for (size_t i = 0; i < d->n_blocks; i++) free(d->blocks[i]);
    free(d->blocks);
}

/* An array of pointers to n messages that lie side by side in *messages. */
#define TAKE_LIST(d, list, messages, n)                                                                                \
    TRY(take(d, &(messages), (size_t)(n), sizeof *(messages)));                                                        \
    TRY(take(d, &(list), (size_t)(n), sizeof *(list)));                                                                \
    for (int list_at_ = 0; list_at_ < (n); list_at_++) (list)[list_at_] = &(messages)[list_at_]

static int data_type(enum ls_dtype dtype)
{
    return dtype == LS_F32 ? TYPE_FLOAT : dtype == LS_U8 ? TYPE_UINT8 : TYPE_INT64;
}

static enum ls_status make_attrs(struct draft *d, const struct onnx_node *from, LsOnnx__Node *to)
{
    LsOnnx__Attribute *attrs;
    TAKE_LIST(d, to->attribute, attrs, from->n_attrs);
    to->n_attribute = (size_t)from->n_attrs;
    for (int i = 0; i < from->n_attrs; i++) {
        const struct onnx_attr *a = &from->attrs[i];
        ls_onnx__attribute__init(&attrs[i]);
        attrs[i].name = (char *)a->name;
        attrs[i].has_type = true;
        attrs[i].type = (int)a->type;
        attrs[i].has_f = a->type == ONNX_FLOAT;
        attrs[i].f = a->f;
        attrs[i].has_i = a->type == ONNX_INT;
        attrs[i].i = a->i;
        attrs[i].n_ints = a->type == ONNX_INTS ? (size_t)a->n_ints : 0;
        attrs[i].ints = (int64_t *)a->ints;
    }
    return LS_OK;
}

static enum ls_status make_nodes(struct draft *d, const struct onnx_network *net, LsOnnx__Graph *graph)
{
    LsOnnx__Node *nodes;
    TAKE_LIST(d, graph->node, nodes, net->n_nodes);
    graph->n_node = (size_t)net->n_nodes;
    for (int i = 0; i < net->n_nodes; i++) {
        const struct onnx_node *n = &net->nodes[i];
        ls_onnx__node__init(&nodes[i]);
        nodes[i].name = (char *)n->name;
        nodes[i].op_type = (char *)n->op;
        nodes[i].input = (char **)n->inputs;
        nodes[i].n_input = (size_t)n->n_inputs;
        nodes[i].output = (char **)&n->output;
        nodes[i].n_output = 1;
        TRY(make_attrs(d, n, &nodes[i]));
    }
    return LS_OK;
}

static enum ls_status make_tensors(struct draft *d, const struct onnx_network *net, LsOnnx__Graph *graph)
{
    LsOnnx__Tensor *tensors;
    TAKE_LIST(d, graph->initializer, tensors, net->n_tensors);
    graph->n_initializer = (size_t)net->n_tensors;
    for (int i = 0; i < net->n_tensors; i++) {
        const struct onnx_tensor *t = &net->tensors[i];
        size_t bytes = (size_t)ls_shape_count(&t->shape) * ls_dtype_bytes(t->dtype);
        ls_onnx__tensor__init(&tensors[i]);
        tensors[i].name = (char *)t->name;
        tensors[i].n_dims = (size_t)t->shape.n_dims;
        tensors[i].dims = (int64_t *)t->shape.dims;
        tensors[i].has_data_type = true;
        tensors[i].data_type = data_type(t->dtype);
        tensors[i].has_raw_data = true;
        tensors[i].raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)t->data};
    }
    return LS_OK;
}

/* [batch, dims...]: the first is free. */
static enum ls_status make_value(struct draft *d, const char *name, enum ls_dtype dtype, const int64_t *dims, int n,
                                 LsOnnx__ValueInfo ***list)
{
    LsOnnx__ValueInfo *value;
    LsOnnx__Type *type;
    LsOnnx__TensorType *tensor;
    LsOnnx__Shape *shape;
    LsOnnx__Dimension *dim;
    TAKE_LIST(d, *list, value, 1);
    TRY(take(d, &type, 1, sizeof *type));
    TRY(take(d, &tensor, 1, sizeof *tensor));
    TRY(take(d, &shape, 1, sizeof *shape));
    ls_onnx__value_info__init(value);
    ls_onnx__type__init(type);
    ls_onnx__tensor_type__init(tensor);
    ls_onnx__shape__init(shape);
    TAKE_LIST(d, shape->dim, dim, n + 1);
    shape->n_dim = (size_t)n + 1;
    for (int i = 0; i <= n; i++) {
        ls_onnx__dimension__init(&dim[i]);
        dim[i].has_value = i > 0;
        if (i > 0)
            dim[i].value = dims[i - 1];
        else
            dim[i].param = (char *)"batch";
    }
    tensor->has_elem_type = true;
    tensor->elem_type = data_type(dtype);
    tensor->shape = shape;
    type->tensor_type = tensor;
    value->name = (char *)name;
    value->type = type;
    return LS_OK;
}

static enum ls_status make_graph(struct draft *d, const struct onnx_network *net, LsOnnx__Graph *graph)
{
    const int64_t image[3] = {net->c, net->h, net->w}, classes = net->n_classes;
    ls_onnx__graph__init(graph);
    graph->name = (char *)net->name;
    TRY(make_nodes(d, net, graph));
    TRY(make_tensors(d, net, graph));
    graph->n_input = graph->n_output = 1;
    TRY(make_value(d, net->input, net->input_dtype, image, 3, &graph->input));
    return make_value(d, net->output, LS_F32, &classes, 1, &graph->output);
}

static enum ls_status make_model(struct draft *d, const struct onnx_network *net, LsOnnx__Model **out)
{
    LsOnnx__Model *model;
    LsOnnx__Entry *meta;
    LsOnnx__OperatorSet *opset;
    TRY(take(d, &model, 1, sizeof *model));
    ls_onnx__model__init(model);
    model->has_ir_version = true;
    model->ir_version = IR_VERSION;
    model->producer_name = (char *)"lockstep";
    model->producer_version = (char *)LOCKSTEP_VERSION;
    model->has_model_version = true;
    model->model_version = net->step;
    TAKE_LIST(d, model->opset_import, opset, 1);
    model->n_opset_import = 1;
    ls_onnx__operator_set__init(opset);
    opset->domain = (char *)"";
    opset->has_version = true;
    opset->version = OPSET;
    TAKE_LIST(d, model->metadata_props, meta, net->n_meta);
    model->n_metadata_props = (size_t)net->n_meta;
    for (int i = 0; i < net->n_meta; i++) {
        ls_onnx__entry__init(&meta[i]);
        meta[i].key = (char *)net->meta[i].key;
        meta[i].value = (char *)net->meta[i].value;
    }
    TRY(take(d, &model->graph, 1, sizeof *model->graph));
    TRY(make_graph(d, net, model->graph));
    *out = model;
    return LS_OK;
}

/* --- to pieces --- */

/* What the encoder appends to. A piece whose data is NULL lies in `small`, behind those before it. */
struct sink {
    ProtobufCBuffer base; /* first: the encoder's view */
    struct ls_piece *pieces;
    size_t n, cap;
    uint8_t *small;
    size_t small_len, small_cap;
    enum ls_status status;
};

static enum ls_status add_piece(struct sink *s, const void *data, size_t len)
{
    if (!data && s->n > 0 && !s->pieces[s->n - 1].data) {
        s->pieces[s->n - 1].len += len;
        return LS_OK;
    }
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        TRY(ls__grow(&s->pieces, s->cap, cap, sizeof *s->pieces));
        s->cap = cap;
    }
    s->pieces[s->n++] = (struct ls_piece){data, len};
    return LS_OK;
}

static enum ls_status add_bytes(struct sink *s, size_t len, const uint8_t *data)
{
    if (len == 0) return LS_OK;
    if (len >= LARGE_PIECE) return add_piece(s, data, len);
    if (s->small_len + len > s->small_cap) {
        size_t cap = 2 * s->small_cap + len + 4096;
        TRY(ls__grow(&s->small, s->small_cap, cap, 1));
        s->small_cap = cap;
    }
    memcpy(s->small + s->small_len, data, len);
    s->small_len += len;
    return add_piece(s, NULL, len);
}

static void append(ProtobufCBuffer *base, size_t len, const uint8_t *data)
{
    struct sink *s = (struct sink *)base;
    if (s->status == LS_OK) s->status = add_bytes(s, len, data);
}

static enum ls_status write_model(const LsOnnx__Model *model, struct sink *s, const char *path, int64_t *bytes)
{
    size_t at = 0, size = ls_onnx__model__get_packed_size(model);
    if (size > INT_MAX)
        return ls_fail(LS_UNSUPPORTED, "%s would have %zu bytes; a file of ONNX cannot have more than 2 GiB", path,
                       size);
    ls_onnx__model__pack_to_buffer(model, &s->base);
    TRY(s->status);
    for (size_t i = 0; i < s->n; i++) {
        if (s->pieces[i].data) continue;
        s->pieces[i].data = s->small + at;
        at += s->pieces[i].len;
    }
    *bytes = (int64_t)size;
    return ls__file_write_atomic(path, s->pieces, s->n, LS_IO);
}

enum ls_status ls__onnx_can_write(void)
{
    return LS_OK;
}

enum ls_status ls__onnx_write(const struct onnx_network *net, const char *path, int64_t *bytes)
{
    struct draft d = {.blocks = NULL};
    struct sink s = {.base = {.append = append}, .status = LS_OK};
    LsOnnx__Model *model;
    enum ls_status status = make_model(&d, net, &model);
    if (status == LS_OK) status = write_model(model, &s, path, bytes);
    free(s.pieces);
    free(s.small);
    draft_release(&d);
    return status;
}
