/* safetensors_tensors.c: the tensors that a header lists: type, shape and place of each, and that together they cover
 * the data exactly. Steps 5 and 6 of the checks in safetensors_read.c; input is hostile here, too.
 */
#include "base/mem.h"
#include "checkpoint/safetensors_read.h"

#include <stdlib.h>
#include <string.h>

/* A tensor and where it lies in the buffer. */
struct span {
    struct ls_ckpt_tensor tensor;
    uint64_t begin, end;
    int index; /* in the header, to keep the order of empty tensors */
};

static const struct {
    enum ls_dtype dtype;
    const char *name;
} dtypes[] = {{LS_F32, "F32"}, {LS_I64, "I64"}, {LS_I32, "I32"}, {LS_U8, "U8"}, {LS_F16, "F16"}, {LS_BF16, "BF16"}};

const char *ls__ckpt_dtype_name(enum ls_dtype dtype)
{
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
        if (dtypes[i].dtype == dtype) return dtypes[i].name;
    return "?";
}

static enum ls_status bad_tensor(const struct ls_ckpt_view *v, const struct span *s, const char *why)
{
    char shown[LS_CKPT_SHOWN];
    return ls_fail(LS_CHECKPOINT, "%s: tensor '%s': %s", v->origin, ls__ckpt_shown(s->tensor.name, shown), why);
}

static enum ls_status read_dtype(const struct ls_ckpt_view *v, struct span *s, const json_t *value)
{
    char shown[LS_CKPT_SHOWN], why[160];
    const char *name = json_string_value(value);
    if (!name) return bad_tensor(v, s, "dtype is missing or not a string");
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        if (strcmp(dtypes[i].name, name) != 0) continue;
        s->tensor.dtype = dtypes[i].dtype;
        return LS_OK;
    }
    snprintf(why, sizeof why,
             "element type %s is not supported, only F32, F16, BF16, I64, I32 and U8; convert it first",
             ls__ckpt_shown(name, shown));
    return bad_tensor(v, s, why);
}

static enum ls_status read_shape(const struct ls_ckpt_view *v, struct span *s, const json_t *value)
{
    struct ls_shape *shape = &s->tensor.shape;
    if (!json_is_array(value)) return bad_tensor(v, s, "shape is missing or not an array");
    if (json_array_size(value) > LS_MAX_DIMS) return bad_tensor(v, s, "more than 4 dimensions");
    shape->n_dims = (int)json_array_size(value);
    for (int i = 0; i < shape->n_dims; i++) {
        const json_t *dim = json_array_get(value, (size_t)i);
        if (!json_is_integer(dim) || json_integer_value(dim) < 0)
            return bad_tensor(v, s, "a dimension is not a number from 0 up");
        shape->dims[i] = json_integer_value(dim);
    }
    return LS_OK;
}

static enum ls_status read_offsets(const struct ls_ckpt_view *v, struct span *s, const json_t *value)
{
    const json_t *begin = json_array_get(value, 0), *end = json_array_get(value, 1);
    if (json_array_size(value) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad_tensor(v, s, "data_offsets is not a pair of numbers");
    if (json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return bad_tensor(v, s, "data_offsets are negative or in the wrong order");
    s->begin = (uint64_t)json_integer_value(begin);
    s->end = (uint64_t)json_integer_value(end);
    if (s->end > v->buffer_len) return bad_tensor(v, s, "data lie beyond the end of the file: cut short or damaged");
    return LS_OK;
}

static enum ls_status check_size(const struct ls_ckpt_view *v, struct span *s)
{
    char why[160], shape[LS_SHAPE_TEXT];
    uint64_t bytes = ls_dtype_bytes(s->tensor.dtype);
    for (int i = 0; i < s->tensor.shape.n_dims; i++)
        if (__builtin_mul_overflow(bytes, (uint64_t)s->tensor.shape.dims[i], &bytes))
            return bad_tensor(v, s, "the shape's size overflows");
    if (bytes == s->end - s->begin) return LS_OK;
    snprintf(why, sizeof why, "shape [%s] of %s needs %llu bytes, data_offsets give %llu",
             ls_shape_text(&s->tensor.shape, shape), ls__ckpt_dtype_name(s->tensor.dtype), (unsigned long long)bytes,
             (unsigned long long)(s->end - s->begin));
    return bad_tensor(v, s, why);
}

static enum ls_status read_tensor(const struct ls_ckpt_view *v, struct span *s, const json_t *value)
{
    if (!json_is_object(value) || json_object_size(value) != 3)
        return bad_tensor(v, s, "not an object with exactly dtype, shape and data_offsets");
    TRY(read_dtype(v, s, json_object_get(value, "dtype")));
    TRY(read_shape(v, s, json_object_get(value, "shape")));
    TRY(read_offsets(v, s, json_object_get(value, "data_offsets")));
    return check_size(v, s);
}

static int compare_spans(const void *a, const void *b)
{
    const struct span *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end) return x->end < y->end ? -1 : 1;
    return x->index - y->index;
}

static enum ls_status check_cover(const struct ls_ckpt_view *v, const struct span *spans, int n)
{
    uint64_t at = 0;
    for (int i = 0; i < n; i++) {
        if (spans[i].begin > at) return bad_tensor(v, &spans[i], "a hole lies before its data");
        if (spans[i].begin < at) return bad_tensor(v, &spans[i], "its data overlap another tensor's");
        at = spans[i].end;
    }
    if (at != v->buffer_len)
        return ls_fail(LS_CHECKPOINT, "%s: %llu bytes behind the last tensor belong to none", v->origin,
                       (unsigned long long)(v->buffer_len - at));
    return LS_OK;
}

static bool is_misaligned(const struct ls_ckpt_tensor *t)
{
    return (uintptr_t)t->data % ls_dtype_bytes(t->dtype) != 0;
}

static size_t padded_bytes(const struct span *s)
{
    return (size_t)(s->end - s->begin + 7) / 8 * 8;
}

/* Points the tensors at their data and copies those that a float or integer pointer must not point at. */
static enum ls_status place(struct ls_ckpt *c, const struct ls_ckpt_view *v, const struct span *spans)
{
    for (int i = 0; i < c->n_tensors; i++) {
        c->tensors[i] = spans[i].tensor;
        c->tensors[i].data = v->buffer + spans[i].begin;
        if (is_misaligned(&c->tensors[i])) c->copies_bytes += padded_bytes(&spans[i]);
    }
    if (c->copies_bytes) TRY(ls__alloc_aligned(&c->copies, c->copies_bytes));
    uint8_t *to = c->copies;
    for (int i = 0; i < c->n_tensors; i++) {
        if (!is_misaligned(&c->tensors[i])) continue;
        if (to && spans[i].end > spans[i].begin)
            memcpy(to, c->tensors[i].data, (size_t)(spans[i].end - spans[i].begin));
        c->tensors[i].data = to ? (const void *)to : (const void *)v->file; /* empty ones need no place */
        if (to) to += padded_bytes(&spans[i]);
    }
    return LS_OK;
}

static enum ls_status fill_spans(struct ls_ckpt *c, const struct ls_ckpt_view *v, struct span *spans)
{
    const char *name;
    json_t *value;
    json_object_foreach(c->root, name, value)
    {
        if (strcmp(name, LS_CKPT_METADATA) == 0) continue;
        struct span *s = &spans[c->n_tensors];
        s->tensor.name = name;
        s->index = c->n_tensors++;
        TRY(read_tensor(v, s, value));
    }
    if (c->n_tensors) qsort(spans, (size_t)c->n_tensors, sizeof *spans, compare_spans);
    TRY(check_cover(v, spans, c->n_tensors));
    return place(c, v, spans);
}

enum ls_status ls__ckpt_read_tensors(struct ls_ckpt *c, const struct ls_ckpt_view *v)
{
    struct span *spans;
    size_t n_entries = json_object_size(c->root);
    TRY(ls__calloc(&c->tensors, n_entries, sizeof *c->tensors));
    TRY(ls__calloc(&spans, n_entries, sizeof *spans));
    enum ls_status status = fill_spans(c, v, spans);
    free(spans);
    return status;
}
