/* tensor.c: see tensor/tensor.h. */
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[] = {
    [LS_F32] = {"f32", 4}, [LS_I64] = {"i64", 8}, [LS_I32] = {"i32", 4},
    [LS_U8] = {"u8", 1},   [LS_F16] = {"f16", 2}, [LS_BF16] = {"bf16", 2},
};

size_t ls_dtype_bytes(enum ls_dtype dtype)
{
    return dtypes[dtype].bytes;
}

const char *ls_dtype_name(enum ls_dtype dtype)
{
    return dtypes[dtype].name;
}

int64_t ls_shape_count(const struct ls_shape *s)
{
    int64_t n = 1;
    for (int i = 0; i < s->n_dims; i++) n *= s->dims[i];
    return n;
}

bool ls_shape_is_equal(const struct ls_shape *a, const struct ls_shape *b)
{
    return a->n_dims == b->n_dims && memcmp(a->dims, b->dims, sizeof a->dims[0] * (size_t)a->n_dims) == 0;
}

const char *ls_shape_text(const struct ls_shape *s, char out[LS_SHAPE_TEXT])
{
    size_t at = 0;
    out[0] = '\0';
    for (int i = 0; i < s->n_dims; i++)
        at += (size_t)snprintf(out + at, LS_SHAPE_TEXT - at, "%s%lld", i ? "x" : "", (long long)s->dims[i]);
    return out;
}

struct ls_layout ls_layout_plain(const struct ls_shape *s, enum ls_dtype dtype)
{
    return (struct ls_layout){
        .id = LS_LAYOUT_PLAIN, .bytes = (size_t)ls_shape_count(s) * ls_dtype_bytes(dtype), .tag = "plain"};
}

struct ls_layout ls_layout_any(void)
{
    return (struct ls_layout){.id = LS_LAYOUT_ANY, .tag = "any"};
}
