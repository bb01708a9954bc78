/* safetensors_read.c: a file back into tensors and metadata, or one line saying why not.
 *
 * In: a file of anybody's making; hostile input is normal input. Out: an ls_ckpt whose tensors point into the mapped
 * file. The checks, in this order, each before anything of that size is allocated:
 *   1. header length: at least 2, at most 100,000,000 (the format's limit), inside the file, at most 2 MiB (ours)
 *   2. header text: opens with '{'; not nested deeper than 3, not too many entries (scan, no allocation)
 *   3. JSON: UTF-8, no key twice, nothing behind it but blanks
 *   4. __metadata__: strings only
 *   5. (safetensors_tensors.c) each tensor: exactly dtype, shape, data_offsets; known type; size of the shape = size of
 * the range
 *   6. the ranges follow each other without hole or overlap and cover the rest of the file exactly
 *   7. the checksum, when the file has one. Files of ours carry lockstep.format beside lockstep.checksum, so that
 * damage to one of the two keys cannot turn a file of ours into one of somebody else's, which needs no checksum. A
 * tensor that is not aligned for its type (files from elsewhere) is copied; all copies together are smaller than the
 * file.
 */
#include "checkpoint/safetensors_read.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MIN_HEADER_BYTES = 2, FORMAT_MAX_HEADER_BYTES = 100000000, MAX_DEPTH = 3 };

const char *ls__ckpt_shown(const char *text, char out[LS_CKPT_SHOWN])
{
    size_t n = 0;
    for (; n < LS_CKPT_SHOWN - 4 && text[n]; n++)
        out[n] = (unsigned char)text[n] < ' ' || text[n] == 0x7f ? '?' : text[n];
    if (text[n]) {
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80) n--; /* not within a character */
        memcpy(out + n, "...", 3);
        n += 3;
    }
    out[n] = '\0';
    return out;
}

/* --- header --- */

static enum ls_status split(struct ls_ckpt_view *v)
{
    uint64_t n;
    if (v->file_len < LS_CKPT_LENGTH_BYTES + MIN_HEADER_BYTES)
        return ls_fail(LS_CHECKPOINT, "%s: %zu bytes are too few for a safetensors file", v->origin, v->file_len);
    memcpy(&n, v->file, sizeof n);
    if (n > FORMAT_MAX_HEADER_BYTES)
        return ls_fail(LS_CHECKPOINT, "%s: header length %llu is over the format's limit of %d: not a safetensors file",
                       v->origin, (unsigned long long)n, FORMAT_MAX_HEADER_BYTES);
    if (n < MIN_HEADER_BYTES || n > v->file_len - LS_CKPT_LENGTH_BYTES)
        return ls_fail(LS_CHECKPOINT, "%s: header length %llu does not fit the file's %zu bytes: cut short or damaged",
                       v->origin, (unsigned long long)n, v->file_len);
    if (n > LS_CKPT_MAX_HEADER_BYTES)
        return ls_fail(LS_CHECKPOINT, "%s: header of %llu bytes, at most %d are read", v->origin, (unsigned long long)n,
                       LS_CKPT_MAX_HEADER_BYTES);
    v->header = (const char *)v->file + LS_CKPT_LENGTH_BYTES;
    v->header_len = (size_t)n;
    v->buffer = v->file + LS_CKPT_LENGTH_BYTES + n;
    v->buffer_len = v->file_len - LS_CKPT_LENGTH_BYTES - (size_t)n;
    if (v->header[0] != '{')
        return ls_fail(LS_CHECKPOINT, "%s: header does not open with '{': not a safetensors file", v->origin);
    return LS_OK;
}

/* A look over the text that allocates nothing: what passes is cheap to parse. */
static enum ls_status scan(const struct ls_ckpt_view *v)
{
    bool in_string = false;
    int depth = 0;
    size_t n_objects = 0, n_tokens = 0;
    for (size_t i = 0; i < v->header_len; i++) {
        char c = v->header[i];
        if (in_string && c == '\\') {
            i++;
        } else if (c == '"') {
            in_string = !in_string;
        } else if (!in_string) {
            n_objects += c == '{';
            n_tokens += c == '{' || c == '[' || c == ',' || c == ':';
            if (c == '{' || c == '[') depth++;
            if (c == '}' || c == ']') depth--;
            if (depth > MAX_DEPTH)
                return ls_fail(LS_CHECKPOINT, "%s: header is nested deeper than %d", v->origin, MAX_DEPTH);
        }
    }
    if (n_objects > LS_CKPT_MAX_TENSORS + 2)
        return ls_fail(LS_CHECKPOINT, "%s: header lists more than %d tensors", v->origin, LS_CKPT_MAX_TENSORS);
    if (n_tokens > LS_CKPT_MAX_TOKENS)
        return ls_fail(LS_CHECKPOINT, "%s: header has more than %d entries", v->origin, LS_CKPT_MAX_TOKENS);
    return LS_OK;
}

static enum ls_status load_json(struct ls_ckpt *c, const struct ls_ckpt_view *v)
{
    json_error_t error;
    char shown[LS_CKPT_SHOWN];
    c->root = json_loadb(v->header, v->header_len, JSON_REJECT_DUPLICATES, &error);
    if (!c->root && json_error_code(&error) == json_error_out_of_memory)
        return ls_fail(LS_NOMEM, "%s: out of memory for the header", v->origin);
    if (!c->root)
        return ls_fail(LS_CHECKPOINT, "%s: header is not valid JSON at byte %d: %s", v->origin,
                       error.position + LS_CKPT_LENGTH_BYTES, ls__ckpt_shown(error.text, shown));
    if (!json_is_object(c->root)) return ls_fail(LS_CHECKPOINT, "%s: header is not a JSON object", v->origin);
    return LS_OK;
}

/* Values that JSON could not take as they are, in a file of ours. */
static enum ls_status decode_value(json_t *metadata, const char *key, json_t **value)
{
    char *bytes;
    TRY(ls__ckpt_from_hex(json_string_value(*value), &bytes));
    if (!bytes) return LS_OK;
    json_t *plain = json_string_nocheck(bytes);
    free(bytes);
    if (json_object_iter_set_new(metadata, json_object_key_to_iter(key), plain) != 0)
        return ls_fail(LS_NOMEM, "out of memory for a checkpoint's metadata");
    *value = plain;
    return LS_OK;
}

static enum ls_status read_metadata(struct ls_ckpt *c, const struct ls_ckpt_view *v)
{
    const char *key;
    json_t *value, *object = json_object_get(c->root, LS_CKPT_METADATA);
    char shown[LS_CKPT_SHOWN];
    if (!object) return LS_OK;
    if (!json_is_object(object))
        return ls_fail(LS_CHECKPOINT, "%s: %s is not an object of strings", v->origin, LS_CKPT_METADATA);
    TRY(ls__calloc(&c->meta, json_object_size(object), sizeof *c->meta));
    json_object_foreach(object, key, value)
    {
        if (!json_is_string(value))
            return ls_fail(LS_CHECKPOINT, "%s: metadata '%s' is not a string", v->origin, ls__ckpt_shown(key, shown));
        if (json_object_get(object, LS_CKPT_FORMAT_KEY)) TRY(decode_value(object, key, &value));
        c->meta[c->n_meta++] = (struct ls_ckpt_meta){key, json_string_value(value)};
    }
    return LS_OK;
}

/* --- checksum --- */

static enum ls_status verify(struct ls_ckpt *c, const struct ls_ckpt_view *v)
{
    const char *given = ls_ckpt_meta(c, LS_CKPT_CHECKSUM_KEY), *format = ls_ckpt_meta(c, LS_CKPT_FORMAT_KEY);
    char hex[LS_CKPT_CHECKSUM_DIGITS + 1], shown[LS_CKPT_SHOWN];
    if (!given && !format) return LS_OK;
    if (!given || !format)
        return ls_fail(LS_CHECKPOINT, "%s: metadata has only one of %s and %s: damaged or changed by another program",
                       v->origin, LS_CKPT_CHECKSUM_KEY, LS_CKPT_FORMAT_KEY);
    if (v->header_len < sizeof LS_CKPT_OPENING - 1 + LS_CKPT_CHECKSUM_DIGITS ||
        memcmp(v->header, LS_CKPT_OPENING, sizeof LS_CKPT_OPENING - 1) != 0 ||
        strlen(given) != LS_CKPT_CHECKSUM_DIGITS ||
        memcmp(v->file + LS_CKPT_CHECKSUM_AT, given, LS_CKPT_CHECKSUM_DIGITS) != 0)
        return ls_fail(LS_CHECKPOINT, "%s: %s is not 32 digits at byte %d: damaged or changed by another program",
                       v->origin, LS_CKPT_CHECKSUM_KEY, LS_CKPT_CHECKSUM_AT);
    TRY(ls__ckpt_checksum(&(struct ls_piece){v->file, v->file_len}, 1, hex));
    if (strcmp(hex, given) != 0)
        return ls_fail(LS_CHECKPOINT, "%s: checksum is %s, the file says %s: damaged or changed by another program",
                       v->origin, hex, ls__ckpt_shown(given, shown));
    if (strcmp(format, LS_CKPT_FORMAT) != 0)
        return ls_fail(LS_CHECKPOINT,
                       "%s: written as format %s, this version reads " LS_CKPT_FORMAT "; use a newer Lockstep",
                       v->origin, ls__ckpt_shown(format, shown));
    c->has_checksum = true;
    return LS_OK;
}

/* --- the object --- */

static enum ls_status build(struct ls_ckpt *c, struct ls_ckpt_view *v)
{
    TRY(split(v));
    TRY(scan(v));
    TRY(load_json(c, v));
    TRY(read_metadata(c, v));
    TRY(ls__ckpt_read_tensors(c, v));
    return verify(c, v);
}

/* Takes over the map, also on failure. */
static enum ls_status create(struct ls_ckpt **out, struct ls_map map, struct ls_ckpt_view *v)
{
    struct ls_ckpt *c;
    enum ls_status status = ls__calloc(&c, 1, sizeof *c);
    if (status != LS_OK) {
        ls__map_close(&map);
        return status;
    }
    c->map = map;
    status = build(c, v);
    if (status != LS_OK) ls_ckpt_close(&c);
    *out = c;
    return status;
}

enum ls_status ls_ckpt_open(struct ls_ckpt **out, const char *path)
{
    struct ls_map map;
    *out = NULL;
    if (ls__map_open(path, &map) != LS_OK) return ls_fail_in(LS_CHECKPOINT, "checkpoint");
    if (map.len) madvise((void *)map.data, map.len, MADV_SEQUENTIAL); /* a wish, not a need */
    struct ls_ckpt_view v = {.origin = path, .file = map.data, .file_len = map.len};
    return create(out, map, &v);
}

enum ls_status ls_ckpt_parse(struct ls_ckpt **out, const char *origin, const void *data, size_t len)
{
    struct ls_ckpt_view v = {.origin = origin, .file = data, .file_len = len};
    *out = NULL;
    return create(out, (struct ls_map){0}, &v);
}

void ls_ckpt_close(struct ls_ckpt **ckpt)
{
    struct ls_ckpt *c = *ckpt;
    *ckpt = NULL;
    if (!c) return;
    ls__free_aligned(c->copies, c->copies_bytes);
    free(c->tensors);
    free(c->meta);
    json_decref(c->root);
    ls__map_close(&c->map);
    free(c);
}

bool ls_ckpt_has_checksum(const struct ls_ckpt *c)
{
    return c->has_checksum;
}

int ls_ckpt_n_tensors(const struct ls_ckpt *c)
{
    return c->n_tensors;
}

const struct ls_ckpt_tensor *ls_ckpt_tensor_at(const struct ls_ckpt *c, int index)
{
    return &c->tensors[index];
}

const struct ls_ckpt_tensor *ls_ckpt_find(const struct ls_ckpt *c, const char *name)
{
    for (int i = 0; i < c->n_tensors; i++)
        if (strcmp(c->tensors[i].name, name) == 0) return &c->tensors[i];
    return NULL;
}

const char *ls_ckpt_meta(const struct ls_ckpt *c, const char *key)
{
    for (int i = 0; i < c->n_meta; i++)
        if (strcmp(c->meta[i].key, key) == 0) return c->meta[i].value;
    return NULL;
}

int ls_ckpt_n_meta(const struct ls_ckpt *c)
{
    return c->n_meta;
}

struct ls_ckpt_meta ls_ckpt_meta_at(const struct ls_ckpt *c, int index)
{
    return c->meta[index];
}
