/* pack.c: sums of gradients in few bits, without loss.
 *
 * A sum is an int64 in units of 2^-46, but gradients are small and neighbours are of like size: 35 to 40 bits hold
 * them, and 10 to 25 when they were rounded coarsely (--compress). So blocks of 128 numbers are written as
 *
 *     bits (1 byte, 0..64)   shift (1 byte, 0..63)   128 numbers of `bits` bits each, value >> shift, low bits first
 *
 * where shift is the number of zeros all numbers of the block end in, and bits what their two's complement needs then.
 * A block ends at a whole byte; the last one may hold fewer numbers.
 */
#include "comm/pack.h"

#include <string.h>

enum { BLOCK = 128, HEADER = 2, WORD = 64 };

static size_t block_bytes(size_t n, int bits)
{
    return (n * (size_t)bits + 7) / 8;
}

size_t ls__pack_bound(size_t n)
{
    return n * sizeof(int64_t) + (n / BLOCK + 1) * HEADER + sizeof(int64_t); /* the last store may reach beyond */
}

/* How much of the numbers is significant. */
static void measure(const int64_t *x, size_t n, int *bits, int *shift)
{
    uint64_t any = 0, magnitude = 0;
    for (size_t i = 0; i < n; i++) {
        any |= (uint64_t)x[i];
        magnitude |= (uint64_t)(x[i] ^ (x[i] >> 63)); /* all bits but copies of the sign */
    }
    *shift = any ? __builtin_ctzll(any) : 0;
    magnitude >>= *shift;
    *bits = any ? WORD + 1 - (magnitude ? __builtin_clzll(magnitude) : WORD) : 0; /* and one for the sign */
}

static void pack_block(const int64_t *x, size_t n, int bits, int shift, uint8_t *out)
{
    const uint64_t mask = bits == WORD ? ~(uint64_t)0 : ((uint64_t)1 << bits) - 1;
    uint64_t word = 0;
    int fill = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t v = (uint64_t)(x[i] >> shift) & mask;
        word |= v << fill;
        fill += bits;
        if (fill < WORD) continue;
        memcpy(out, &word, sizeof word);
        out += sizeof word;
        fill -= WORD;
        word = fill ? v >> (bits - fill) : 0;
    }
    memcpy(out, &word, sizeof word); /* the next block overwrites what is too much */
}

size_t ls__pack(const int64_t *x, size_t n, uint8_t *out)
{
    uint8_t *at = out;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        int bits, shift;
        measure(x + first, count, &bits, &shift);
        *at++ = (uint8_t)bits;
        *at++ = (uint8_t)shift;
        if (bits == 0) continue;
        pack_block(x + first, count, bits, shift, at);
        at += block_bytes(count, bits);
    }
    return (size_t)(at - out);
}

/* The number of `bits` bits that begins at bit `at`; 16 bytes from there may be read. */
static int64_t number_at(const uint8_t *in, size_t at, int bits)
{
    uint64_t low, high;
    int skip = (int)(at % 8), drop = WORD - bits;
    memcpy(&low, in + at / 8, sizeof low);
    low >>= skip;
    if (bits + skip > WORD) {
        memcpy(&high, in + at / 8 + sizeof low, sizeof high);
        low |= high << (WORD - skip);
    }
    return (int64_t)(low << drop) >> drop;
}

static void unpack_block(const uint8_t *in, int bits, int shift, int64_t *x, size_t n, bool add)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value = bits ? (uint64_t)number_at(in, i * (size_t)bits, bits) << shift : 0;
        x[i] = (int64_t)(add ? (uint64_t)x[i] + value : value);
    }
}

bool ls__unpack(const uint8_t *in, size_t bytes, int64_t *x, size_t n, bool add)
{
    uint8_t copy[BLOCK * sizeof(int64_t) + 2 * sizeof(int64_t)] = {0}; /* reads reach beyond a block's end */
    const uint8_t *end = in + bytes;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        if (end - in < HEADER || in[0] > WORD || in[1] >= WORD) return false;
        int bits = in[0], shift = in[1];
        size_t len = block_bytes(count, bits);
        in += HEADER;
        if ((size_t)(end - in) < len) return false;
        memcpy(copy, in, len);
        unpack_block(copy, bits, shift, x + first, count, add);
        in += len;
    }
    return in == end;
}

bool ls__pack_is_whole(const uint8_t *in, size_t bytes, size_t n)
{
    const uint8_t *end = in + bytes;
    for (size_t first = 0; first < n; first += BLOCK) {
        size_t count = n - first < BLOCK ? n - first : BLOCK;
        if (end - in < HEADER || in[0] > WORD || in[1] >= WORD) return false;
        size_t len = block_bytes(count, in[0]);
        in += HEADER;
        if ((size_t)(end - in) < len) return false;
        in += len;
    }
    return in == end;
}
