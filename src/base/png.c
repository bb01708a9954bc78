/* png.c: the smallest correct PNG: a header, all rows unfiltered in one deflated chunk, an end. */
#include "base/png.h"

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void add_u32(struct ls_buf *out, uint32_t value)
{
    const uint8_t bytes[] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    ls__buf_add(out, (const char *)bytes, 4);
}

static void add_chunk(struct ls_buf *out, const char *type, const uint8_t *data, size_t n)
{
    uLong crc = crc32(crc32(0, NULL, 0), (const Bytef *)type, 4);
    if (n > 0) crc = crc32(crc, data, (uInt)n);
    add_u32(out, (uint32_t)n);
    ls__buf_add(out, type, 4);
    ls__buf_add(out, (const char *)data, n);
    add_u32(out, (uint32_t)crc);
}

/* Rows of interleaved channels, each after a 0: not filtered. */
static void interleave(int c, int h, int w, const uint8_t *pixels, uint8_t *rows)
{
    size_t plane = (size_t)h * (size_t)w;
    for (int y = 0; y < h; y++) {
        *rows++ = 0;
        for (int x = 0; x < w; x++)
            for (int k = 0; k < c; k++) *rows++ = pixels[(size_t)k * plane + (size_t)y * (size_t)w + (size_t)x];
    }
}

enum ls_status ls__png_encode(int c, int h, int w, const uint8_t *pixels, struct ls_buf *out)
{
    static const uint8_t signature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
    size_t n = (size_t)h * ((size_t)w * (size_t)c + 1);
    uLongf packed_bytes = compressBound((uLong)n);
    uint8_t *rows, *packed = NULL;
    TRY(ls__calloc(&rows, n, 1));
    enum ls_status status = ls__calloc(&packed, packed_bytes, 1);
    if (status == LS_OK) {
        interleave(c, h, w, pixels, rows);
        if (compress2(packed, &packed_bytes, rows, (uLong)n, 6) != Z_OK)
            status = ls_fail(LS_NOMEM, "out of memory while packing a picture");
    }
    if (status == LS_OK) {
        const uint8_t header[13] = {
            (uint8_t)(w >> 24), (uint8_t)(w >> 16), (uint8_t)(w >> 8), (uint8_t)w, (uint8_t)(h >> 24),
            (uint8_t)(h >> 16), (uint8_t)(h >> 8),  (uint8_t)h,        8,          c == 1 ? 0 : 2};
        ls__buf_add(out, (const char *)signature, sizeof signature);
        add_chunk(out, "IHDR", header, sizeof header);
        add_chunk(out, "IDAT", packed, packed_bytes);
        add_chunk(out, "IEND", NULL, 0);
        status = ls__buf_check(out);
    }
    free(packed);
    free(rows);
    return status;
}
