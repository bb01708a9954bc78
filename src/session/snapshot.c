/* snapshot.c: the store as plain tensors: hash, checkpoint, and back. */
#include "base/mem.h"
#include "session/session.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { NAME_BYTES = 160 };

static bool is_weight(const struct ls_stored *e)
{
    return e->source < 0 && (e->kind == LS_VALUE_PARAM || e->kind == LS_VALUE_BUFFER);
}

static size_t plain_bytes(const struct ls_stored *e)
{
    return (size_t)ls_shape_count(&e->shape) * sizeof(float);
}

static void write_digest(const XXH3_state_t *state, char hex[33])
{
    XXH128_hash_t h = XXH3_128bits_digest(state);
    snprintf(hex, 33, "%016llx%016llx", (unsigned long long)h.high64, (unsigned long long)h.low64);
}

enum ls_status ls__session_hash(struct session *s, char hex[33])
{
    XXH3_state_t *state = XXH3_createState();
    enum ls_status status = state ? LS_OK : ls_fail(LS_NOMEM, "out of memory while hashing");
    if (status == LS_OK) XXH3_128bits_reset(state);
    for (int i = 0; status == LS_OK && i < s->store->n_entries; i++) {
        const struct ls_stored *e = &s->store->entries[i];
        float *plain;
        if (!is_weight(e)) continue;
        status = ls__alloc_aligned(&plain, plain_bytes(e));
        if (status != LS_OK) break;
        status = ls_exec_get(s->exec, i, plain);
        if (status == LS_OK) XXH3_128bits_update(state, plain, plain_bytes(e));
        ls__free_aligned(plain, plain_bytes(e));
    }
    if (status == LS_OK) write_digest(state, hex);
    XXH3_freeState(state);
    return status;
}

enum ls_status ls__snapshot_hash(const struct snapshot *snap, char hex[33])
{
    XXH3_state_t *state = XXH3_createState();
    if (!state) return ls_fail(LS_NOMEM, "out of memory while hashing");
    XXH3_128bits_reset(state);
    for (int i = 0; i < snap->n_own; i++)
        if (snap->is_hashed[i])
            XXH3_128bits_update(state, snap->tensors[i].data,
                                (size_t)ls_shape_count(&snap->tensors[i].shape) * sizeof(float));
    write_digest(state, hex);
    XXH3_freeState(state);
    return LS_OK;
}

/* PyTorch's counter beside each running_mean: the number of training steps. */
static bool tracked_name(const char *buffer, char name[NAME_BYTES])
{
    const char *dot = strrchr(buffer, '.');
    if (!dot || strcmp(dot, ".running_mean") != 0) return false;
    return snprintf(name, NAME_BYTES, "%.*s.num_batches_tracked", (int)(dot - buffer), buffer) < NAME_BYTES;
}

/* What a checkpoint holds, without values. */
static void list_tensors(const struct session *s, struct snapshot *snap)
{
    for (int i = 0; i < s->store->n_entries; i++) {
        const struct ls_stored *e = &s->store->entries[i];
        if (!ls_stored_is_saved(e)) continue;
        snap->is_hashed[snap->n] = is_weight(e);
        snap->tensors[snap->n++] = (struct ls_ckpt_tensor){.name = e->name, .dtype = LS_F32, .shape = e->shape};
        char *name = snap->names + (size_t)i * NAME_BYTES;
        if (e->kind == LS_VALUE_BUFFER && tracked_name(e->name, name))
            snap->tensors[snap->n++] = (struct ls_ckpt_tensor){.name = name, .dtype = LS_I64};
    }
    snap->n_own = snap->n;
}

/* Values for the list, in its order. */
static enum ls_status fill(struct session *s, int64_t step, struct snapshot *snap)
{
    char *at = snap->data;
    struct ls_ckpt_tensor *t = snap->tensors;
    memcpy(at, &step, sizeof step); /* shared by all counters */
    const int64_t *counter = (const int64_t *)at;
    at += 64;
    for (int i = 0; i < s->store->n_entries; i++) {
        const struct ls_stored *e = &s->store->entries[i];
        if (!ls_stored_is_saved(e)) continue;
        TRY(ls_exec_get(s->exec, i, (float *)at));
        t++->data = at;
        at += (plain_bytes(e) + 63) / 64 * 64;
        if (t < snap->tensors + snap->n && t->dtype == LS_I64) t++->data = counter;
    }
    return LS_OK;
}

enum ls_status ls__session_outline(struct session *s, struct snapshot *outline)
{
    size_t n = (size_t)s->store->n_entries;
    *outline = (struct snapshot){0};
    enum ls_status status = ls__calloc(&outline->tensors, 2 * n, sizeof *outline->tensors);
    if (status == LS_OK) status = ls__calloc(&outline->is_hashed, 2 * n, sizeof *outline->is_hashed);
    if (status == LS_OK) status = ls__calloc(&outline->names, n, NAME_BYTES);
    if (status == LS_OK) list_tensors(s, outline);
    if (status != LS_OK) ls__snapshot_release(outline);
    return status;
}

enum ls_status ls__session_snapshot(struct session *s, int64_t step, struct snapshot *snap)
{
    TRY(ls__session_outline(s, snap));
    snap->bytes = 64;
    for (int i = 0; i < s->store->n_entries; i++)
        if (ls_stored_is_saved(&s->store->entries[i]))
            snap->bytes += (plain_bytes(&s->store->entries[i]) + 63) / 64 * 64;
    enum ls_status status = ls__alloc_aligned(&snap->data, snap->bytes);
    if (status == LS_OK) status = fill(s, step, snap);
    if (status != LS_OK) ls__snapshot_release(snap);
    return status;
}

void ls__snapshot_release(struct snapshot *snap)
{
    free(snap->tensors);
    free(snap->names);
    free(snap->is_hashed);
    ls__free_aligned(snap->data, snap->bytes);
    *snap = (struct snapshot){0};
}

/* Files of other programs may have weights of 16 bits. */
static enum ls_status set_tensor(struct session *s, int entry, const struct ls_ckpt_tensor *t, const char *path)
{
    const size_t bytes = plain_bytes(&s->store->entries[entry]);
    float *plain;
    TRY(ls__alloc_aligned(&plain, bytes));
    enum ls_status status =
        ls__tensor_to_floats(t, plain)
            ? ls_exec_set(s->exec, entry, plain)
            : ls_fail(LS_CHECKPOINT, "%s: tensor '%s' holds a value that is not finite; take an earlier checkpoint",
                      path, t->name);
    ls__free_aligned(plain, bytes);
    return status;
}

enum ls_status ls__session_load(struct session *s, const struct ls_ckpt *ckpt, const char *path, bool with_state)
{
    char have[LS_SHAPE_TEXT], want[LS_SHAPE_TEXT];
    for (int i = 0; i < s->store->n_entries; i++) {
        const struct ls_stored *e = &s->store->entries[i];
        if (!is_weight(e) && !(with_state && ls_stored_is_saved(e))) continue;
        const struct ls_ckpt_tensor *t = ls_ckpt_find(ckpt, e->name);
        if (!t)
            return ls_fail(LS_CHECKPOINT, "%s holds no tensor '%s', which model %s needs: it is another model's", path,
                           e->name, ls_model_name(s->model));
        if (!ls__tensor_is_float(t) || !ls_shape_is_equal(&t->shape, &e->shape))
            return ls_fail(LS_CHECKPOINT, "%s: tensor '%s' is %s %s, but model %s needs f32 %s", path, e->name,
                           ls_dtype_name(t->dtype), ls_shape_text(&t->shape, have), ls_model_name(s->model),
                           ls_shape_text(&e->shape, want));
        TRY(set_tensor(s, i, t, path));
    }
    return LS_OK;
}
