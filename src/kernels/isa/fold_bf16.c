/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds of bf16, in f32, rounded once to nearest even. bf16 is the upper half of an f32. AVG divides before the
 * rounding.
 *
 * A pack of bf16 becomes two packs of f32 without a shuffle: the even elements shifted up, and the odd ones with the
 * even ones masked out. The upper and lower halves of the results are combined first, and then rounded 16 bits wide.
 * Instructions like vcvtneps2bf16 are not used: they flush subnormals.
 */
#include "kernels/isa/order_packs.h"

TTI_INLINE struct f32_pair load_bf16(const tutti_reduce_op op, u8_pack pack)
{
    (void)op;
    const u32_pack codes = (u32_pack)pack;
    return (struct f32_pair){(f32_pack)(codes << 16), (f32_pack)(codes & 0xffff0000u)};
}

TTI_INLINE u8_pack store_bf16(const tutti_reduce_op op, struct f32_pair value)
{
    (void)op;
    const u32_pack even = (u32_pack)value.a;
    const u32_pack odd = (u32_pack)value.b;
    const u16_pack upper = (u16_pack)((even >> 16) | (odd & 0xffff0000u));
    const u16_pack lower = (u16_pack)((even & 0xffffu) | (odd << 16));
    /* The carry of lower + 0x7fff + (the last bit kept). */
    const u16_pack carry = mean_u16(lower, (upper & 1) | 0x7ffe) >> 15;
    return (u8_pack)where_above_u16(upper, 0x7f80, 0x7fc0, upper + carry);
}

TTI_INLINE i16_pack order_bf16(const tutti_reduce_op op, u8_pack pack)
{
    return order_of_u16(op, pack, 0x7f80);
}

TTI_INLINE u8_pack code_bf16(const tutti_reduce_op op, i16_pack order)
{
    return code_of_i16(op, order, 0x7f80, 0x7fc0);
}

#define PACK_TYPE    bf16
#define PACK_SIZE    2
#define PACK_VALUE   struct f32_pair
#define PACK_LOAD    load_bf16
#define PACK_STORE   store_bf16
#define PACK_COMBINE combine_pair
#define PACK_FACTOR  factor_pair
#define PACK_DIVIDE  divide_pair
#define PACK_OPS     TTI_ARITHMETIC_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#define PACK_TYPE    bf16_order
#define PACK_SIZE    2
#define PACK_VALUE   i16_pack
#define PACK_LOAD    order_bf16
#define PACK_STORE   code_bf16
#define PACK_COMBINE choose_i16
#define PACK_FACTOR  factor_i16
#define PACK_DIVIDE  divide_i16
#define PACK_OPS     TTI_ORDER_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#define ENTRY_BF16(op)       [TUTTI_##op] = bf16_##op,
#define ENTRY_BF16_ORDER(op) [TUTTI_##op] = bf16_order_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_bf16) = {TTI_ARITHMETIC_OPS(ENTRY_BF16) TTI_ORDER_OPS(ENTRY_BF16_ORDER)};
