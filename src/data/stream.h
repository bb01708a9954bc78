/* stream.h: bytes from a file or from memory, plain or inflated, never more than asked for.
 *
 * The readers of formats see one thing: "give me exactly n bytes of the header". Whether they come from a file, a
 * buffer (tests and fuzzing), a gzip file or a compressed element inside a MAT file is decided once, at the start.
 * Inflating goes straight into the reader's memory through a fixed window, so a compressed bomb costs nothing: what was
 * not asked for is never produced.
 *
 *     TRY(ls__stream_open(&s, path));          (or ls__stream_open_memory)
 *     TRY(ls__stream_inflate(&s, LS_GZIP, ls__stream_raw_left(&s)));   (if it is compressed)
 *     TRY(ls__stream_read(&s, header, 16, "the header"));
 *     TRY(ls__stream_expect_end(&s));
 *     ls__stream_close(&s);                    (always, also after a failure; a zeroed stream may be closed)
 *
 * Every failure is LS_DATA and names the file, the offset and what was being read.
 */
#ifndef LS_DATA_STREAM_H
#define LS_DATA_STREAM_H

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>
#include <zlib.h>

enum ls_inflate { LS_GZIP, LS_ZLIB };

struct ls_stream {
    const char *name; /* of the file, borrowed */
    bool is_open;
    int fd;                /* -1: memory */
    const uint8_t *memory; /* [len] if fd is -1 */
    uint64_t len;          /* bytes of the whole file */
    uint64_t at;           /* bytes of the file taken so far, compressed or not */

    uint8_t *window; /* file bytes [at, at + window_len) start at window + window_at */
    size_t window_at, window_len;

    bool is_inflating, is_gzip, has_ended;
    z_stream z;
    uint64_t raw_end; /* file offset where the compressed bytes end */
    uint64_t raw_start;
    uint64_t produced; /* inflated bytes given out */
};

enum ls_status ls__stream_open(struct ls_stream *s, const char *path) LS_MUST_CHECK;
enum ls_status ls__stream_open_memory(struct ls_stream *s, const char *name, const uint8_t *data,
                                      size_t len) LS_MUST_CHECK;
void ls__stream_close(struct ls_stream *s);

/* From here on reads give the inflated content of the next raw_bytes bytes of the file: one zlib stream, or the members
 * of a gzip file one after the other. */
enum ls_status ls__stream_inflate(struct ls_stream *s, enum ls_inflate kind, uint64_t raw_bytes) LS_MUST_CHECK;
/* The compressed piece must be at its end, having used all its bytes and with a right check sum; back to plain reading.
 */
enum ls_status ls__stream_inflate_end(struct ls_stream *s) LS_MUST_CHECK;

/* Exactly n bytes, or LS_DATA: "FILE ends at byte N, inside WHAT". */
enum ls_status ls__stream_read(struct ls_stream *s, void *out, size_t n, const char *what) LS_MUST_CHECK;
/* Up to n bytes; *got < n only at the end. */
enum ls_status ls__stream_read_some(struct ls_stream *s, void *out, size_t n, size_t *got) LS_MUST_CHECK;
/* The next bytes of the file as they are, up to n, without taking them. */
enum ls_status ls__stream_peek(struct ls_stream *s, void *out, size_t n, size_t *got) LS_MUST_CHECK;
/* LS_DATA if there is one more byte. */
enum ls_status ls__stream_expect_end(struct ls_stream *s) LS_MUST_CHECK;

/* File bytes not taken yet. */
uint64_t ls__stream_raw_left(const struct ls_stream *s);
/* The most bytes that reads can still give: exact for plain files, for compressed ones by deflate's largest ratio
 * (1032). What a header claims is compared with this before it is allocated. */
uint64_t ls__stream_max_left(const struct ls_stream *s);
/* The most that raw_bytes compressed bytes can become. */
uint64_t ls__stream_most_inflated(uint64_t raw_bytes);
/* Where we are, in what reads gave so far: file offset when plain, inflated bytes when compressed. */
uint64_t ls__stream_offset(const struct ls_stream *s);

#endif
