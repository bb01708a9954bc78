/* fuzz_frame.c: any bytes as the head of a message (wire/frame.c). The first byte says in which order its body is read.
 * What is accepted is written again to the same bytes. */
#include "wire/frame.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Reads parts of kinds that follow from `order` until none is left, and writes them again. */
static void copy_body(struct ls_frame_reader *r, struct ls_frame_writer *w, unsigned order)
{
    uint32_t list[64];
    char text[64];
    size_t n;
    while (!r->is_short && r->at < r->size) {
        order = order * 1103515245u + 12345u;
        switch ((order >> 16) % 6) {
        case 0:
            ls_frame_put_u8(w, ls_frame_get_u8(r));
            break;
        case 1:
            ls_frame_put_u32(w, ls_frame_get_u32(r));
            break;
        case 2:
            ls_frame_put_i64(w, ls_frame_get_i64(r));
            break;
        case 3: {
            const uint8_t *bytes = ls_frame_get_bytes(r, &n);
            if (bytes) ls_frame_put_bytes(w, bytes, n);
            break;
        }
        case 4:
            ls_frame_get_text(r, text, sizeof text);
            if (strlen(text) >= sizeof text) __builtin_trap();
            if (!r->is_short) ls_frame_put_text(w, text);
            break;
        default:
            n = ls_frame_get_u32s(r, list, 64);
            if (n > 64) __builtin_trap();
            if (!r->is_short) ls_frame_put_u32s(w, list, n);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ls_frame f;
    struct ls_frame_reader r;
    size_t bytes;
    if (len < 9) return 0;
    uint64_t payload_bytes;
    memcpy(&payload_bytes, data + 1, sizeof payload_bytes);
    if (!ls_frame_read(data + 9, len - 9, payload_bytes, &f, &r)) return 0;
    uint8_t *again = malloc(len);
    if (!again) return 0;
    struct ls_frame_writer w = ls_frame_begin(again, len - 9);
    copy_body(&r, &w, data[0]);
    if (ls_frame_done(&r)) {
        if (ls_frame_end(&w, &f, &bytes) != LS_OK || bytes != len - 9) __builtin_trap();
        if (memcmp(again, data + 9, bytes) != 0) __builtin_trap();
    }
    free(again);
    return 0;
}
