/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of integers and bool: the four widths of int_type.h, and bool. */
#include <stdbool.h>
#include <string.h>

#include "kernels/isa/table.h"

/* A factor as a 64-bit integer: its integral part modulo 2^64; 0 for infinity and NaN. Computed from the bits, because
 * C leaves the conversion of a double outside the integer's range undefined. */
TTI_INLINE uint64_t wrapped(double factor)
{
    uint64_t bits;
    memcpy(&bits, &factor, sizeof(bits));
    const int exponent = (int)((bits >> 52) & 0x7ff) - 1023 - 52;
    const uint64_t mantissa = (bits & 0xfffffffffffffu) | 0x10000000000000u;
    uint64_t magnitude = 0;
    if (exponent >= 0 && exponent < 64) {
        magnitude = mantissa << exponent;
    } else if (exponent < 0 && exponent > -64) {
        magnitude = mantissa >> -exponent;
    }
    return bits >> 63 ? 0 - magnitude : magnitude;
}

TTI_INLINE uint64_t combine_sum_unsigned(const tutti_reduce_op op, uint64_t a, uint64_t x)
{
    (void)op;
    return a + x;
}

TTI_INLINE int64_t combine_sum_signed(const tutti_reduce_op op, int64_t a, int64_t x)
{
    (void)op;
    return (int64_t)((uint64_t)a + (uint64_t)x);
}

TTI_INLINE uint64_t factor_sum_unsigned(double factor)
{
    return wrapped(factor);
}

TTI_INLINE int64_t factor_sum_signed(double factor)
{
    return (int64_t)wrapped(factor);
}

typedef int8_t any_i8 __attribute__((may_alias));
typedef int16_t any_i16 __attribute__((aligned(1), may_alias));
typedef int32_t any_i32 __attribute__((aligned(1), may_alias));
typedef int64_t any_i64 __attribute__((aligned(1), may_alias));
typedef uint8_t any_u8 __attribute__((may_alias));
typedef uint16_t any_u16 __attribute__((aligned(1), may_alias));
typedef uint32_t any_u32 __attribute__((aligned(1), may_alias));
typedef uint64_t any_u64 __attribute__((aligned(1), may_alias));

/* Bitwise ops know no elements: those of bytes serve all widths. */
TTI_INLINE uint8_t bits_identity(uint8_t element)
{
    return element;
}

TTI_INLINE uint8_t bits_combine(const tutti_reduce_op op, uint8_t a, uint8_t x)
{
    return op == TUTTI_BAND ? a & x : op == TUTTI_BOR ? a | x : a ^ x;
}

TTI_INLINE uint8_t bits_factor(double factor)
{
    return (uint8_t)wrapped(factor);
}

#define FOLD_TYPE    bits
#define FOLD_ELEMENT any_u8
#define FOLD_VALUE   uint8_t
#define FOLD_LOAD    bits_identity
#define FOLD_STORE   bits_identity
#define FOLD_COMBINE bits_combine
#define FOLD_FACTOR  bits_factor
#define FOLD_OPS(X)  X(BAND) X(BOR) X(BXOR)
#include "kernels/isa/fold_loops.h"

#define INT_SIGNED   i8
#define INT_UNSIGNED u8
#define INT_ELEMENT  any_i8
#define INT_VALUE    int8_t
#define UINT_ELEMENT any_u8
#define UINT_VALUE   uint8_t
#include "kernels/isa/int_type.h"

#define INT_SIGNED   i16
#define INT_UNSIGNED u16
#define INT_ELEMENT  any_i16
#define INT_VALUE    int16_t
#define UINT_ELEMENT any_u16
#define UINT_VALUE   uint16_t
#include "kernels/isa/int_type.h"

#define INT_SIGNED   i32
#define INT_UNSIGNED u32
#define INT_ELEMENT  any_i32
#define INT_VALUE    int32_t
#define UINT_ELEMENT any_u32
#define UINT_VALUE   uint32_t
#include "kernels/isa/int_type.h"

#define INT_SIGNED   i64
#define INT_UNSIGNED u64
#define INT_ELEMENT  any_i64
#define INT_VALUE    int64_t
#define UINT_ELEMENT any_u64
#define UINT_VALUE   uint64_t
#include "kernels/isa/int_type.h"

/* Every byte except 0 is true; results are 0 or 1. LAND and LOR are those of u8, and with BXOR suffice for all ops. */
TTI_INLINE uint8_t boolean_combine(const tutti_reduce_op op, uint8_t a, uint8_t x)
{
    (void)op;
    return a ^ x;
}

#define FOLD_TYPE    boolean
#define FOLD_ELEMENT any_u8
#define FOLD_VALUE   uint8_t
#define FOLD_LOAD    u8_truth
#define FOLD_STORE   u8_load
#define FOLD_COMBINE boolean_combine
#define FOLD_FACTOR  u8_factor
#define FOLD_OPS(X)  X(BXOR)
#include "kernels/isa/fold_loops.h"

tti_fold_ops TTI_ISA_NAME(tti_fold_bool) = {
    [TUTTI_SUM] = u8_truth_LOR,  [TUTTI_PRODUCT] = u8_truth_LAND, [TUTTI_MIN] = u8_truth_LAND,
    [TUTTI_MAX] = u8_truth_LOR,  [TUTTI_BAND] = u8_truth_LAND,    [TUTTI_BOR] = u8_truth_LOR,
    [TUTTI_BXOR] = boolean_BXOR, [TUTTI_LAND] = u8_truth_LAND,    [TUTTI_LOR] = u8_truth_LOR,
};
