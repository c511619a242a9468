/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The ops of floats, and floats as bits. Steps of a fold are exactly defined: the compiler may neither contract nor
 * reorder them (-ffp-contract=off, no -ffast-math). f32 and f64 are written out, since a macro would hide the types.
 */
#ifndef TTI_KERNELS_ISA_FLOAT_OPS_H
#define TTI_KERNELS_ISA_FLOAT_OPS_H

#include <string.h>

#include "kernels/isa/table.h"

#define TTI_ARITHMETIC_OPS(X) X(SUM) X(PRODUCT) X(AVG) X(PREMUL_SUM)
#define TTI_ORDER_OPS(X)      X(MIN) X(MAX)
#define TTI_FLOAT_OPS(X)      TTI_ARITHMETIC_OPS(X) TTI_ORDER_OPS(X)

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

#endif
