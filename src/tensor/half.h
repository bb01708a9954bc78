/* half.h: numbers of 16 bits, as other programs save weights: each is exactly a float. */
#ifndef LS_TENSOR_HALF_H
#define LS_TENSOR_HALF_H

#include <stdint.h>
#include <string.h>

static inline float ls__float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* The upper half of a float. */
static inline float ls__bf16_to_f32(uint16_t bits)
{
    return ls__float_of_bits((uint32_t)bits << 16);
}

/* IEEE 754 binary16: sign, 5 bits of exponent with bias 15, 10 of fraction. */
static inline float ls__f16_to_f32(uint16_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    if (exponent == 31) return ls__float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent > 0) return ls__float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
    const float value = (float)fraction * 0x1p-24f; /* subnormal, or zero */
    return sign ? -value : value;
}

#endif
