/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Conversion between f32 and the narrow floats, branch-free and in integer arithmetic. So loops are vectorised and give
 * the same bits with every instruction set.
 *
 * f16 and both kinds of fp8 differ in widths only: sign, exponent, mantissa. Widening shifts the fields and corrects
 * the bias; a subnormal is an integer times a power of two. Narrowing rounds to nearest even: it adds half of the last
 * place (less one, plus the last bit kept), then shifts. The f32 adder rounds subnormal results: after adding a power
 * of two whose last place is the smallest subnormal, the mantissa holds the rounded integer.
 *
 * e4m3 is OCP's e4m3fn: no infinity, NaN has all bits below the sign set, and a result beyond 448 is NaN. bf16 is the
 * upper half of an f32. A NaN becomes the format's canonical one. Instructions like vcvtneps2bf16 are not used: they
 * flush subnormals.
 */
#ifndef TTI_KERNELS_ISA_CONVERT_H
#define TTI_KERNELS_ISA_CONVERT_H

#include "kernels/isa/float_ops.h"

/* The code of the first value beyond the finite ones, without sign: infinity, or e4m3's NaN. */
#define TTI_F16_LIMIT     0x7c00u
#define TTI_F8_E5M2_LIMIT 0x7cu
#define TTI_F8_E4M3_LIMIT 0x7fu

#define TTI_F16_NAN     0x7e00u
#define TTI_F8_E5M2_NAN 0x7eu
#define TTI_F8_E4M3_NAN 0x7fu
#define TTI_BF16_NAN    0x7fc0u

/* A float of the given widths -> f32, exact. Codes from `limit` on have the exponent of infinity and NaN. */
TTI_INLINE float widen(uint32_t code, const int exponent_bits, const int mantissa_bits, const uint32_t limit)
{
    const int width = exponent_bits + mantissa_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const float least = f32_of_bits((uint32_t)(127 + 1 - bias - mantissa_bits) << 23); /* smallest subnormal */
    const uint32_t magnitude = code & ((1u << width) - 1);
    const uint32_t sign = (code >> width) << 31;

    const uint32_t moved = (magnitude << (23 - mantissa_bits)) + ((uint32_t)(127 - bias) << 23);
    const uint32_t finite = magnitude < 1u << mantissa_bits ? bits_of_f32((float)(int32_t)magnitude * least) : moved;
    return f32_of_bits((magnitude >= limit ? moved | 0x7f800000u : finite) | sign);
}

/* f32 -> a float of the given widths, to nearest even. */
TTI_INLINE uint32_t narrow(float value, const int exponent_bits, const int mantissa_bits, const uint32_t limit,
                           const uint32_t nan)
{
    const int width = exponent_bits + mantissa_bits;
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int shift = 23 - mantissa_bits;
    const uint32_t least_normal = (uint32_t)(127 + 1 - bias) << 23;
    const uint32_t adder = (uint32_t)(127 + 1 - bias + shift) << 23; /* its last place is the smallest subnormal */
    const uint32_t bits = bits_of_f32(value);
    const uint32_t magnitude = bits & 0x7fffffffu;
    const uint32_t sign = (bits >> 31) << width;

    const uint32_t rounded = magnitude + ((1u << (shift - 1)) - 1) + ((magnitude >> shift) & 1);
    const uint32_t normal = (rounded - ((uint32_t)(127 - bias) << 23)) >> shift;
    const uint32_t subnormal = bits_of_f32(f32_of_bits(magnitude) + f32_of_bits(adder)) - adder;
    const uint32_t finite = magnitude < least_normal ? subnormal : normal;
    const uint32_t code = finite < limit ? finite : limit;
    return magnitude > 0x7f800000u || code == nan ? nan : code | sign;
}

TTI_INLINE float f32_of_f16(uint16_t code)
{
    return widen(code, 5, 10, TTI_F16_LIMIT);
}

TTI_INLINE uint16_t f16_of_f32(float value)
{
    return (uint16_t)narrow(value, 5, 10, TTI_F16_LIMIT, TTI_F16_NAN);
}

TTI_INLINE float f32_of_f8_e4m3(uint8_t code)
{
    return widen(code, 4, 3, TTI_F8_E4M3_LIMIT);
}

TTI_INLINE uint8_t f8_e4m3_of_f32(float value)
{
    return (uint8_t)narrow(value, 4, 3, TTI_F8_E4M3_LIMIT, TTI_F8_E4M3_NAN);
}

TTI_INLINE float f32_of_f8_e5m2(uint8_t code)
{
    return widen(code, 5, 2, TTI_F8_E5M2_LIMIT);
}

TTI_INLINE uint8_t f8_e5m2_of_f32(float value)
{
    return (uint8_t)narrow(value, 5, 2, TTI_F8_E5M2_LIMIT, TTI_F8_E5M2_NAN);
}

TTI_INLINE float f32_of_bf16(uint16_t code)
{
    return f32_of_bits((uint32_t)code << 16);
}

TTI_INLINE uint16_t bf16_of_f32(float value)
{
    const uint32_t bits = bits_of_f32(value);
    const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)(value != value ? TTI_BF16_NAN : rounded);
}

#endif
