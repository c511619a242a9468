/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packs of f16 for CPUs with F16C, in the terms of fold_loops.h: an element is 8 or 16 halves in memory, its value a
 * vector of as many floats, and one step of a fold works on all of them. The steps are those of float_ops.h, in vector
 * form: comparisons give all bits set for true.
 */
#ifndef TTI_KERNELS_ISA_F16_PACKS_H
#define TTI_KERNELS_ISA_F16_PACKS_H

#include <immintrin.h>

#include "kernels/isa/float_ops.h"

#if defined(__AVX512F__)
#define F16_PACK 16
#else
#define F16_PACK 8
#endif

typedef float f32_pack __attribute__((vector_size(F16_PACK * 4)));
typedef int32_t mask_pack __attribute__((vector_size(F16_PACK * 4)));

typedef struct {
    uint16_t code[F16_PACK];
} __attribute__((packed, may_alias)) f16_pack;

TTI_INLINE f32_pack select_pack(mask_pack mask, f32_pack yes, f32_pack no)
{
    return (f32_pack)((mask & (mask_pack)yes) | (~mask & (mask_pack)no));
}

TTI_INLINE f32_pack factor_pack(double factor)
{
    return (f32_pack){0} + (float)factor;
}

TTI_INLINE f32_pack f32_pack_of_f16(f16_pack pack)
{
#if F16_PACK == 16
    __m256i codes;
    memcpy(&codes, &pack, sizeof(codes));
    return (f32_pack)_mm512_cvtph_ps(codes);
#else
    __m128i codes;
    memcpy(&codes, &pack, sizeof(codes));
    return (f32_pack)_mm256_cvtph_ps(codes);
#endif
}

TTI_INLINE f16_pack f16_pack_of_f32(f32_pack value)
{
    const f32_pack nan = factor_pack(0.0) + f32_of_bits(0x7fc00000u);
    const f32_pack clean = select_pack(value != value, nan, value);
    f16_pack pack;
#if F16_PACK == 16
    __m256i codes = _mm512_cvtps_ph((__m512)clean, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#else
    __m128i codes = _mm256_cvtps_ph((__m256)clean, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#endif
    memcpy(&pack, &codes, sizeof(pack));
    return pack;
}

TTI_INLINE f32_pack combine_pack(const tutti_reduce_op op, f32_pack a, f32_pack x)
{
    const mask_pack p = (mask_pack)a;
    const mask_pack q = (mask_pack)x;
    switch (op) {
    case TUTTI_PRODUCT:
        return a * x;
    case TUTTI_MIN:
        return (f32_pack)((mask_pack)select_pack(a == x, (f32_pack)(p | q), select_pack(a < x, a, x)) | (a != a));
    case TUTTI_MAX:
        return (f32_pack)((mask_pack)select_pack(a == x, (f32_pack)(p & q), select_pack(a > x, a, x)) | (a != a));
    default:
        return a + x;
    }
}

#endif
