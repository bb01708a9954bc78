/* stream.c: see stream.h.
 *
 * Invariant: `at` counts file bytes handed to the reader or to zlib; the window holds what was read ahead. Memory
 * streams have no window of their own: it points at the memory.
 */
#include "data/stream.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { WINDOW_BYTES = 256 * 1024, DEFLATE_MAX_RATIO = 1032, MAX_PIECE = 1 << 30 };

enum ls_status ls__stream_open(struct ls_stream *s, const char *path)
{
    struct stat st;
    *s = (struct ls_stream){.name = path, .fd = -1};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: a fifo must not hang us */
    if (fd < 0) return ls_fail(LS_DATA, "open %s: %s", path, strerror(errno));
    s->fd = fd;
    s->is_open = true;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return ls_fail(LS_DATA, "%s is not a regular file", path);
    s->len = (uint64_t)st.st_size;
    posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return ls__calloc(&s->window, WINDOW_BYTES, 1);
}

enum ls_status ls__stream_open_memory(struct ls_stream *s, const char *name, const uint8_t *data, size_t len)
{
    *s = (struct ls_stream){.name = name, .fd = -1, .memory = data, .len = len, .is_open = true};
    return LS_OK;
}

void ls__stream_close(struct ls_stream *s)
{
    if (!s->is_open) return;
    if (s->is_inflating) inflateEnd(&s->z);
    if (s->fd >= 0) close(s->fd);
    free(s->window);
    *s = (struct ls_stream){.fd = -1};
}

uint64_t ls__stream_raw_left(const struct ls_stream *s)
{
    return s->len - s->at;
}

uint64_t ls__stream_most_inflated(uint64_t raw_bytes)
{
    uint64_t most;
    return __builtin_mul_overflow(raw_bytes, (uint64_t)DEFLATE_MAX_RATIO, &most) ? UINT64_MAX : most;
}

uint64_t ls__stream_max_left(const struct ls_stream *s)
{
    if (!s->is_inflating) return s->len - s->at;
    uint64_t most = ls__stream_most_inflated(s->raw_end - s->raw_start);
    return most > s->produced ? most - s->produced : 0;
}

uint64_t ls__stream_offset(const struct ls_stream *s)
{
    return s->is_inflating ? s->produced : s->at;
}

static enum ls_status read_file(struct ls_stream *s, uint8_t *out, size_t n, size_t *got)
{
    for (;;) {
        ssize_t r = read(s->fd, out, n);
        if (r < 0 && errno == EINTR) continue;
        if (r < 0) return ls_fail(LS_DATA, "read %s: %s", s->name, strerror(errno));
        if (r == 0 && n > 0) return ls_fail(LS_DATA, "read %s: the file shrank while being read", s->name);
        *got = (size_t)r;
        return LS_OK;
    }
}

/* Makes the window non-empty unless the file is at its end. */
static enum ls_status fill(struct ls_stream *s)
{
    if (s->window_len > 0 || s->fd < 0) return LS_OK;
    uint64_t left = s->len - s->at;
    s->window_at = 0;
    if (left == 0) return LS_OK;
    return read_file(s, s->window, left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES, &s->window_len);
}

/* What is ready to be taken without a system call. */
static const uint8_t *ready(const struct ls_stream *s, size_t *n)
{
    if (s->fd < 0) {
        *n = (size_t)(s->len - s->at);
        return s->memory ? s->memory + s->at : NULL;
    }
    *n = s->window_len;
    return s->window + s->window_at;
}

static void take(struct ls_stream *s, size_t n)
{
    s->at += n;
    if (s->fd < 0) return;
    s->window_at += n;
    s->window_len -= n;
}

static enum ls_status read_plain(struct ls_stream *s, uint8_t *out, size_t n, size_t *got)
{
    *got = 0;
    while (*got < n && s->at < s->len) {
        size_t want = n - *got, have;
        uint64_t left = s->len - s->at;
        if (want > left) want = (size_t)left;
        if (s->fd >= 0 && s->window_len == 0 && want >= WINDOW_BYTES) { /* large: past the window */
            TRY(read_file(s, out + *got, want < MAX_PIECE ? want : MAX_PIECE, &have));
            s->at += have;
        } else {
            TRY(fill(s));
            const uint8_t *from = ready(s, &have);
            if (have > want) have = want;
            memcpy(out + *got, from, have);
            take(s, have);
        }
        *got += have;
    }
    return LS_OK;
}

enum ls_status ls__stream_peek(struct ls_stream *s, void *out, size_t n, size_t *got)
{
    TRY(fill(s));
    const uint8_t *from = ready(s, got);
    if (*got > n) *got = n;
    if (*got) memcpy(out, from, *got);
    return LS_OK;
}

enum ls_status ls__stream_inflate(struct ls_stream *s, enum ls_inflate kind, uint64_t raw_bytes)
{
    if (raw_bytes > s->len - s->at)
        return ls_fail(LS_DATA, "%s: the compressed piece at byte %llu claims %llu bytes, but only %llu follow",
                       s->name, (unsigned long long)s->at, (unsigned long long)raw_bytes,
                       (unsigned long long)(s->len - s->at));
    s->z = (z_stream){0};
    int rc = inflateInit2(&s->z, kind == LS_GZIP ? 15 + 16 : 15);
    if (rc != Z_OK) return ls_fail(LS_NOMEM, "%s: out of memory for decompression", s->name);
    s->is_inflating = true;
    s->is_gzip = kind == LS_GZIP;
    s->has_ended = false;
    s->raw_start = s->at;
    s->raw_end = s->at + raw_bytes;
    s->produced = 0;
    return LS_OK;
}

static enum ls_status broken(const struct ls_stream *s, const char *why)
{
    return ls_fail(LS_DATA, "%s: the compressed data is damaged at byte %llu (%s)", s->name, (unsigned long long)s->at,
                   why);
}

/* A member of a gzip file is over; another may follow at once (as `cat a.gz b.gz` and bgzip make them). Each takes 18
 * bytes of the file at least, so their number is bounded by its length. */
static enum ls_status end_member(struct ls_stream *s)
{
    uint8_t next = 0;
    size_t got = 0;
    if (s->is_gzip && s->at < s->raw_end) TRY(ls__stream_peek(s, &next, 1, &got));
    s->has_ended = got == 0 || next != 0x1f; /* else: what follows is junk, for whoever wants the end to find */
    if (!s->has_ended && inflateReset(&s->z) != Z_OK) return broken(s, "its next member");
    return LS_OK;
}

/* One round of zlib: up to n bytes into out. Always makes progress or sets has_ended or fails. */
static enum ls_status inflate_some(struct ls_stream *s, uint8_t *out, size_t n, size_t *got)
{
    size_t have;
    TRY(fill(s));
    const uint8_t *from = ready(s, &have);
    if (have > s->raw_end - s->at) have = (size_t)(s->raw_end - s->at);
    if (have > MAX_PIECE) have = MAX_PIECE;
    s->z.next_in = (Bytef *)from;
    s->z.avail_in = (uInt)have;
    s->z.next_out = out;
    s->z.avail_out = (uInt)(n < MAX_PIECE ? n : MAX_PIECE);
    uInt room = s->z.avail_out;
    int rc = inflate(&s->z, Z_NO_FLUSH);
    take(s, have - s->z.avail_in);
    *got = room - s->z.avail_out;
    s->produced += *got;
    if (rc == Z_STREAM_END) {
        return end_member(s);
    } else if (rc == Z_MEM_ERROR) {
        return ls_fail(LS_NOMEM, "%s: out of memory for decompression", s->name);
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        return broken(s, s->z.msg ? s->z.msg : "not a compressed stream");
    } else if (*got == 0 && s->z.avail_in == have) { /* no progress: input is used up */
        return broken(s, "it is cut short");
    }
    return LS_OK;
}

enum ls_status ls__stream_read_some(struct ls_stream *s, void *out, size_t n, size_t *got)
{
    if (!s->is_inflating) return read_plain(s, out, n, got);
    *got = 0;
    while (*got < n && !s->has_ended) {
        size_t more;
        TRY(inflate_some(s, (uint8_t *)out + *got, n - *got, &more));
        *got += more;
    }
    return LS_OK;
}

enum ls_status ls__stream_read(struct ls_stream *s, void *out, size_t n, const char *what)
{
    size_t got;
    TRY(ls__stream_read_some(s, out, n, &got));
    if (got == n) return LS_OK;
    return ls_fail(LS_DATA, "%s: ends at %sbyte %llu, inside %s (%zu more bytes expected): the file is cut short",
                   s->name, s->is_inflating ? "decompressed " : "", (unsigned long long)ls__stream_offset(s), what,
                   n - got);
}

enum ls_status ls__stream_expect_end(struct ls_stream *s)
{
    uint8_t byte;
    size_t got;
    unsigned long long expected = ls__stream_offset(s);
    TRY(ls__stream_read_some(s, &byte, 1, &got));
    if (got)
        return ls_fail(LS_DATA, "%s: has more than the %llu %sbytes its header declares", s->name, expected,
                       s->is_inflating ? "decompressed " : "");
    if (s->is_inflating && s->at != s->raw_end)
        return ls_fail(LS_DATA, "%s: %llu bytes of junk follow the compressed data at byte %llu", s->name,
                       (unsigned long long)(s->raw_end - s->at), (unsigned long long)s->at);
    return LS_OK;
}

enum ls_status ls__stream_inflate_end(struct ls_stream *s)
{
    TRY(ls__stream_expect_end(s));
    inflateEnd(&s->z);
    s->is_inflating = false;
    return LS_OK;
}
