/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Folds of f16: in f32, rounded once, to nearest even. AVG divides before that rounding.
 *
 * x86 converts f16 in hardware (F16C), but the compiler does not use that in loops. So where it exists, a pack of 8 or
 * 16 elements goes through the loops of fold_loops.h as one element whose value is a vector. The rest, shorter than a
 * pack, and CPUs without F16C use the integer conversion, which gives the same bits.
 */
#include "kernels/isa/staged.h"

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

static const struct staged_format format_f16 = {.size = 2, .widen = widen_f16, .narrow = narrow_f16};

#if defined(__F16C__)

#include "kernels/isa/f16_packs.h"

#define FOLD_TYPE    f16_packs
#define FOLD_ELEMENT f16_pack
#define FOLD_VALUE   f32_pack
#define FOLD_LOAD    f32_pack_of_f16
#define FOLD_STORE   f16_pack_of_f32
#define FOLD_COMBINE combine_pack
#define FOLD_FACTOR  factor_pack
#define FOLD_OPS     TTI_FLOAT_OPS
#include "kernels/isa/fold_loops.h"

/* Folds what fits packs; returns the number of elements done. `fold` is one of f16_packs_SUM, ... A rest shorter than a
 * pack is copied into one, unless there are too many sources for that to pay. */
TTI_INLINE size_t f16_by_packs(tti_fold_function *fold, void *dst, const void *const *src, size_t n, size_t count,
                               const double *scales)
{
    enum { SOURCES = 8 };
    const size_t packs = count / F16_PACK;
    const size_t done = packs * F16_PACK;
    const size_t rest = 2 * (count - done);
    if (packs > 0) {
        fold(dst, src, n, packs, scales);
    }
    if (rest == 0 || n > SOURCES) {
        return done;
    }
    f16_pack padded[SOURCES];
    const void *from[SOURCES];
    for (size_t k = 0; k < n; k++) {
        padded[k] = (f16_pack){{0}};
        memcpy(&padded[k], (const char *)src[k] + 2 * done, rest);
        from[k] = &padded[k];
    }
    fold(padded, from, n, 1, scales);
    memcpy((char *)dst + 2 * done, padded, rest);
    return count;
}

#define F16_DONE(op) f16_by_packs(f16_packs_##op, dst, src, n, count, scales)
#else
#define F16_DONE(op) 0
#endif

#define F16_FUNCTION(op)                                                                                               \
    static void f16_##op(void *dst, const void *const *src, size_t n, size_t count, const double *scales)              \
    {                                                                                                                  \
        const size_t done = F16_DONE(op);                                                                              \
        staged_run(dst, src, n, done, count, TUTTI_##op, scales, &format_f16);                                         \
    }
TTI_FLOAT_OPS(F16_FUNCTION)

#define ENTRY_F16(op) [TUTTI_##op] = f16_##op,

tti_fold_ops TTI_ISA_NAME(tti_fold_f16) = {TTI_FLOAT_OPS(ENTRY_F16)};
