/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of f64 and f32: they accumulate in their own type, whose every step rounds to nearest even. */
#include "kernels/isa/float_ops.h"

typedef double any_f64 __attribute__((aligned(1), may_alias));
typedef float any_f32 __attribute__((aligned(1), may_alias));

TTI_INLINE double load_f64(double element)
{
    return element;
}

TTI_INLINE double store_f64(double value)
{
    return value != value ? f64_of_bits(0x7ff8000000000000u) : value;
}

TTI_INLINE float load_f32(float element)
{
    return element;
}

TTI_INLINE float store_f32(float value)
{
    return value != value ? f32_of_bits(0x7fc00000u) : value;
}

#define FOLD_TYPE    f64
#define FOLD_ELEMENT any_f64
#define FOLD_VALUE   double
#define FOLD_LOAD    load_f64
#define FOLD_STORE   store_f64
#define FOLD_COMBINE combine_f64
#define FOLD_FACTOR  factor_f64
#define FOLD_OPS     TTI_FLOAT_OPS
#include "kernels/isa/fold_loops.h"

#define FOLD_TYPE    f32
#define FOLD_ELEMENT any_f32
#define FOLD_VALUE   float
#define FOLD_LOAD    load_f32
#define FOLD_STORE   store_f32
#define FOLD_COMBINE combine_f32
#define FOLD_FACTOR  factor_f32
#define FOLD_OPS     TTI_FLOAT_OPS
#include "kernels/isa/fold_loops.h"

#define ENTRY_F64(op) [TUTTI_##op] = f64_##op,
#define ENTRY_F32(op) [TUTTI_##op] = f32_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_f64) = {TTI_FLOAT_OPS(ENTRY_F64)};
tti_fold_ops TTI_ISA_NAME(tti_fold_f32) = {TTI_FLOAT_OPS(ENTRY_F32)};
