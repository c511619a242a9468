/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packs of fp8, by way of f16. e5m2 is the upper byte of an f16; e4m3 has the fields of an f16 with an exponent that is
 * 8 too small. So a pack of bytes becomes two packs of f16 codes, of the even and the odd bytes, which the processor
 * widens to f32, subnormals included.
 *
 * Values of e4m3 stay divided by 2^8: sums, averages and their rounding do not depend on that. Products do, and the
 * range of f32 must be the true one for factors; there the exact power of two is multiplied in and divided out.
 *
 * Narrowing takes two steps and rounds once: the first truncates to f16 and keeps whether it was inexact, the second
 * rounds to fp8.
 */
#ifndef TTI_KERNELS_ISA_F8_PACKS_H
#define TTI_KERNELS_ISA_F8_PACKS_H

#include "kernels/isa/f16_packs.h"

#if defined(TTI_F8_PACKS)

/* The values of a pack of bytes. */
struct f32_quad {
    struct f32_pair even;
    struct f32_pair odd;
};

TTI_INLINE struct f32_quad combine_quad(const tutti_reduce_op op, struct f32_quad v, struct f32_quad x)
{
    return (struct f32_quad){combine_pair(op, v.even, x.even), combine_pair(op, v.odd, x.odd)};
}

TTI_INLINE struct f32_quad factor_quad(double factor)
{
    return (struct f32_quad){factor_pair(factor), factor_pair(factor)};
}

TTI_INLINE struct f32_quad divide_quad(struct f32_quad v, size_t n)
{
    return (struct f32_quad){divide_pair(v.even, n), divide_pair(v.odd, n)};
}

TTI_INLINE struct f32_quad load_f8_e5m2(const tutti_reduce_op op, u8_pack pack)
{
    (void)op;
    const u16_pack codes = (u16_pack)pack;
    return (struct f32_quad){widen_halves(codes << 8), widen_halves(codes & 0xff00)};
}

/* In the upper bytes. */
TTI_INLINE u16_pack narrow_f8_e5m2(struct f32_pair value)
{
    const u16_pack half = truncate_halves(value);
    return where_above_u16(half, 0x7c00, 0x7e00, half + rounding_of(half, value, 8));
}

TTI_INLINE u8_pack store_f8_e5m2(const tutti_reduce_op op, struct f32_quad value)
{
    (void)op;
    return (u8_pack)((narrow_f8_e5m2(value.even) >> 8) | (narrow_f8_e5m2(value.odd) & 0xff00));
}

/* Whether values of e4m3 have their true size. */
TTI_INLINE int full_size(const tutti_reduce_op op)
{
    return op == TUTTI_PRODUCT || op == TUTTI_PREMUL_SUM;
}

TTI_INLINE struct f32_pair scale_pair(struct f32_pair value, float factor)
{
    return (struct f32_pair){value.a * factor, value.b * factor};
}

/* Codes of e4m3 in the upper bytes. */
TTI_INLINE struct f32_pair widen_f8_e4m3(const tutti_reduce_op op, u16_pack codes)
{
    const u16_pack half = (u16_pack)((i16_pack)codes >> 1) & 0xbf80;
    const struct f32_pair value = widen_halves(where_above_u16(half, 0x3f00, 0x7e00, half));
    return full_size(op) ? scale_pair(value, 0x1p8f) : value;
}

TTI_INLINE struct f32_quad load_f8_e4m3(const tutti_reduce_op op, u8_pack pack)
{
    const u16_pack codes = (u16_pack)pack;
    return (struct f32_quad){widen_f8_e4m3(op, codes << 8), widen_f8_e4m3(op, codes)};
}

TTI_INLINE u16_pack narrow_f8_e4m3(const tutti_reduce_op op, struct f32_pair value)
{
    const struct f32_pair small = full_size(op) ? scale_pair(value, 0x1p-8f) : value;
    const u16_pack half = truncate_halves(small);
    /* At most 0x8040: no carry leaves the 16 bits, also for a NaN. */
    const u16_pack rounded = (half & 0x7fff) + rounding_of(half, small, 7);
    const u16_pack limit = fill_u16(0x3f80);
#if TTI_PACK == 64
    const __mmask32 is_number = _mm512_cmplt_epu16_mask((__m512i)rounded, (__m512i)limit);
    const u16_pack code = (rounded << 1) | (half & 0x8000);
    return (u16_pack)_mm512_mask_mov_epi16((__m512i)fill_u16(0x7f00), is_number, (__m512i)code);
#else
    const u16_pack least = (u16_pack)_mm256_min_epu16((__m256i)rounded, (__m256i)limit);
    return (least << 1) | (half & 0x8000 & (u16_pack)(least != limit));
#endif
}

TTI_INLINE u8_pack store_f8_e4m3(const tutti_reduce_op op, struct f32_quad value)
{
    return (u8_pack)((narrow_f8_e4m3(op, value.even) >> 8) | (narrow_f8_e4m3(op, value.odd) & 0xff00));
}

#endif

#endif
