/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Packs of f16 and of f32, converted by the instructions of F16C, AVX-512 or NEON, which compilers do not use in loops.
 * They keep subnormals in every floating-point environment.
 */
#ifndef TTI_KERNELS_ISA_F16_PACKS_H
#define TTI_KERNELS_ISA_F16_PACKS_H

#include "kernels/isa/packs.h"

#if defined(__F16C__)
#define TTI_F16_PACKS
#define TTI_F8_PACKS
#elif defined(__aarch64__)
#include <arm_neon.h>
#define TTI_F16_PACKS
#endif

#if defined(__F16C__)

#if TTI_PACK == 64
#define HALF_PACK             __m256i
#define HALF_LOW(pack)        _mm512_castsi512_si256(pack)
#define HALF_HIGH(pack)       _mm512_extracti64x4_epi64(pack, 1)
#define HALF_JOIN(low, high)  _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1)
#define HALF_WIDEN(half)      _mm512_cvtph_ps(half)
#define HALF_NARROW(f32, how) _mm512_cvtps_ph(f32, how)
typedef __m512i int_register;
typedef __m512 f32_register;
#else
#define HALF_PACK             __m128i
#define HALF_LOW(pack)        _mm256_castsi256_si128(pack)
#define HALF_HIGH(pack)       _mm256_extracti128_si256(pack, 1)
#define HALF_JOIN(low, high)  _mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1)
#define HALF_WIDEN(half)      _mm256_cvtph_ps(half)
#define HALF_NARROW(f32, how) _mm256_cvtps_ph(f32, how)
typedef __m256i int_register;
typedef __m256 f32_register;
#endif

TTI_INLINE struct f32_pair widen_halves(u16_pack codes)
{
    const int_register pack = (int_register)codes;
    return (struct f32_pair){(f32_pack)HALF_WIDEN(HALF_LOW(pack)), (f32_pack)HALF_WIDEN(HALF_HIGH(pack))};
}

/* To nearest even. */
TTI_INLINE u16_pack narrow_halves(struct f32_pair value)
{
    const HALF_PACK low = HALF_NARROW((f32_register)value.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const HALF_PACK high = HALF_NARROW((f32_register)value.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    return (u16_pack)HALF_JOIN(low, high);
}

/* Toward zero. */
TTI_INLINE u16_pack truncate_halves(struct f32_pair value)
{
    const HALF_PACK low = HALF_NARROW((f32_register)value.a, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const HALF_PACK high = HALF_NARROW((f32_register)value.b, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    return (u16_pack)HALF_JOIN(low, high);
}

/*
 * The addend for `codes`, which are `value` truncated, so that the bits from `shift` on are `value` rounded to nearest
 * even: half of their last place if that is odd or the truncation was inexact, else one less.
 */
TTI_INLINE u16_pack rounding_of(u16_pack codes, struct f32_pair value, const int shift)
{
    const struct f32_pair back = widen_halves(codes);
    const uint16_t half = (uint16_t)(1u << (shift - 1));
#if TTI_PACK == 64
    const __mmask16 low = _mm512_cmp_ps_mask((__m512)back.a, (__m512)value.a, _CMP_NEQ_UQ);
    const __mmask16 high = _mm512_cmp_ps_mask((__m512)back.b, (__m512)value.b, _CMP_NEQ_UQ);
    const __mmask32 odd = _mm512_test_epi16_mask((__m512i)codes, (__m512i)fill_u16((uint16_t)(2 * half)));
    const __mmask32 up = _kor_mask32(_mm512_kunpackw(high, low), odd);
    return (u16_pack)_mm512_mask_mov_epi16((__m512i)fill_u16((uint16_t)(half - 1)), up, (__m512i)fill_u16(half));
#else
    const __m256i lost = _mm256_packs_epi32((__m256i)(back.a != value.a), (__m256i)(back.b != value.b));
    const u16_pack odd = (u16_pack)((i16_pack)(codes << (15 - shift)) >> 15);
    return (uint16_t)(half - 1) - ((u16_pack)_mm256_permute4x64_epi64(lost, 0xd8) | odd);
#endif
}

#elif defined(__aarch64__)

TTI_INLINE struct f32_pair widen_halves(u16_pack codes)
{
    const float16x8_t halves = (float16x8_t)codes;
    return (struct f32_pair){(f32_pack)vcvt_f32_f16(vget_low_f16(halves)), (f32_pack)vcvt_high_f32_f16(halves)};
}

/* To nearest even: folds run under the default environment. */
TTI_INLINE u16_pack narrow_halves(struct f32_pair value)
{
    return (u16_pack)vcvt_high_f16_f32(vcvt_f16_f32((float32x4_t)value.a), (float32x4_t)value.b);
}

#endif

#endif
