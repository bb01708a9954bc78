/* fixed.h: the way into fixed point and back, as arithmetic that every compiler turns into vector code.
 *
 * No instruction before AVX-512 converts between double and 64-bit integers, so both ways are built from additions of
 * large constants: 1.5 * 2^52 pushes a number's integer part into the low bits of its own representation.
 */
#ifndef LS_BACKEND_CPU_FIXED_H
#define LS_BACKEND_CPU_FIXED_H

#include "backend/backend.h"
#include "base/simd.h"

#include <math.h>
#include <string.h>

LS_INLINE uint64_t ls__fixed_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

LS_INLINE double ls__fixed_from_bits(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* llrint(x) for |x| <= 2^62, as two's complement; meaningless beyond. Ties go to even, as llrint's do: the upper half
 * is a multiple of 2^26, so the tie is decided in the lower half. */
LS_INLINE uint64_t ls__fixed_round(double x)
{
    const double magic = 0x1.8p52;
    const uint64_t m = 0x4338000000000000u; /* bits of magic */
    const double upper = x * 0x1p-26 + magic;
    const double lower = (x - (upper - magic) * 0x1p26) + magic;
    return ((ls__fixed_bits(upper) - m) << 26) + (ls__fixed_bits(lower) - m);
}

/* (double)x, rounded once: upper and lower 32 bits are put under the exponents 2^84 and 2^52. */
LS_INLINE double ls__fixed_to_double(int64_t x)
{
    const uint64_t bits = (uint64_t)x;
    const double upper = ls__fixed_from_bits(((bits >> 32) ^ 0x80000000u) | 0x4530000000000000u) - (0x1p84 + 0x1p63);
    const double lower = ls__fixed_from_bits((bits & 0xffffffffu) | 0x4330000000000000u) - 0x1p52;
    return upper + lower;
}

#endif
