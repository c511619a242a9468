/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of a fold in f64 and f32, without branches, so that loops over them are vectorised. The compiler may neither
 * contract nor reorder them (-ffp-contract=off, no -ffast-math).
 *
 * MIN and MAX are IEEE 754-2019 minimum and maximum: NaN wins, -0 < +0. x86's instructions do neither, so both are
 * built from comparisons: equal numbers differ at most in the sign of zero, where OR of the bits gives -0 and AND gives
 * +0; all bits set is a NaN. A NaN's payload does not matter on the way: storing writes the canonical one.
 */
#ifndef TTI_KERNELS_ISA_FLOAT_OPS_H
#define TTI_KERNELS_ISA_FLOAT_OPS_H

#include <string.h>

#include "kernels/isa/table.h"

#define TTI_FLOAT_OPS(X) X(SUM) X(PRODUCT) X(MIN) X(MAX) X(AVG) X(PREMUL_SUM)

TTI_INLINE uint32_t bits_of_f32(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

TTI_INLINE float f32_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

TTI_INLINE uint64_t bits_of_f64(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

TTI_INLINE double f64_of_bits(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof(value));
    return value;
}

TTI_INLINE float factor_f32(double factor)
{
    return (float)factor;
}

TTI_INLINE double factor_f64(double factor)
{
    return factor;
}

TTI_INLINE float combine_f32(const tutti_reduce_op op, float a, float x)
{
    const uint32_t p = bits_of_f32(a);
    const uint32_t q = bits_of_f32(x);
    const uint32_t a_is_nan = 0u - (uint32_t)(a != a);
    switch (op) {
    case TUTTI_PRODUCT:
        return a * x;
    case TUTTI_MIN:
        return f32_of_bits((a == x ? p | q : a < x ? p : q) | a_is_nan);
    case TUTTI_MAX:
        return f32_of_bits((a == x ? p & q : a > x ? p : q) | a_is_nan);
    default:
        return a + x;
    }
}

TTI_INLINE double combine_f64(const tutti_reduce_op op, double a, double x)
{
    const uint64_t p = bits_of_f64(a);
    const uint64_t q = bits_of_f64(x);
    const uint64_t a_is_nan = 0u - (uint64_t)(a != a);
    switch (op) {
    case TUTTI_PRODUCT:
        return a * x;
    case TUTTI_MIN:
        return f64_of_bits((a == x ? p | q : a < x ? p : q) | a_is_nan);
    case TUTTI_MAX:
        return f64_of_bits((a == x ? p & q : a > x ? p : q) | a_is_nan);
    default:
        return a + x;
    }
}

#endif
