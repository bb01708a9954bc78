/* buffer.c: bytes that several messages share; see wire.h. */
#include "base/mem.h"
#include "wire/wire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct ls_wire_buffer {
    atomic_int n_holders;
    size_t bytes;
    void *data;
    bool is_lent;
};

enum ls_status ls_wire_buffer_create(struct ls_wire_buffer **out, size_t bytes)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    struct ls_wire_buffer *b = *out;
    b->bytes = bytes;
    enum ls_status status = ls__alloc_aligned(&b->data, bytes);
    if (status == LS_OK) {
        atomic_init(&b->n_holders, 1);
        return LS_OK;
    }
    free(b);
    *out = NULL;
    return status;
}

enum ls_status ls_wire_buffer_lend(struct ls_wire_buffer **out, const void *data, size_t bytes)
{
    TRY(ls__calloc(out, 1, sizeof **out));
    (*out)->bytes = bytes;
    (*out)->is_lent = true;
    memcpy(&(*out)->data, &data, sizeof data); /* never written to by us */
    atomic_init(&(*out)->n_holders, 1);
    return LS_OK;
}

void *ls_wire_buffer_data(struct ls_wire_buffer *b)
{
    return b->data;
}

size_t ls_wire_buffer_bytes(const struct ls_wire_buffer *b)
{
    return b->bytes;
}

struct ls_wire_buffer *ls_wire_buffer_hold(struct ls_wire_buffer *b)
{
    atomic_fetch_add_explicit(&b->n_holders, 1, memory_order_relaxed);
    return b;
}

void ls_wire_buffer_drop(struct ls_wire_buffer **buffer)
{
    struct ls_wire_buffer *b = *buffer;
    *buffer = NULL;
    if (!b || atomic_fetch_sub_explicit(&b->n_holders, 1, memory_order_acq_rel) > 1) return;
    if (!b->is_lent) ls__free_aligned(b->data, b->bytes);
    free(b);
}

bool ls_wire_buffer_is_shared(const struct ls_wire_buffer *b)
{
    return atomic_load_explicit(&b->n_holders, memory_order_acquire) > 1;
}
