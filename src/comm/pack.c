/* pack.c: sums of gradients as few bytes, without loss.
 *
 * A sum is an int64 in units of 2^-46, but its value needs 4 or 5 bytes: gradients are small, and neighbours are of
 * like size. So blocks of 128 numbers are written as
 *
 *     width (1 byte, 0..8)   shift (1 byte, bits)   128 numbers of `width` bytes, low byte first, value >> shift
 *
 * where shift is what all numbers of the block end in zeros by (coarsely rounded gradients do) and width the bytes
 * their two's complement needs then.
 */
#include "comm/comm_internal.h"

#include <string.h>

enum { BLOCK = 128, HEADER = 2 };

size_t ls__pack_bound(size_t n)
{
    return n * sizeof(int64_t) + (n / BLOCK + 1) * HEADER + sizeof(int64_t); /* the last store may reach beyond */
}

/* How much of the numbers is significant. */
static void measure(const int64_t *x, size_t n, int *width, int *shift)
{
    uint64_t any = 0, magnitude = 0;
    for (size_t i = 0; i < n; i++) {
        any |= (uint64_t)x[i];
        magnitude |= (uint64_t)(x[i] ^ (x[i] >> 63)); /* all bits but copies of the sign */
    }
    *shift = any ? __builtin_ctzll(any) : 0;
    magnitude >>= *shift;
    int bits = any ? 65 - (magnitude ? __builtin_clzll(magnitude) : 64) : 0; /* and one for the sign */
    *width = (bits + 7) / 8;
}

size_t ls__pack(const int64_t *x, size_t n, uint8_t *out)
{
    uint8_t *at = out;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        int width, shift;
        measure(x + first, count, &width, &shift);
        *at++ = (uint8_t)width;
        *at++ = (uint8_t)shift;
        for (size_t i = 0; i < count; i++, at += width) {
            int64_t v = x[first + i] >> shift;
            memcpy(at, &v, sizeof v); /* the next one overwrites what is too much */
        }
    }
    return (size_t)(at - out);
}

/* One block. The last numbers are read byte by byte so that nothing behind the message is touched. */
static void unpack_block(const uint8_t *in, const uint8_t *end, int width, int shift, int64_t *x, size_t n, bool add)
{
    const int drop = 64 - 8 * width;
    for (size_t i = 0; i < n; i++, in += width) {
        uint64_t v = 0;
        if (end - in >= (ptrdiff_t)sizeof v)
            memcpy(&v, in, sizeof v);
        else
            memcpy(&v, in, (size_t)width);
        int64_t value = width ? (int64_t)(v << drop) >> drop : 0;
        value = (int64_t)((uint64_t)value << shift);
        x[i] = add ? (int64_t)((uint64_t)x[i] + (uint64_t)value) : value;
    }
}

bool ls__unpack(const uint8_t *in, size_t bytes, int64_t *x, size_t n, bool add)
{
    const uint8_t *end = in + bytes;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        if (end - in < HEADER || in[0] > sizeof(int64_t) || in[1] > 63) return false;
        int width = in[0], shift = in[1];
        in += HEADER;
        if ((size_t)(end - in) < count * (size_t)width) return false;
        unpack_block(in, end, width, shift, x + first, count, add);
        in += count * (size_t)width;
    }
    return in == end;
}
