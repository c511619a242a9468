/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of f64 and f32, in their own type: every step rounds to nearest even. Both are written out, since a macro would
 * hide the types. */
#include "kernels/isa/packs.h"

TTI_INLINE f64_pack load_f64(const tutti_reduce_op op, u8_pack pack)
{
    (void)op;
    return (f64_pack)pack;
}

TTI_INLINE u8_pack store_f64(const tutti_reduce_op op, f64_pack value)
{
    (void)op;
    return (u8_pack)canonical_f64(value);
}

TTI_INLINE f64_pack divide_f64(f64_pack value, size_t n)
{
    return value / (double)n;
}

TTI_INLINE f32_pack load_f32(const tutti_reduce_op op, u8_pack pack)
{
    (void)op;
    return (f32_pack)pack;
}

TTI_INLINE u8_pack store_f32(const tutti_reduce_op op, f32_pack value)
{
    (void)op;
    return (u8_pack)canonical_f32(value);
}

TTI_INLINE f32_pack divide_f32(f32_pack value, size_t n)
{
    return value / (float)n;
}

TTI_INLINE f32_pack factor_f32(double factor)
{
    return fill_f32((float)factor);
}

#define PACK_TYPE    f64
#define PACK_SIZE    8
#define PACK_VALUE   f64_pack
#define PACK_LOAD    load_f64
#define PACK_STORE   store_f64
#define PACK_COMBINE combine_pack_f64
#define PACK_FACTOR  fill_f64
#define PACK_DIVIDE  divide_f64
#define PACK_OPS     TTI_FLOAT_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#define PACK_TYPE    f32
#define PACK_SIZE    4
#define PACK_VALUE   f32_pack
#define PACK_LOAD    load_f32
#define PACK_STORE   store_f32
#define PACK_COMBINE combine_pack_f32
#define PACK_FACTOR  factor_f32
#define PACK_DIVIDE  divide_f32
#define PACK_OPS     TTI_FLOAT_OPS
#define PACK_GROUP   4
#include "kernels/isa/pack_loops.h"

#define ENTRY_F64(op) [TUTTI_##op] = f64_##op,
#define ENTRY_F32(op) [TUTTI_##op] = f32_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_f64) = {TTI_FLOAT_OPS(ENTRY_F64)};
tti_fold_ops TTI_ISA_NAME(tti_fold_f32) = {TTI_FLOAT_OPS(ENTRY_F32)};
