/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The folds of one width of integers, signed and unsigned: a template, included once per width by fold_int.c with
 *
 *     INT_SIGNED, INT_UNSIGNED       prefixes of the names defined here, e.g. i8, u8
 *     INT_ELEMENT, INT_VALUE         the signed type in memory (any alignment), and to compute with
 *     UINT_ELEMENT, UINT_VALUE       the unsigned ones
 *
 * Integers wrap: all arithmetic is unsigned, where C defines that, and serves both kinds. Only MIN, MAX and AVG depend
 * on the sign. AVG sums in 64 bits and truncates toward zero, as division in C does.
 */
#define INT_NAME(name)  TTI_JOIN(INT_SIGNED, name)
#define UINT_NAME(name) TTI_JOIN(INT_UNSIGNED, name)

TTI_INLINE UINT_VALUE UINT_NAME(load)(UINT_VALUE element)
{
    return element;
}

TTI_INLINE UINT_VALUE UINT_NAME(factor)(double factor)
{
    return (UINT_VALUE)wrapped(factor);
}

/* 1u: operands narrower than int are promoted, and a product of two promoted u16 may exceed int. */
TTI_INLINE UINT_VALUE UINT_NAME(combine)(const tutti_reduce_op op, UINT_VALUE a, UINT_VALUE x)
{
    switch (op) {
    case TUTTI_PRODUCT:
        return (UINT_VALUE)(1u * a * x);
    case TUTTI_MIN:
        return a < x ? a : x;
    case TUTTI_MAX:
        return a > x ? a : x;
    default:
        return (UINT_VALUE)(a + x);
    }
}

TTI_INLINE INT_VALUE INT_NAME(load)(INT_VALUE element)
{
    return element;
}

TTI_INLINE INT_VALUE INT_NAME(factor)(double factor)
{
    return (INT_VALUE)wrapped(factor);
}

TTI_INLINE INT_VALUE INT_NAME(combine)(const tutti_reduce_op op, INT_VALUE a, INT_VALUE x)
{
    return op == TUTTI_MIN ? (a < x ? a : x) : (a > x ? a : x);
}

/* LAND and LOR: the value is the truth of the element. */
TTI_INLINE UINT_VALUE UINT_NAME(truth)(UINT_VALUE element)
{
    return element != 0;
}

TTI_INLINE UINT_VALUE UINT_NAME(combine_truth)(const tutti_reduce_op op, UINT_VALUE a, UINT_VALUE x)
{
    return op == TUTTI_LAND ? a & x : a | x;
}

/* AVG: the value is the sum in 64 bits. */
TTI_INLINE uint64_t UINT_NAME(extend)(UINT_VALUE element)
{
    return element;
}

TTI_INLINE UINT_VALUE UINT_NAME(truncate)(uint64_t value)
{
    return (UINT_VALUE)value;
}

TTI_INLINE int64_t INT_NAME(extend)(INT_VALUE element)
{
    return element;
}

TTI_INLINE INT_VALUE INT_NAME(truncate)(int64_t value)
{
    return (INT_VALUE)value;
}

#define FOLD_TYPE    INT_UNSIGNED
#define FOLD_ELEMENT UINT_ELEMENT
#define FOLD_VALUE   UINT_VALUE
#define FOLD_LOAD    UINT_NAME(load)
#define FOLD_STORE   UINT_NAME(load)
#define FOLD_COMBINE UINT_NAME(combine)
#define FOLD_FACTOR  UINT_NAME(factor)
#define FOLD_OPS(X)  X(SUM) X(PRODUCT) X(MIN) X(MAX) X(PREMUL_SUM)
#include "kernels/isa/fold_loops.h"

#define FOLD_TYPE    UINT_NAME(truth)
#define FOLD_ELEMENT UINT_ELEMENT
#define FOLD_VALUE   UINT_VALUE
#define FOLD_LOAD    UINT_NAME(truth)
#define FOLD_STORE   UINT_NAME(load)
#define FOLD_COMBINE UINT_NAME(combine_truth)
#define FOLD_FACTOR  UINT_NAME(factor)
#define FOLD_OPS(X)  X(LAND) X(LOR)
#include "kernels/isa/fold_loops.h"

#define FOLD_TYPE    INT_SIGNED
#define FOLD_ELEMENT INT_ELEMENT
#define FOLD_VALUE   INT_VALUE
#define FOLD_LOAD    INT_NAME(load)
#define FOLD_STORE   INT_NAME(load)
#define FOLD_COMBINE INT_NAME(combine)
#define FOLD_FACTOR  INT_NAME(factor)
#define FOLD_OPS(X)  X(MIN) X(MAX)
#include "kernels/isa/fold_loops.h"

#define FOLD_TYPE    UINT_NAME(sum)
#define FOLD_ELEMENT UINT_ELEMENT
#define FOLD_VALUE   uint64_t
#define FOLD_LOAD    UINT_NAME(extend)
#define FOLD_STORE   UINT_NAME(truncate)
#define FOLD_COMBINE combine_sum_unsigned
#define FOLD_FACTOR  factor_sum_unsigned
#define FOLD_OPS(X)  X(AVG)
#include "kernels/isa/fold_loops.h"

#define FOLD_TYPE    INT_NAME(sum)
#define FOLD_ELEMENT INT_ELEMENT
#define FOLD_VALUE   int64_t
#define FOLD_LOAD    INT_NAME(extend)
#define FOLD_STORE   INT_NAME(truncate)
#define FOLD_COMBINE combine_sum_signed
#define FOLD_FACTOR  factor_sum_signed
#define FOLD_OPS(X)  X(AVG)
#include "kernels/isa/fold_loops.h"

#define BITWISE_FUNCTION(op)                                                                                           \
    static void UINT_NAME(op)(void *dst, const void *const *src, size_t n, size_t count, const double *scales)         \
    {                                                                                                                  \
        bits_##op(dst, src, n, count * sizeof(UINT_VALUE), scales);                                                    \
    }
BITWISE_FUNCTION(BAND)
BITWISE_FUNCTION(BOR)
BITWISE_FUNCTION(BXOR)
#undef BITWISE_FUNCTION

tti_fold_ops TTI_ISA_NAME(TTI_JOIN(tti_fold, INT_UNSIGNED)) = {
    [TUTTI_SUM] = UINT_NAME(SUM),       [TUTTI_PRODUCT] = UINT_NAME(PRODUCT),
    [TUTTI_MIN] = UINT_NAME(MIN),       [TUTTI_MAX] = UINT_NAME(MAX),
    [TUTTI_AVG] = UINT_NAME(sum_AVG),   [TUTTI_PREMUL_SUM] = UINT_NAME(PREMUL_SUM),
    [TUTTI_BAND] = UINT_NAME(BAND),     [TUTTI_BOR] = UINT_NAME(BOR),
    [TUTTI_BXOR] = UINT_NAME(BXOR),     [TUTTI_LAND] = UINT_NAME(truth_LAND),
    [TUTTI_LOR] = UINT_NAME(truth_LOR),
};

tti_fold_ops TTI_ISA_NAME(TTI_JOIN(tti_fold, INT_SIGNED)) = {
    [TUTTI_SUM] = UINT_NAME(SUM),       [TUTTI_PRODUCT] = UINT_NAME(PRODUCT),
    [TUTTI_MIN] = INT_NAME(MIN),        [TUTTI_MAX] = INT_NAME(MAX),
    [TUTTI_AVG] = INT_NAME(sum_AVG),    [TUTTI_PREMUL_SUM] = UINT_NAME(PREMUL_SUM),
    [TUTTI_BAND] = UINT_NAME(BAND),     [TUTTI_BOR] = UINT_NAME(BOR),
    [TUTTI_BXOR] = UINT_NAME(BXOR),     [TUTTI_LAND] = UINT_NAME(truth_LAND),
    [TUTTI_LOR] = UINT_NAME(truth_LOR),
};

#undef INT_NAME
#undef UINT_NAME
#undef INT_SIGNED
#undef INT_UNSIGNED
#undef INT_ELEMENT
#undef INT_VALUE
#undef UINT_ELEMENT
#undef UINT_VALUE
