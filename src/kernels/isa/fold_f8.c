/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds of both kinds of fp8, in f32, rounded once to nearest even. AVG divides before the rounding. With F16C by
 * packs, else by the integer conversion, with the same bits.
 */
#include "kernels/isa/f8_packs.h"
#include "kernels/isa/order_packs.h"
#include "kernels/isa/staged.h"

#if defined(TTI_F8_PACKS)

#define PACK_TYPE    f8_e4m3
#define PACK_SIZE    1
#define PACK_VALUE   struct f32_quad
#define PACK_LOAD    load_f8_e4m3
#define PACK_STORE   store_f8_e4m3
#define PACK_COMBINE combine_quad
#define PACK_FACTOR  factor_quad
#define PACK_DIVIDE  divide_quad
#define PACK_OPS     TTI_ARITHMETIC_OPS
#define PACK_GROUP   2
#include "kernels/isa/pack_loops.h"

#define PACK_TYPE    f8_e5m2
#define PACK_SIZE    1
#define PACK_VALUE   struct f32_quad
#define PACK_LOAD    load_f8_e5m2
#define PACK_STORE   store_f8_e5m2
#define PACK_COMBINE combine_quad
#define PACK_FACTOR  factor_quad
#define PACK_DIVIDE  divide_quad
#define PACK_OPS     TTI_ARITHMETIC_OPS
#define PACK_GROUP   2
#include "kernels/isa/pack_loops.h"

#else

static void widen_f8_e4m3(float *tile, const void *src, size_t count)
{
    const uint8_t *from = src;
    for (size_t i = 0; i < count; i++) {
        tile[i] = f32_of_f8_e4m3(from[i]);
    }
}

static void narrow_f8_e4m3(void *dst, const float *tile, size_t count)
{
    uint8_t *to = dst;
    for (size_t i = 0; i < count; i++) {
        to[i] = f8_e4m3_of_f32(tile[i]);
    }
}

static void widen_f8_e5m2(float *tile, const void *src, size_t count)
{
    const uint8_t *from = src;
    for (size_t i = 0; i < count; i++) {
        tile[i] = f32_of_f8_e5m2(from[i]);
    }
}

static void narrow_f8_e5m2(void *dst, const float *tile, size_t count)
{
    uint8_t *to = dst;
    for (size_t i = 0; i < count; i++) {
        to[i] = f8_e5m2_of_f32(tile[i]);
    }
}

static const struct staged_format format_f8_e4m3 = {
    .tile_bytes = STAGED_TILE, .widen = widen_f8_e4m3, .narrow = narrow_f8_e4m3};
static const struct staged_format format_f8_e5m2 = {
    .tile_bytes = STAGED_TILE, .widen = widen_f8_e5m2, .narrow = narrow_f8_e5m2};

#define F8_FUNCTIONS(op)                                                                                               \
    static void f8_e4m3_##op(void *dst, const void *const *src, size_t n, size_t count, const double *scales)          \
    {                                                                                                                  \
        staged_run(dst, src, n, count, TUTTI_##op, scales, &format_f8_e4m3);                                           \
    }                                                                                                                  \
    static void f8_e5m2_##op(void *dst, const void *const *src, size_t n, size_t count, const double *scales)          \
    {                                                                                                                  \
        staged_run(dst, src, n, count, TUTTI_##op, scales, &format_f8_e5m2);                                           \
    }
TTI_ARITHMETIC_OPS(F8_FUNCTIONS)

#endif

TTI_INLINE i8_pack order_f8_e4m3(const tutti_reduce_op op, u8_pack pack)
{
    return order_of_u8(op, pack, TTI_F8_E4M3_LIMIT - 1);
}

TTI_INLINE u8_pack code_f8_e4m3(const tutti_reduce_op op, i8_pack order)
{
    return code_of_i8(op, order, TTI_F8_E4M3_LIMIT - 1, TTI_F8_E4M3_NAN);
}

TTI_INLINE i8_pack order_f8_e5m2(const tutti_reduce_op op, u8_pack pack)
{
    return order_of_u8(op, pack, TTI_F8_E5M2_LIMIT);
}

TTI_INLINE u8_pack code_f8_e5m2(const tutti_reduce_op op, i8_pack order)
{
    return code_of_i8(op, order, TTI_F8_E5M2_LIMIT, TTI_F8_E5M2_NAN);
}

#define PACK_TYPE    f8_e4m3_order
#define PACK_SIZE    1
#define PACK_VALUE   i8_pack
#define PACK_LOAD    order_f8_e4m3
#define PACK_STORE   code_f8_e4m3
#define PACK_COMBINE choose_i8
#define PACK_FACTOR  factor_i8
#define PACK_DIVIDE  divide_i8
#define PACK_OPS     TTI_ORDER_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#define PACK_TYPE    f8_e5m2_order
#define PACK_SIZE    1
#define PACK_VALUE   i8_pack
#define PACK_LOAD    order_f8_e5m2
#define PACK_STORE   code_f8_e5m2
#define PACK_COMBINE choose_i8
#define PACK_FACTOR  factor_i8
#define PACK_DIVIDE  divide_i8
#define PACK_OPS     TTI_ORDER_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#define ENTRY_F8_E4M3(op)       [TUTTI_##op] = f8_e4m3_##op,
#define ENTRY_F8_E5M2(op)       [TUTTI_##op] = f8_e5m2_##op,
#define ENTRY_F8_E4M3_ORDER(op) [TUTTI_##op] = f8_e4m3_order_##op,
#define ENTRY_F8_E5M2_ORDER(op) [TUTTI_##op] = f8_e5m2_order_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_f8_e4m3) = {TTI_ARITHMETIC_OPS(ENTRY_F8_E4M3) TTI_ORDER_OPS(ENTRY_F8_E4M3_ORDER)};
tti_fold_ops TTI_ISA_NAME(tti_fold_f8_e5m2) = {TTI_ARITHMETIC_OPS(ENTRY_F8_E5M2) TTI_ORDER_OPS(ENTRY_F8_E5M2_ORDER)};
