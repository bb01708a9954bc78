/* mirror.c: allocates, fills and checks buffers with guard zones, and copies them to a device and back (mirror.h). */
#include "mirror.h"

#include <stdlib.h>
#include <string.h>

/* Blocks lie at multiples of 256 on a device, so data lies at a multiple of 64 and no more, as the plan promises. */
enum { GUARD_BYTES = 256 + 64, GUARD = 0xA5 };

static size_t block_bytes(size_t bytes)
{
    return (bytes + 2 * GUARD_BYTES + 63) / 64 * 64;
}

enum ls_status buffer_create(struct buffer *b, size_t bytes, int fill)
{
    buffer_release(b);
    const size_t total = block_bytes(bytes);
    b->block = aligned_alloc(64, total);
    if (!b->block) return ls_fail(LS_NOMEM, "out of memory (%zu bytes)", total);
    memset(b->block, GUARD, total);
    b->data = b->block + GUARD_BYTES;
    b->bytes = bytes;
    memset(b->data, fill, bytes);
    return LS_OK;
}

enum ls_status buffer_check(const struct buffer *b, const char *what)
{
    const unsigned char *behind = b->block + GUARD_BYTES + b->bytes;
    for (int i = 0; i < GUARD_BYTES; i++) {
        if (b->block[i] != GUARD) return ls_fail(LS_ERROR, "%s: %d bytes before it written", what, GUARD_BYTES - i);
        if (behind[i] != GUARD) return ls_fail(LS_ERROR, "%s: byte %d behind it written", what, i);
    }
    return LS_OK;
}

void buffer_release(struct buffer *b)
{
    free(b->block);
    *b = (struct buffer){0};
}

enum ls_status buffer_copy(struct buffer *to, const struct buffer *from)
{
    TRY(buffer_create(to, from->bytes, 0));
    memcpy(to->data, from->data, from->bytes);
    return LS_OK;
}

enum ls_status mirror_add(struct mirror *m, const struct buffer *b, void **address)
{
    const struct ls_device_memory *memory = m->backend->memory;
    void *block;
    *address = b->data;
    if (!memory) return LS_OK;
    if (m->n == MAX_TWINS) return ls_fail(LS_INTERNAL, "more than %d buffers", MAX_TWINS);
    TRY(memory->alloc(m->device, block_bytes(b->bytes), &block));
    m->twins[m->n].of = b;
    m->twins[m->n++].block = block;
    *address = (unsigned char *)block + GUARD_BYTES;
    return LS_OK;
}

enum ls_status mirror_send(const struct mirror *m)
{
    for (int i = 0; i < m->n; i++)
        TRY(m->backend->memory->copy(m->device, m->twins[i].block, m->twins[i].of->block,
                                     block_bytes(m->twins[i].of->bytes), LS_TO_DEVICE));
    return LS_OK;
}

enum ls_status mirror_fetch(const struct mirror *m)
{
    if (m->n == 0) return LS_OK;
    TRY(m->backend->memory->settle(m->device));
    for (int i = 0; i < m->n; i++)
        TRY(m->backend->memory->copy(m->device, m->twins[i].of->block, m->twins[i].block,
                                     block_bytes(m->twins[i].of->bytes), LS_TO_HOST));
    return LS_OK;
}

void mirror_release(struct mirror *m)
{
    for (int i = 0; i < m->n; i++)
        m->backend->memory->free(m->device, m->twins[i].block, block_bytes(m->twins[i].of->bytes));
    m->n = 0;
}
