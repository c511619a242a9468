/* SPDX-License-Identifier: BSD-3-Clause */
/* Conversions of arrays between f32 and bf16. They compare floats, so they run under the default environment, in which
 * no comparison traps. */
#include "kernels/dispatch.h"

void tti_narrow_bf16(uint16_t *dst, const float *src, size_t count)
{
    const tti_environment before = tti_environment_enter();
    tti_fold_table()->narrow_bf16(dst, src, count);
    tti_environment_leave(before);
}

void tti_widen_bf16(float *dst, const uint16_t *src, size_t count)
{
    tti_fold_table()->widen_bf16(dst, src, count); /* moves bits only */
}
