/* SPDX-License-Identifier: BSD-3-Clause */
/* Arrays of f32 to bf16 and back, for the wire of an all_reduce. Cost: six bytes loaded and stored an element. */
#include "kernels/isa/convert.h"
#include "kernels/isa/table.h"

void TTI_ISA_NAME(tti_f32_to_bf16)(uint16_t *dst, const float *src, size_t count)
{
    TTI_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        dst[i] = bf16_of_f32(src[i]);
    }
}

void TTI_ISA_NAME(tti_bf16_to_f32)(float *dst, const uint16_t *src, size_t count)
{
    TTI_INDEPENDENT
    for (size_t i = 0; i < count; i++) {
        dst[i] = f32_of_bf16(src[i]);
    }
}
