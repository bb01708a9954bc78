/* frame.c: see frame.h. Byte by byte, so that it is the same on every machine and no alignment is asked for. */
#include "wire/frame.h"

#include <string.h>

static const uint8_t magic[4] = {'L', 'S', 'W', LS_FRAME_VERSION};

static void store(uint8_t *out, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) out[i] = (uint8_t)(x >> (8 * i));
}

static uint64_t load(const uint8_t *in, int bytes)
{
    uint64_t x = 0;
    for (int i = 0; i < bytes; i++) x |= (uint64_t)in[i] << (8 * i);
    return x;
}

/* --- writing --- */

struct ls_frame_writer ls_frame_begin(void *out, size_t size)
{
    struct ls_frame_writer w = {.out = out, .size = size, .at = LS_FRAME_HEAD_BYTES};
    w.is_full = size < LS_FRAME_HEAD_BYTES;
    return w;
}

static uint8_t *room(struct ls_frame_writer *w, size_t bytes)
{
    if (w->is_full || bytes > w->size - w->at) {
        w->is_full = true;
        return NULL;
    }
    w->at += bytes;
    return w->out + w->at - bytes;
}

static void put(struct ls_frame_writer *w, uint64_t x, int bytes)
{
    uint8_t *to = room(w, (size_t)bytes);
    if (to) store(to, x, bytes);
}

void ls_frame_put_u8(struct ls_frame_writer *w, uint8_t x)
{
    put(w, x, 1);
}

void ls_frame_put_u32(struct ls_frame_writer *w, uint32_t x)
{
    put(w, x, 4);
}

void ls_frame_put_u64(struct ls_frame_writer *w, uint64_t x)
{
    put(w, x, 8);
}

void ls_frame_put_i64(struct ls_frame_writer *w, int64_t x)
{
    put(w, (uint64_t)x, 8);
}

void ls_frame_put_f64(struct ls_frame_writer *w, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put(w, bits, 8);
}

void ls_frame_put_bytes(struct ls_frame_writer *w, const void *data, size_t bytes)
{
    if (bytes > LS_FRAME_MAX_BODY) {
        w->is_full = true;
        return;
    }
    ls_frame_put_u32(w, (uint32_t)bytes);
    uint8_t *to = room(w, bytes);
    if (to && bytes > 0) memcpy(to, data, bytes);
}

void ls_frame_put_text(struct ls_frame_writer *w, const char *text)
{
    ls_frame_put_bytes(w, text, strlen(text));
}

void ls_frame_put_u32s(struct ls_frame_writer *w, const uint32_t *x, size_t n)
{
    if (n > LS_FRAME_MAX_BODY / 4) {
        w->is_full = true;
        return;
    }
    ls_frame_put_u32(w, (uint32_t)n);
    for (size_t i = 0; i < n; i++) ls_frame_put_u32(w, x[i]);
}

enum ls_status ls_frame_end(struct ls_frame_writer *w, const struct ls_frame *f, size_t *head_bytes)
{
    *head_bytes = 0;
    if (w->is_full || w->at - LS_FRAME_HEAD_BYTES > LS_FRAME_MAX_BODY)
        return ls_fail(LS_INTERNAL, "a message of kind %d is longer than the %zu bytes it may have", f->kind, w->size);
    if (f->kind == 0) return ls_fail(LS_INTERNAL, "a message without a kind");
    memcpy(w->out, magic, sizeof magic);
    store(w->out + 4, f->kind, 2);
    store(w->out + 6, f->flags, 2);
    store(w->out + 8, f->session, 8);
    store(w->out + 16, (uint64_t)f->step, 8);
    store(w->out + 24, f->sequence, 8);
    store(w->out + 32, f->sender, 4);
    store(w->out + 36, w->at - LS_FRAME_HEAD_BYTES, 4);
    store(w->out + 40, f->payload_bytes, 8);
    *head_bytes = w->at;
    return LS_OK;
}

/* --- reading --- */

bool ls_frame_read(const void *head, size_t head_bytes, size_t payload_bytes, struct ls_frame *f,
                   struct ls_frame_reader *body)
{
    const uint8_t *in = head;
    *f = (struct ls_frame){0};
    *body = (struct ls_frame_reader){.is_short = true};
    if (head_bytes < LS_FRAME_HEAD_BYTES || head_bytes - LS_FRAME_HEAD_BYTES > LS_FRAME_MAX_BODY) return false;
    if (memcmp(in, magic, sizeof magic) != 0) return false;
    if (load(in + 36, 4) != head_bytes - LS_FRAME_HEAD_BYTES || load(in + 40, 8) != payload_bytes) return false;
    if (load(in + 4, 2) == 0) return false;
    *f = (struct ls_frame){.kind = (uint16_t)load(in + 4, 2),
                           .flags = (uint16_t)load(in + 6, 2),
                           .session = load(in + 8, 8),
                           .step = (int64_t)load(in + 16, 8),
                           .sequence = load(in + 24, 8),
                           .sender = (uint32_t)load(in + 32, 4),
                           .payload_bytes = payload_bytes};
    *body = (struct ls_frame_reader){.in = in + LS_FRAME_HEAD_BYTES, .size = head_bytes - LS_FRAME_HEAD_BYTES, .at = 0};
    return true;
}

static const uint8_t *take(struct ls_frame_reader *r, size_t bytes)
{
    if (r->is_short || bytes > r->size - r->at) {
        r->is_short = true;
        return NULL;
    }
    r->at += bytes;
    return r->in + r->at - bytes;
}

static uint64_t get(struct ls_frame_reader *r, int bytes)
{
    const uint8_t *from = take(r, (size_t)bytes);
    return from ? load(from, bytes) : 0;
}

uint8_t ls_frame_get_u8(struct ls_frame_reader *r)
{
    return (uint8_t)get(r, 1);
}

uint32_t ls_frame_get_u32(struct ls_frame_reader *r)
{
    return (uint32_t)get(r, 4);
}

uint64_t ls_frame_get_u64(struct ls_frame_reader *r)
{
    return get(r, 8);
}

int64_t ls_frame_get_i64(struct ls_frame_reader *r)
{
    return (int64_t)get(r, 8);
}

double ls_frame_get_f64(struct ls_frame_reader *r)
{
    uint64_t bits = get(r, 8);
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

const uint8_t *ls_frame_get_bytes(struct ls_frame_reader *r, size_t *bytes)
{
    *bytes = ls_frame_get_u32(r);
    const uint8_t *from = take(r, *bytes);
    if (!from) *bytes = 0;
    return from;
}

void ls_frame_get_text(struct ls_frame_reader *r, char *out, size_t size)
{
    size_t bytes;
    const uint8_t *from = ls_frame_get_bytes(r, &bytes);
    out[0] = '\0';
    if (!from) return;
    if (bytes >= size || memchr(from, 0, bytes)) {
        r->is_short = true;
        return;
    }
    memcpy(out, from, bytes);
    out[bytes] = '\0';
}

size_t ls_frame_get_u32s(struct ls_frame_reader *r, uint32_t *out, size_t most)
{
    size_t n = ls_frame_get_u32(r);
    if (n > most || n > (r->size - r->at) / 4) {
        r->is_short = true;
        return 0;
    }
    for (size_t i = 0; i < n; i++) out[i] = ls_frame_get_u32(r);
    return r->is_short ? 0 : n;
}

bool ls_frame_done(const struct ls_frame_reader *r)
{
    return !r->is_short && r->at == r->size;
}

bool ls_frame_is_fresh(uint64_t *last, uint64_t sequence)
{
    if (sequence <= *last) return false;
    *last = sequence;
    return true;
}
