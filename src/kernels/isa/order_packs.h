/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * MIN and MAX of the narrow floats without widening. Codes become signed integers in the order of the numbers, -0 below
 * +0, and integer instructions compare them. In sign-magnitude order NaNs are at both ends. Adding a constant that
 * wraps around moves those of one end to the other: all NaNs are below all numbers for MIN, and above them for MAX.
 *
 * Each width and each op is written out, as in packs.h: the names of the instructions differ, and no macro can hold an
 * #if.
 */
#ifndef TTI_KERNELS_ISA_ORDER_PACKS_H
#define TTI_KERNELS_ISA_ORDER_PACKS_H

#include "kernels/isa/packs.h"

typedef int8_t i8_pack __attribute__((vector_size(TTI_PACK)));

TTI_INLINE i16_pack least_i16(i16_pack a, i16_pack x)
{
#if TTI_PACK == 64
    return (i16_pack)_mm512_min_epi16((__m512i)a, (__m512i)x);
#elif TTI_PACK == 32
    return (i16_pack)_mm256_min_epi16((__m256i)a, (__m256i)x);
#else
    const i16_pack less = a < x;
    return (less & a) | (~less & x);
#endif
}

TTI_INLINE i16_pack most_i16(i16_pack a, i16_pack x)
{
#if TTI_PACK == 64
    return (i16_pack)_mm512_max_epi16((__m512i)a, (__m512i)x);
#elif TTI_PACK == 32
    return (i16_pack)_mm256_max_epi16((__m256i)a, (__m256i)x);
#else
    const i16_pack less = a < x;
    return (less & x) | (~less & a);
#endif
}

TTI_INLINE i8_pack least_i8(i8_pack a, i8_pack x)
{
#if TTI_PACK == 64
    return (i8_pack)_mm512_min_epi8((__m512i)a, (__m512i)x);
#elif TTI_PACK == 32
    return (i8_pack)_mm256_min_epi8((__m256i)a, (__m256i)x);
#else
    const i8_pack less = a < x;
    return (less & a) | (~less & x);
#endif
}

TTI_INLINE i8_pack most_i8(i8_pack a, i8_pack x)
{
#if TTI_PACK == 64
    return (i8_pack)_mm512_max_epi8((__m512i)a, (__m512i)x);
#elif TTI_PACK == 32
    return (i8_pack)_mm256_max_epi8((__m256i)a, (__m256i)x);
#else
    const i8_pack less = a < x;
    return (less & x) | (~less & a);
#endif
}

/* The constant; `top` is the largest code of a number or of infinity. */
TTI_INLINE int order_offset(const tutti_reduce_op op, const int sign, const int top)
{
    return op == TUTTI_MIN ? sign - 1 - top : top + 1 - sign;
}

/* A code of 16 bits to its place in the order, and back. */
TTI_INLINE i16_pack order_of_u16(const tutti_reduce_op op, u8_pack pack, const int top)
{
    const i16_pack code = (i16_pack)pack;
    const u16_pack place = (u16_pack)(code ^ ((code >> 15) & 0x7fff));
    return (i16_pack)(place + (uint16_t)order_offset(op, 0x8000, top));
}

TTI_INLINE u8_pack code_of_i16(const tutti_reduce_op op, i16_pack order, const int top, const uint16_t nan)
{
    const i16_pack place = (i16_pack)((u16_pack)order - (uint16_t)order_offset(op, 0x8000, top));
    const u16_pack code = (u16_pack)(place ^ ((place >> 15) & 0x7fff));
    return (u8_pack)where_above_u16(code, (uint16_t)top, nan, code);
}

/* The same for 8 bits. */
TTI_INLINE i8_pack order_of_u8(const tutti_reduce_op op, u8_pack pack, const int top)
{
    const i8_pack negative = (i8_pack)pack < 0;
    const u8_pack place = pack ^ ((u8_pack)negative & 0x7f);
    return (i8_pack)(place + (uint8_t)order_offset(op, 0x80, top));
}

TTI_INLINE u8_pack code_of_i8(const tutti_reduce_op op, i8_pack order, const int top, const uint8_t nan)
{
    const u8_pack place = (u8_pack)order - (uint8_t)order_offset(op, 0x80, top);
    const u8_pack code = place ^ ((u8_pack)((i8_pack)place < 0) & 0x7f);
    const u8_pack above = (u8_pack)((i8_pack)(code & 0x7f) > (int8_t)top);
    return (above & nan) | (~above & code);
}

TTI_INLINE i16_pack choose_i16(const tutti_reduce_op op, i16_pack a, i16_pack x)
{
    return op == TUTTI_MIN ? least_i16(a, x) : most_i16(a, x);
}

TTI_INLINE i8_pack choose_i8(const tutti_reduce_op op, i8_pack a, i8_pack x)
{
    return op == TUTTI_MIN ? least_i8(a, x) : most_i8(a, x);
}

/* Unused, but pack_loops.h needs them: neither op has factors or divides. */
TTI_INLINE i16_pack factor_i16(double factor)
{
    return (i16_pack){0} + (int16_t)factor;
}

TTI_INLINE i16_pack divide_i16(i16_pack order, size_t n)
{
    (void)n;
    return order;
}

TTI_INLINE i8_pack factor_i8(double factor)
{
    return (i8_pack){0} + (int8_t)factor;
}

TTI_INLINE i8_pack divide_i8(i8_pack order, size_t n)
{
    (void)n;
    return order;
}

#endif
