/* SPDX-License-Identifier: BSD-3-Clause */
/* Folds of both kinds of fp8: in f32, rounded once, to nearest even. AVG divides before that rounding. */
#include "kernels/isa/staged.h"

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

static const struct staged_format format_f8_e4m3 = {.size = 1, .widen = widen_f8_e4m3, .narrow = narrow_f8_e4m3};
static const struct staged_format format_f8_e5m2 = {.size = 1, .widen = widen_f8_e5m2, .narrow = narrow_f8_e5m2};

#define F8_FUNCTIONS(op)                                                                                               \
    static void f8_e4m3_##op(void *dst, const void *const *src, size_t n, size_t count, const double *scales)          \
    {                                                                                                                  \
        staged_run(dst, src, n, 0, count, TUTTI_##op, scales, &format_f8_e4m3);                                        \
    }                                                                                                                  \
    static void f8_e5m2_##op(void *dst, const void *const *src, size_t n, size_t count, const double *scales)          \
    {                                                                                                                  \
        staged_run(dst, src, n, 0, count, TUTTI_##op, scales, &format_f8_e5m2);                                        \
    }
TTI_FLOAT_OPS(F8_FUNCTIONS)

#define ENTRY_F8_E4M3(op) [TUTTI_##op] = f8_e4m3_##op,
#define ENTRY_F8_E5M2(op) [TUTTI_##op] = f8_e5m2_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_f8_e4m3) = {TTI_FLOAT_OPS(ENTRY_F8_E4M3)};
tti_fold_ops TTI_ISA_NAME(tti_fold_f8_e5m2) = {TTI_FLOAT_OPS(ENTRY_F8_E5M2)};
