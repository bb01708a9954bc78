/* fuzz_talk.c: any bytes as a message between servers and workers (elastic/talk.c): 8 bytes, the length of the payload,
 * then the head. What is accepted has its lists and texts within their bounds, and is written again to the same bytes,
 * but for flags that nobody reads. */
#include "elastic/talk.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void check_bounds(const struct ls_frame *f, const union ls_talk_body *b)
{
    bool is_good = true;
    if (f->kind == LS_TALK_WORK) is_good = b->work.n_items <= LS_TALK_MAX_ITEMS;
    if (f->kind == LS_TALK_PUSH)
        is_good = b->push.n_items <= LS_TALK_MAX_ITEMS && b->push.piece < b->push.n_pieces &&
                  b->push.n_pieces <= LS_MAX_PIECES;
    if (f->kind == LS_TALK_WELCOME) is_good = b->welcome.n_pieces > 0 && b->welcome.n_pieces <= LS_MAX_PIECES;
    if (f->kind == LS_TALK_AHEAD) is_good = b->ahead.piece < LS_MAX_PIECES;
    if (f->kind == LS_TALK_APPLY) is_good = b->apply.n_pushes <= 2 * LS_TALK_MAX_ITEMS && b->apply.n_pushes % 2 == 0;
    if (f->kind == LS_TALK_PLACES) is_good = b->places.n < LS_MAX_SERVERS;
    if (f->kind == LS_TALK_JOIN) is_good = memchr(b->join.serves, 0, sizeof b->join.serves) != NULL;
    if (!is_good) __builtin_trap();
}

/* Bytes 6 and 7 are the flags. */
static bool is_same(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    return memcmp(a, b, 6) == 0 && memcmp(a + 8, b + 8, bytes - 8) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static union ls_talk_body body;
    struct ls_frame f;
    struct ls_frame_reader r;
    uint64_t payload_bytes;
    size_t bytes;
    if (len < sizeof payload_bytes) return 0;
    memcpy(&payload_bytes, data, sizeof payload_bytes);
    data += sizeof payload_bytes;
    len -= sizeof payload_bytes;
    if (!ls_frame_read(data, len, payload_bytes, &f, &r) || !ls__talk_read(&f, &r, &body)) return 0;
    check_bounds(&f, &body);
    uint8_t *again = malloc(len);
    if (!again) return 0;
    if (ls__talk_write(again, len, f, (enum ls_talk_kind)f.kind, &body, &bytes) != LS_OK || bytes != len ||
        !is_same(again, data, bytes))
        __builtin_trap();
    free(again);
    return 0;
}
