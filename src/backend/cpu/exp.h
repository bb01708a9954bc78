/* exp.h: exp(x) for x <= 0 as a loop body that vectorises.
 *
 *     x = n ln2 + r with |r| <= ln2/2,   exp(x) = 2^n (1 + r + r^2 q(r))
 *
 * ln2 is taken in two parts, the first with so few bits that n times it is exact. q is the polynomial of degree 4 with
 * the smallest largest error of exp(r), 3.1e-9; what remains is rounding: less than one unit in the last place over all
 * floats from -87 to 0. Only multiplications and additions in a fixed order: the same bits whatever the vector width.
 * Below -87 the result is exp(-87) = 1.6e-38 instead of a denormal or zero. NaN stays NaN.
 */
#ifndef LS_BACKEND_CPU_EXP_H
#define LS_BACKEND_CPU_EXP_H

#include "base/simd.h"

#include <stdint.h>
#include <string.h>

#define LS_EXP_SHIFT 0x1.8p23f /* a float this large has no fraction: adding it rounds */

/* 2^n exp(r), where rounded = n + LS_EXP_SHIFT. */
LS_INLINE float ls__cpu_exp_of(float rounded, float r)
{
    float q = 0x1.6a2424p-10f;
    q = q * r + 0x1.1239ecp-7f;
    q = q * r + 0x1.5558f2p-5f;
    q = q * r + 0x1.555492p-3f;
    q = q * r + 0x1.fffffcp-2f;
    uint32_t bits;
    float power; /* 2^n: the low bits of `rounded` are n, moved to where the exponent lies */
    memcpy(&bits, &rounded, sizeof bits);
    bits = (bits + 127u) << 23;
    memcpy(&power, &bits, sizeof power);
    return (1.0f + (r + r * r * q)) * power;
}

LS_INLINE float ls__cpu_exp(float x)
{
    x = x < -87.0f ? -87.0f : x;
    const float rounded = x * 0x1.715476p0f + LS_EXP_SHIFT, n = rounded - LS_EXP_SHIFT;
    return ls__cpu_exp_of(rounded, (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f);
}

#endif
