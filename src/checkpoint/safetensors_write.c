/* safetensors_write.c: tensors and metadata into one file.
 *
 * In: tensors in plain layout, string metadata. Out: a file that safetensors_read.c (and anybody's safetensors reader)
 * accepts, written atomically.
 * Invariants: the header opens with LS_CKPT_OPENING, so the checksum has a fixed place; the data start at a multiple of
 * 64; tensors are ordered by element size, largest first and otherwise as given, so each one is aligned for its type
 * although the format allows no gaps. Nothing is written that the reader would refuse.
 */
#include "base/mem.h"
#include "checkpoint/internal.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors is little-endian and tensors are written as they lie");

static enum ls_status shape_bytes(const struct ls_ckpt_tensor *t, size_t *bytes)
{
    char shown[LS_CKPT_SHOWN];
    if (!t->name) return ls_fail(LS_CHECKPOINT, "a tensor without a name cannot be saved");
    ls__ckpt_shown(t->name, shown);
    if (t->dtype != LS_F32 && t->dtype != LS_I64 && t->dtype != LS_I32 && t->dtype != LS_U8)
        return ls_fail(LS_CHECKPOINT, "tensor '%s' has the unknown element type %d", shown, (int)t->dtype);
    if (t->shape.n_dims < 0 || t->shape.n_dims > LS_MAX_DIMS)
        return ls_fail(LS_CHECKPOINT, "tensor '%s' has %d dimensions; 0 to %d can be saved", shown, t->shape.n_dims,
                       LS_MAX_DIMS);
    *bytes = ls_dtype_bytes(t->dtype);
    for (int i = 0; i < t->shape.n_dims; i++)
        if (t->shape.dims[i] < 0 || __builtin_mul_overflow(*bytes, (uint64_t)t->shape.dims[i], bytes))
            return ls_fail(LS_CHECKPOINT, "tensor '%s' has the impossible dimension %lld", shown,
                           (long long)t->shape.dims[i]);
    return LS_OK;
}

enum ls_status ls__ckpt_tensor_bytes(const struct ls_ckpt_tensor *t, size_t *bytes)
{
    char shown[LS_CKPT_SHOWN];
    TRY(shape_bytes(t, bytes));
    if (*bytes && !t->data) return ls_fail(LS_CHECKPOINT, "tensor '%s' has no data", ls__ckpt_shown(t->name, shown));
    return LS_OK;
}

/* The file about to be written. pieces[0] is the header with its length, pieces[1..n] the tensors in file order. */
struct draft {
    json_t *root;
    char *header;
    struct ls_piece *pieces;
    int *order;      /* [n_tensors] file order -> index as given */
    bool is_trial;   /* the tensors have no data yet */
    size_t n_pieces; /* 1 + n_tensors */
    size_t bytes;    /* of the file */
};

static void draft_release(struct draft *d)
{
    json_decref(d->root);
    free(d->header);
    free(d->pieces);
    free(d->order);
}

static bool is_own_key(const char *key)
{
    return strcmp(key, LS_CKPT_CHECKSUM_KEY) == 0 || strcmp(key, LS_CKPT_FORMAT_KEY) == 0;
}

/* value is taken over, also on failure. */
static enum ls_status add(json_t *object, const char *what, const char *key, json_t *value)
{
    char shown[LS_CKPT_SHOWN];
    if (json_object_get(object, key)) {
        json_decref(value);
        return ls_fail(LS_CHECKPOINT, "%s '%s' is given twice; names must be unique", what, ls__ckpt_shown(key, shown));
    }
    if (json_object_set_new(object, key, value) != 0)
        return ls_fail(LS_CHECKPOINT, "%s '%s' cannot be saved: not valid UTF-8, or out of memory", what,
                       ls__ckpt_shown(key, shown));
    return LS_OK;
}

/* value as JSON takes it; NULL when out of memory. */
static json_t *value_json(const char *value)
{
    char *hex;
    json_t *string = ls__ckpt_needs_hex(value) ? NULL : json_string(value);
    if (string || ls__ckpt_to_hex(value, &hex) != LS_OK) return string;
    string = json_string(hex);
    free(hex);
    return string;
}

static enum ls_status add_metadata(struct draft *d, const struct ls_ckpt_meta *meta, int n_meta)
{
    char zeros[LS_CKPT_CHECKSUM_DIGITS + 1] = {0};
    memset(zeros, '0', LS_CKPT_CHECKSUM_DIGITS);
    json_t *object = json_object();
    TRY(add(d->root, "entry", LS_CKPT_METADATA, object));
    TRY(add(object, "metadata key", LS_CKPT_CHECKSUM_KEY, json_string(zeros)));
    TRY(add(object, "metadata key", LS_CKPT_FORMAT_KEY, json_string(LS_CKPT_FORMAT)));
    for (int i = 0; i < n_meta; i++) {
        if (!meta[i].key || !meta[i].value)
            return ls_fail(LS_CHECKPOINT, "metadata entry %d has no key or no value", i);
        if (is_own_key(meta[i].key)) continue; /* copied from another checkpoint; ours replace them */
        TRY(add(object, "metadata key", meta[i].key, value_json(meta[i].value)));
    }
    return LS_OK;
}

/* Larger elements first; equal ones stay as given. */
static void sort_by_alignment(struct draft *d, const struct ls_ckpt_tensor *tensors, int n)
{
    int at = 0;
    for (size_t bytes = 8; bytes > 0; bytes /= 2)
        for (int i = 0; i < n; i++)
            if (ls_dtype_bytes(tensors[i].dtype) == bytes) d->order[at++] = i;
}

static json_t *describe(const struct ls_ckpt_tensor *t, size_t begin, size_t end)
{
    json_t *shape = json_array();
    for (int i = 0; i < t->shape.n_dims; i++) json_array_append_new(shape, json_integer(t->shape.dims[i]));
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype", ls__ckpt_dtype_name(t->dtype), "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)end);
}

static enum ls_status add_tensors(struct draft *d, const struct ls_ckpt_tensor *tensors, int n)
{
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes;
        TRY(d->is_trial ? shape_bytes(&tensors[i], &bytes) : ls__ckpt_tensor_bytes(&tensors[i], &bytes));
    }
    sort_by_alignment(d, tensors, n);
    for (int i = 0; i < n; i++) {
        const struct ls_ckpt_tensor *t = &tensors[d->order[i]];
        size_t bytes, end;
        TRY(shape_bytes(t, &bytes));
        if (__builtin_add_overflow(at, bytes, &end) || end > INT64_MAX)
            return ls_fail(LS_CHECKPOINT, "the tensors are too large for one file");
        TRY(add(d->root, "tensor", t->name, describe(t, at, end)));
        d->pieces[1 + i] = (struct ls_piece){t->data, bytes};
        at = end;
    }
    d->bytes = at;
    return LS_OK;
}

/* d->root as text, padded with spaces, behind its length. */
static enum ls_status make_header(struct draft *d)
{
    char *text = json_dumps(d->root, JSON_COMPACT);
    if (!text) return ls_fail(LS_NOMEM, "out of memory for a checkpoint's header");
    size_t n_text = strlen(text);
    size_t total = (LS_CKPT_LENGTH_BYTES + n_text + LS_CKPT_DATA_ALIGN - 1) / LS_CKPT_DATA_ALIGN * LS_CKPT_DATA_ALIGN;
    uint64_t n_header = total - LS_CKPT_LENGTH_BYTES;
    enum ls_status status = LS_OK;
    if (n_header > LS_CKPT_MAX_HEADER_BYTES)
        status = ls_fail(LS_CHECKPOINT, "the checkpoint's header would have %llu bytes; at most %d can be read again",
                         (unsigned long long)n_header, LS_CKPT_MAX_HEADER_BYTES);
    if (status == LS_OK) status = ls__calloc(&d->header, total, 1);
    if (status == LS_OK) {
        memset(d->header, ' ', total);
        memcpy(d->header, &n_header, LS_CKPT_LENGTH_BYTES);
        memcpy(d->header + LS_CKPT_LENGTH_BYTES, text, n_text);
        d->pieces[0] = (struct ls_piece){d->header, total};
    }
    free(text);
    return status;
}

static enum ls_status draft_build(struct draft *d, const struct ls_ckpt_tensor *tensors, int n_tensors,
                                  const struct ls_ckpt_meta *meta, int n_meta)
{
    char hex[LS_CKPT_CHECKSUM_DIGITS + 1];
    if (n_tensors < 0 || n_tensors > LS_CKPT_MAX_TENSORS)
        return ls_fail(LS_CHECKPOINT, "%d tensors cannot be saved in one checkpoint, at most %d", n_tensors,
                       LS_CKPT_MAX_TENSORS);
    d->n_pieces = (size_t)n_tensors + 1;
    TRY(ls__calloc(&d->pieces, d->n_pieces, sizeof *d->pieces));
    TRY(ls__calloc(&d->order, (size_t)n_tensors, sizeof *d->order));
    d->root = json_object();
    if (!d->root) return ls_fail(LS_NOMEM, "out of memory for a checkpoint's header");
    TRY(add_metadata(d, meta, n_meta));
    TRY(add_tensors(d, tensors, n_tensors));
    TRY(make_header(d));
    d->bytes += d->pieces[0].len;
    if (d->is_trial) return LS_OK;
    TRY(ls__ckpt_checksum(d->pieces, d->n_pieces, hex));
    memcpy(d->header + LS_CKPT_CHECKSUM_AT, hex, LS_CKPT_CHECKSUM_DIGITS);
    return LS_OK;
}

enum ls_status ls_ckpt_write(const char *path, const struct ls_ckpt_tensor *tensors, int n_tensors,
                             const struct ls_ckpt_meta *meta, int n_meta)
{
    struct draft d = {0};
    enum ls_status status = draft_build(&d, tensors, n_tensors, meta, n_meta);
    if (status != LS_OK)
        status = ls_fail_in(LS_CHECKPOINT, "save %s", path);
    else
        status = ls__file_write_atomic(path, d.pieces, d.n_pieces, LS_CHECKPOINT);
    draft_release(&d);
    return status;
}

enum ls_status ls__ckpt_write_in(const struct ls_dir *folder, const char *name, const struct ls_ckpt_tensor *tensors,
                                 int n_tensors, const struct ls_ckpt_meta *meta, int n_meta, bool is_trial)
{
    struct draft d = {.is_trial = is_trial};
    enum ls_status status = draft_build(&d, tensors, n_tensors, meta, n_meta);
    if (status != LS_OK)
        status = ls_fail_in(LS_CHECKPOINT, "save %s/%s", folder->path, name);
    else if (is_trial)
        status = ls__dir_try_write(folder, name, &d.pieces[0], d.bytes, LS_CHECKPOINT);
    else
        status = ls__dir_write_atomic(folder, name, d.pieces, d.n_pieces, LS_CHECKPOINT);
    draft_release(&d);
    return status;
}
