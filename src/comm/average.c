/* average.c: the three passes of average.h, each a loop over blocks that the compiler can vectorise. */
#include "comm/average.h"

#include "base/simd.h"

#include <math.h>
#include <string.h>

int64_t ls__average_n_blocks(int64_t n)
{
    return (n + LS_AVERAGE_BLOCK - 1) / LS_AVERAGE_BLOCK;
}

/* Floats without sign order as their bits do. */
LS_VECTORIZE
static uint32_t largest_bits(const float *x, int64_t n)
{
    uint32_t largest = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &x[i], sizeof bits);
        bits &= 0x7fffffffu;
        largest = bits > largest ? bits : largest;
    }
    return largest;
}

static int64_t block_end(int64_t begin, int64_t n)
{
    return begin + LS_AVERAGE_BLOCK < n ? begin + LS_AVERAGE_BLOCK : n;
}

void ls__average_exponents(const float *x, int64_t n, uint8_t *exponents)
{
    for (int64_t at = 0, block = 0; at < n; at += LS_AVERAGE_BLOCK, block++) {
        uint8_t own = (uint8_t)(largest_bits(x + at, block_end(at, n) - at) >> 23);
        if (own > exponents[block]) exponents[block] = own;
    }
}

void ls__average_join(uint8_t *exponents, const uint8_t *others, int64_t n_blocks)
{
    for (int64_t i = 0; i < n_blocks; i++)
        if (others[i] > exponents[i]) exponents[i] = others[i];
}

/* Every |x| of the block is below 2^above. Denormals have the exponent 0 and lie below the smallest normal number. */
static int above(uint8_t exponent)
{
    return (exponent > 0 ? exponent : 1) - 126;
}

/* Adding 1.5 * 2^52 leaves the integer, rounded to nearest, in the low bits of the double. Not zero stays not zero. */
LS_VECTORIZE
static void add_block(const float *restrict x, int64_t n, double scale, int64_t *restrict sum)
{
    const double magic = 0x1.8p52;
    int64_t zero, bits;
    memcpy(&zero, &magic, sizeof zero);
    for (int64_t i = 0; i < n; i++) {
        double units = (double)x[i] * scale, shifted = units + magic;
        memcpy(&bits, &shifted, sizeof bits);
        int64_t q = bits - zero;
        sum[i] += q + (q == 0 && units > 0) - (q == 0 && units < 0);
    }
}

void ls__average_add(const float *x, int64_t n, const uint8_t *exponents, int64_t *sum)
{
    for (int64_t at = 0, block = 0; at < n; at += LS_AVERAGE_BLOCK, block++)
        add_block(x + at, block_end(at, n) - at, ldexp(1, LS_AVERAGE_BITS - above(exponents[block])), sum + at);
}

void ls__average_take(const int64_t *sum, int64_t n, const uint8_t *exponents, int n_copies, float *x)
{
    for (int64_t at = 0, block = 0; at < n; at += LS_AVERAGE_BLOCK, block++) {
        const double unit = ldexp(1.0 / n_copies, above(exponents[block]) - LS_AVERAGE_BITS);
        for (int64_t i = at, end = block_end(at, n); i < end; i++) x[i] = (float)((double)sum[i] * unit);
    }
}
