/* activation_math.h: sigmoid, tanh and the normal distribution as loop bodies that vectorise.
 *
 * Multiplications, additions and divisions in a fixed order, choices instead of branches: the same bits whatever the
 * vector width, and no call of a library whose answer depends on the machine. The polynomials are those with the
 * smallest largest relative error (Remez's exchange, 40 digits); what remains is rounding. Against float64: 1 to 4
 * units in the last place, up to 8 only of gelu's tail far below 0; derivatives within 4 units of 2^-24
 * (tests/unit/test_activation.c walks the ranges). Below exp(-87) = 1.6e-38 a result is 0. NaN stays NaN.
 */
#ifndef LS_BACKEND_CPU_ACTIVATION_MATH_H
#define LS_BACKEND_CPU_ACTIVATION_MATH_H

#include "backend/cpu/exp.h"
#include "base/simd.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* exp(-(h + l)) for h >= 0 and a small l that h has no digits for; as backend/cpu/exp.h, which see. */
LS_INLINE float ls__cpu_exp_minus(float h, float l)
{
    const float bounded = h > 87.0f ? 87.0f : h;
    const float rounded = (bounded + l) * -0x1.715476p0f + LS_EXP_SHIFT, n = rounded - LS_EXP_SHIFT;
    const float e = ls__cpu_exp_of(rounded, ((-bounded - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f) - l);
    return h > 87.0f ? 0.0f : e;
}

/* 1 / (1 + exp(-x)); *other is 1 minus it, with all its digits. */
LS_INLINE float ls__cpu_sigmoid(float x, float *other)
{
    const float e = ls__cpu_exp_minus(fabsf(x), 0.0f);
    const float large = 1.0f / (1.0f + e), small = e / (1.0f + e);
    *other = x < 0.0f ? large : small;
    return x < 0.0f ? small : large;
}

LS_INLINE float ls__cpu_tanh(float x)
{
    const float a = fabsf(x), z = a * a;
    float p = -0x1.82589p-8f; /* of (tanh(a) - a) / a^3, |a| <= 0.6 */
    p = p * z + 0x1.54b8acp-6f;
    p = p * z + -0x1.b898ep-5f;
    p = p * z + 0x1.1109aep-3f;
    p = p * z + -0x1.55553ep-2f;
    const float near = a + a * (z * p);
    const float e = ls__cpu_exp_minus(2.0f * a, 0.0f);
    const float far = (1.0f - e) / (1.0f + e);
    return copysignf(a < 0.6f ? near : far, x);
}

/* The probability that a normal number lies below -a, a >= 0: exp(-a^2/2) p(a)/q(a), to 5e-9. All
 * terms of p and q are positive, so they lose no digits; the square is taken in two parts, for an error of the exponent
 * is one of the result. *density: exp(-a^2/2). */
LS_INLINE float ls__cpu_normal_tail(float a, float *density)
{
    uint32_t bits;
    float head; /* the first 12 bits of a: its square is exact */
    memcpy(&bits, &a, sizeof bits);
    bits &= 0xFFFFF000u;
    memcpy(&head, &bits, sizeof head);
    const float e = ls__cpu_exp_minus(0.5f * head * head, 0.5f * ((a - head) * (a + head)));
    float p = 0x1.077954p-8f;
    p = p * a + 0x1.478ee4p-5f;
    p = p * a + 0x1.7352a4p-3f;
    p = p * a + 0x1.be25d6p-2f;
    p = p * a + 0.5f;
    float q = 0x1.4a36p-7f;
    q = q * a + 0x1.9a904p-4f;
    q = q * a + 0x1.db88b4p-2f;
    q = q * a + 0x1.31caa6p0f;
    q = q * a + 0x1.ab551ap0f;
    q = q * a + 1.0f;
    *density = e;
    return a > 13.5f ? 0.0f : e * (p / q); /* beyond, p / q is inf / inf some day */
}

/* x times the probability that a normal number lies below x. */
LS_INLINE float ls__cpu_gelu(float x)
{
    float density;
    const float tail = x * ls__cpu_normal_tail(fabsf(x), &density);
    return x < 0.0f ? tail : x - tail;
}

LS_INLINE float ls__cpu_gelu_slope(float x)
{
    float density;
    const float tail = ls__cpu_normal_tail(fabsf(x), &density);
    return (x < 0.0f ? tail : 1.0f - tail) + x * (density * 0x1.988454p-2f); /* 1 / sqrt(2 pi) */
}

/* PyTorch's approximate="tanh": x/2 (1 + tanh(u/2)) = x sigmoid(u), u = sqrt(8/pi) (x + 0.044715 x^3). */
LS_INLINE float ls__cpu_gelu_tanh(float x)
{
    float other;
    return x * ls__cpu_sigmoid(0x1.988454p0f * (x + 0.044715f * (x * (x * x))), &other);
}

LS_INLINE float ls__cpu_gelu_tanh_slope(float x)
{
    float other;
    const float s = ls__cpu_sigmoid(0x1.988454p0f * (x + 0.044715f * (x * (x * x))), &other);
    const float slope = 0x1.988454p0f * (1.0f + 0.134145f * (x * x));
    return s + x * slope * (s * other);
}

LS_INLINE float ls__cpu_silu(float x)
{
    float other;
    return x * ls__cpu_sigmoid(x, &other);
}

LS_INLINE float ls__cpu_silu_slope(float x)
{
    float other;
    const float s = ls__cpu_sigmoid(x, &other);
    return s + x * (s * other);
}

#endif
