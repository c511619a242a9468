/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of bf16: in f32, whose upper half it is, rounded once, to nearest even. AVG divides before that rounding. */
#include "kernels/isa/convert.h"

typedef uint16_t any_u16 __attribute__((aligned(1), may_alias));

#define FOLD_TYPE    bf16
#define FOLD_ELEMENT any_u16
#define FOLD_VALUE   float
#define FOLD_LOAD    f32_of_bf16
#define FOLD_STORE   bf16_of_f32
#define FOLD_COMBINE combine_f32
#define FOLD_FACTOR  factor_f32
#define FOLD_OPS     TTI_FLOAT_OPS
#include "kernels/isa/fold_loops.h"

#define ENTRY_BF16(op) [TUTTI_##op] = bf16_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_bf16) = {TTI_FLOAT_OPS(ENTRY_BF16)};
