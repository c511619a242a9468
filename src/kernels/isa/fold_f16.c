/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds of f16, in f32, rounded once to nearest even. AVG divides before the rounding. Packs are converted by the
 * processor; x86 without F16C uses the integer conversion, with the same bits.
 */
#include "kernels/isa/f16_packs.h"
#include "kernels/isa/order_packs.h"
#include "kernels/isa/staged.h"

#if defined(TTI_F16_PACKS)

TTI_INLINE struct f32_pair load_f16(const tutti_reduce_op op, u8_pack pack)
{
    (void)op;
    return widen_halves((u16_pack)pack);
}

TTI_INLINE u8_pack store_f16(const tutti_reduce_op op, struct f32_pair value)
{
    (void)op;
    const u16_pack codes = narrow_halves(value);
    return (u8_pack)where_above_u16(codes, TTI_F16_LIMIT, TTI_F16_NAN, codes);
}

#define PACK_TYPE    f16
#define PACK_SIZE    2
#define PACK_VALUE   struct f32_pair
#define PACK_LOAD    load_f16
#define PACK_STORE   store_f16
#define PACK_COMBINE combine_pair
#define PACK_FACTOR  factor_pair
#define PACK_DIVIDE  divide_pair
#define PACK_OPS     TTI_ARITHMETIC_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#else

typedef uint16_t any_u16 __attribute__((aligned(1), may_alias));

static void widen_f16(float *tile, const void *src, size_t count)
{
    const any_u16 *from = src;
    for (size_t i = 0; i < count; i++) {
        tile[i] = f32_of_f16(from[i]);
    }
}

static void narrow_f16(void *dst, const float *tile, size_t count)
{
    any_u16 *to = dst;
    for (size_t i = 0; i < count; i++) {
        to[i] = f16_of_f32(tile[i]);
    }
}

static const struct staged_format format_f16 = {
    .tile_bytes = 2 * STAGED_TILE, .widen = widen_f16, .narrow = narrow_f16};

#define F16_FUNCTION(op)                                                                                               \
    static void f16_##op(void *dst, const void *const *src, size_t n, size_t count, const double *scales)              \
    {                                                                                                                  \
        staged_run(dst, src, n, count, TUTTI_##op, scales, &format_f16);                                               \
    }
TTI_ARITHMETIC_OPS(F16_FUNCTION)

#endif

TTI_INLINE i16_pack order_f16(const tutti_reduce_op op, u8_pack pack)
{
    return order_of_u16(op, pack, TTI_F16_LIMIT);
}

TTI_INLINE u8_pack code_f16(const tutti_reduce_op op, i16_pack order)
{
    return code_of_i16(op, order, TTI_F16_LIMIT, TTI_F16_NAN);
}

#define PACK_TYPE    f16_order
#define PACK_SIZE    2
#define PACK_VALUE   i16_pack
#define PACK_LOAD    order_f16
#define PACK_STORE   code_f16
#define PACK_COMBINE choose_i16
#define PACK_FACTOR  factor_i16
#define PACK_DIVIDE  divide_i16
#define PACK_OPS     TTI_ORDER_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#define ENTRY_F16(op)       [TUTTI_##op] = f16_##op,
#define ENTRY_F16_ORDER(op) [TUTTI_##op] = f16_order_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_f16) = {TTI_ARITHMETIC_OPS(ENTRY_F16) TTI_ORDER_OPS(ENTRY_F16_ORDER)};
