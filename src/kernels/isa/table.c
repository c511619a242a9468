/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of one instruction set, for the dispatcher. */
#include "kernels/isa/table.h"

const struct tti_fold_table TTI_ISA_NAME(tti_fold_table) = {
    .isa = TTI_TEXT(TTI_ISA),
    .ops =
        {
            [TUTTI_F64] = TTI_ISA_NAME(tti_fold_f64),
            [TUTTI_F32] = TTI_ISA_NAME(tti_fold_f32),
            [TUTTI_F16] = TTI_ISA_NAME(tti_fold_f16),
            [TUTTI_BF16] = TTI_ISA_NAME(tti_fold_bf16),
            [TUTTI_F8_E4M3] = TTI_ISA_NAME(tti_fold_f8_e4m3),
            [TUTTI_F8_E5M2] = TTI_ISA_NAME(tti_fold_f8_e5m2),
            [TUTTI_I8] = TTI_ISA_NAME(tti_fold_i8),
            [TUTTI_I16] = TTI_ISA_NAME(tti_fold_i16),
            [TUTTI_I32] = TTI_ISA_NAME(tti_fold_i32),
            [TUTTI_I64] = TTI_ISA_NAME(tti_fold_i64),
            [TUTTI_U8] = TTI_ISA_NAME(tti_fold_u8),
            [TUTTI_U16] = TTI_ISA_NAME(tti_fold_u16),
            [TUTTI_U32] = TTI_ISA_NAME(tti_fold_u32),
            [TUTTI_U64] = TTI_ISA_NAME(tti_fold_u64),
            [TUTTI_BOOL] = TTI_ISA_NAME(tti_fold_bool),
        },
    .narrow_bf16 = TTI_ISA_NAME(tti_f32_to_bf16),
    .widen_bf16 = TTI_ISA_NAME(tti_bf16_to_f32),
    .pack_fp8 = TTI_ISA_NAME(tti_f32_to_fp8),
    .unpack_fp8 = TTI_ISA_NAME(tti_fp8_to_f32),
    .fold_fp8 = TTI_ISA_NAME(tti_fold_fp8),
#if defined(__x86_64__)
    .stream = TTI_ISA_NAME(tti_stream),
#endif
};
