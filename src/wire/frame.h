/* frame.h: heads of messages as bytes: pure functions, nothing is believed before it was checked.
 *
 * A head is 48 bytes, little-endian, and a body of at most LS_FRAME_MAX_BODY bytes:
 *
 *     0  magic "LSW" and the protocol's version, one byte each
 *     4  kind        u16, the users' own numbers (elastic, ranks), not 0
 *     6  flags       u16, the users'
 *     8  session     u64, what a server drew when it started
 *    16  step        i64
 *    24  sequence    u64, rises with every message of a sender
 *    32  sender      u32
 *    36  body_bytes  u32
 *    40  payload_bytes  u64, of the message's second part
 *    48  body
 *
 * Writing cannot fail half way: a writer notes that something did not fit, and ls_frame_end says so. Reading neither: a
 * reader that runs out gives zeros from then on and ls_frame_done is false.
 *
 *     uint8_t head[256];
 *     struct ls_frame_writer w = ls_frame_begin(head, sizeof head);
 *     ls_frame_put_u32(&w, worker);
 *     ls_frame_put_text(&w, host);
 *     TRY(ls_frame_end(&w, &(struct ls_frame){.kind = JOIN, .session = s}, &head_bytes));
 *
 *     struct ls_frame f;
 *     struct ls_frame_reader r;
 *     if (!ls_frame_read(m.head, m.head_bytes, m.payload_bytes, &f, &r)) ... drop it, answer nothing
 *     worker = ls_frame_get_u32(&r);
 *     ls_frame_get_text(&r, host, sizeof host);
 *     if (!ls_frame_done(&r)) ... drop it
 */
#ifndef LS_WIRE_FRAME_H
#define LS_WIRE_FRAME_H

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_FRAME_VERSION = 1, LS_FRAME_HEAD_BYTES = 48, LS_FRAME_MAX_BODY = 16 << 20 };

struct ls_frame {
    uint16_t kind, flags;
    uint32_t sender;
    uint64_t session;
    int64_t step;
    uint64_t sequence;
    uint64_t payload_bytes;
};

/* --- writing --- */

struct ls_frame_writer {
    uint8_t *out;
    size_t size, at;
    bool is_full; /* something did not fit */
};

struct ls_frame_writer ls_frame_begin(void *out, size_t size);
void ls_frame_put_u8(struct ls_frame_writer *w, uint8_t x);
void ls_frame_put_u32(struct ls_frame_writer *w, uint32_t x);
void ls_frame_put_u64(struct ls_frame_writer *w, uint64_t x);
void ls_frame_put_i64(struct ls_frame_writer *w, int64_t x);
void ls_frame_put_f64(struct ls_frame_writer *w, double x);
void ls_frame_put_bytes(struct ls_frame_writer *w, const void *data, size_t bytes); /* their number, then they */
void ls_frame_put_text(struct ls_frame_writer *w, const char *text);
void ls_frame_put_u32s(struct ls_frame_writer *w, const uint32_t *x, size_t n); /* n, then they */
/* Writes the 48 bytes at the beginning. LS_INTERNAL when it did not fit or kind is 0. */
enum ls_status ls_frame_end(struct ls_frame_writer *w, const struct ls_frame *frame, size_t *head_bytes) LS_MUST_CHECK;

/* --- reading --- */

struct ls_frame_reader {
    const uint8_t *in;
    size_t size, at;
    bool is_short; /* something was not there */
};

/* False unless it is a head of this version whose lengths are exactly those of the message. */
bool ls_frame_read(const void *head, size_t head_bytes, size_t payload_bytes, struct ls_frame *frame,
                   struct ls_frame_reader *body);
uint8_t ls_frame_get_u8(struct ls_frame_reader *r);
uint32_t ls_frame_get_u32(struct ls_frame_reader *r);
uint64_t ls_frame_get_u64(struct ls_frame_reader *r);
int64_t ls_frame_get_i64(struct ls_frame_reader *r);
double ls_frame_get_f64(struct ls_frame_reader *r);
/* A view into the head; *bytes is 0 and the view NULL when it is short. */
const uint8_t *ls_frame_get_bytes(struct ls_frame_reader *r, size_t *bytes);
/* A text without zero bytes that fits with its end; else "" and short. */
void ls_frame_get_text(struct ls_frame_reader *r, char *out, size_t size);
/* At most `most` numbers into out; returns how many, 0 and short when there are more or they are cut. */
size_t ls_frame_get_u32s(struct ls_frame_reader *r, uint32_t *out, size_t most);
/* Everything was there and nothing is left over. */
bool ls_frame_done(const struct ls_frame_reader *r);

/* Whether a sender's number is new, and notes it: a message that comes again is told by it. *last begins at 0; numbers
 * begin at 1. */
bool ls_frame_is_fresh(uint64_t *last, uint64_t sequence);

#endif
