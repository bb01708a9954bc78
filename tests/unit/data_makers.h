/* data_makers.h: small data files, good and bad, made in memory for the tests of src/data. */
#ifndef TEST_DATA_MAKERS_H
#define TEST_DATA_MAKERS_H

#include "data_jpegs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

struct bytes {
    uint8_t *at;
    size_t n;
};

static inline void add(struct bytes *b, const void *p, size_t n)
{
    b->at = realloc(b->at, b->n + n + 1);
    assert_non_null(b->at);
    if (n) memcpy(b->at + b->n, p, n);
    b->n += n;
}

static inline void add_zeros(struct bytes *b, size_t n)
{
    static const uint8_t zeros[4096];
    for (; n > 0; n -= n < 4096 ? n : 4096) add(b, zeros, n < 4096 ? n : 4096);
}

static inline void add_be32(struct bytes *b, uint32_t v)
{
    add(b, (uint8_t[4]){(uint8_t)(v >> 24), (uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v}, 4);
}

static inline void add_le32(struct bytes *b, uint32_t v)
{
    add(b, (uint8_t[4]){(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)}, 4);
}

/* kind 31: gzip, 15: zlib */
static inline struct bytes deflated(struct bytes in, int kind)
{
    struct bytes out = {malloc(in.n + in.n / 100 + 200), 0};
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, kind, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = in.at;
    z.avail_in = (uInt)in.n;
    z.next_out = out.at;
    z.avail_out = (uInt)(in.n + in.n / 100 + 200);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    out.n = z.total_out;
    deflateEnd(&z);
    return out;
}

/* ---- IDX ---- */

enum { N = 3 }; /* samples in the little files */

static inline uint8_t pixel_at(size_t i)
{
    return (uint8_t)(i * 7 + i / 256);
}

static inline struct bytes idx_labels(uint32_t magic, uint32_t n_declared, size_t n, uint8_t last)
{
    struct bytes b = {0};
    add_be32(&b, magic);
    add_be32(&b, n_declared);
    for (size_t i = 0; i < n; i++) add(&b, (uint8_t[1]){i + 1 == n ? last : (uint8_t)(i % 10)}, 1);
    return b;
}

static inline struct bytes idx_images(uint32_t magic, uint32_t n, uint32_t h, uint32_t w, size_t n_bytes)
{
    struct bytes b = {0};
    add_be32(&b, magic);
    add_be32(&b, n);
    add_be32(&b, h);
    add_be32(&b, w);
    for (size_t i = 0; i < n_bytes; i++) add(&b, (uint8_t[1]){pixel_at(i)}, 1);
    return b;
}

/* ---- PNG ---- */

static inline void add_chunk(struct bytes *b, const char *type, const void *data, size_t n)
{
    struct bytes c = {0};
    add(&c, type, 4);
    add(&c, data, n);
    add_be32(b, (uint32_t)n);
    add(b, c.at, c.n);
    add_be32(b, (uint32_t)crc32(0, c.at, (uInt)c.n));
    free(c.at);
}

/* colour: 0 grey, 2 RGB, 6 RGBA; every pixel is `pixel`. rows of data are written for `h_data` rows. */
static inline struct bytes png_file(uint32_t w, uint32_t h, int colour, int depth, const uint8_t *pixel,
                                    uint32_t h_data)
{
    struct bytes b = {0}, head = {0}, rows = {0};
    size_t channels = colour == 0 ? 1 : colour == 2 ? 3 : 4;
    add(&b, "\x89PNG\r\n\x1a\n", 8);
    add_be32(&head, w);
    add_be32(&head, h);
    add(&head, (uint8_t[5]){(uint8_t)depth, (uint8_t)colour}, 5);
    add_chunk(&b, "IHDR", head.at, head.n);
    for (uint32_t y = 0; y < h_data; y++) {
        add_zeros(&rows, 1);
        for (uint32_t x = 0; x < w && w < 10000; x++) add(&rows, pixel, channels * (size_t)(depth / 8));
    }
    struct bytes z = deflated(rows, 15);
    add_chunk(&b, "IDAT", z.at, z.n);
    add_chunk(&b, "IEND", NULL, 0);
    free(head.at);
    free(rows.at);
    free(z.at);
    return b;
}

static inline struct bytes copy_of(const uint8_t *p, size_t n)
{
    struct bytes b = {0};
    add(&b, p, n);
    return b;
}

#endif
