/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pack is the content of a vector register, in the vector types of GCC and Clang for every processor. Loops over
 * packs need no vectorising compiler, and their ends no loops over single elements.
 *
 * A comparison of packs has all bits set for true. Steps whose instruction the compiler does not find are written as
 * intrinsics here and in f16_packs.h only.
 */
#ifndef TTI_KERNELS_ISA_PACKS_H
#define TTI_KERNELS_ISA_PACKS_H

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels/isa/float_ops.h"

#if defined(__AVX512BW__)
#define TTI_PACK 64
#elif defined(__AVX2__)
#define TTI_PACK 32
#else
#define TTI_PACK 16
#endif

typedef uint8_t u8_pack __attribute__((vector_size(TTI_PACK)));
typedef uint16_t u16_pack __attribute__((vector_size(TTI_PACK)));
typedef int16_t i16_pack __attribute__((vector_size(TTI_PACK)));
typedef uint32_t u32_pack __attribute__((vector_size(TTI_PACK)));
typedef uint64_t u64_pack __attribute__((vector_size(TTI_PACK)));
typedef float f32_pack __attribute__((vector_size(TTI_PACK)));
typedef double f64_pack __attribute__((vector_size(TTI_PACK)));

/* A pack in memory, of any alignment and type. */
typedef u8_pack any_pack __attribute__((aligned(1), may_alias));

/* Up to 8 bytes, the others 0, without a call or a loop: the loads overlap. */
TTI_INLINE uint64_t load_word(const unsigned char *from, size_t bytes)
{
    if (bytes >= 4) {
        uint32_t first;
        uint32_t last;
        memcpy(&first, from, sizeof(first));
        memcpy(&last, from + bytes - 4, sizeof(last));
        return first | (uint64_t)last << (8 * (bytes - 4));
    }
    if (bytes == 0) {
        return 0;
    }
    const size_t middle = bytes / 2;
    return from[0] | (uint64_t)from[middle] << (8 * middle) | (uint64_t)from[bytes - 1] << (8 * (bytes - 1));
}

TTI_INLINE void store_word(unsigned char *to, uint64_t word, size_t bytes)
{
    if (bytes >= 4) {
        const uint32_t first = (uint32_t)word;
        const uint32_t last = (uint32_t)(word >> (8 * (bytes - 4)));
        memcpy(to, &first, sizeof(first));
        memcpy(to + bytes - 4, &last, sizeof(last));
    } else {
        for (size_t i = 0; i < bytes; i++) {
            to[i] = (unsigned char)(word >> (8 * i));
        }
    }
}

#if TTI_PACK == 32
/* From entry 8 - n on: a mask of the first n elements of four bytes. */
static const int32_t first_of_8[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
#endif

/* The first `bytes` < TTI_PACK bytes of a pack, the others 0; reads and writes no other byte. */
TTI_INLINE u8_pack load_part(const void *from, size_t bytes)
{
#if TTI_PACK == 64
    return (u8_pack)_mm512_maskz_loadu_epi8((UINT64_C(1) << bytes) - 1, from);
#else
#if TTI_PACK == 32
    if (bytes % 4 == 0) {
        const __m256i mask = _mm256_loadu_si256((const __m256i *)&first_of_8[8 - bytes / 4]);
        return (u8_pack)_mm256_maskload_epi32(from, mask);
    }
#endif
    u64_pack words = {0};
    for (size_t w = 0; w < TTI_PACK / 8 && 8 * w < bytes; w++) {
        words[w] = load_word((const unsigned char *)from + 8 * w, bytes - 8 * w < 8 ? bytes - 8 * w : 8);
    }
    return (u8_pack)words;
#endif
}

TTI_INLINE void store_part(void *to, u8_pack pack, size_t bytes)
{
#if TTI_PACK == 64
    _mm512_mask_storeu_epi8(to, (UINT64_C(1) << bytes) - 1, (__m512i)pack);
#else
    const u64_pack words = (u64_pack)pack;
    if (bytes <= 8) {
        store_word(to, words[0], bytes);
        return;
    }
    for (size_t w = 0; w < TTI_PACK / 8 && 8 * w < bytes; w++) {
        store_word((unsigned char *)to + 8 * w, words[w], bytes - 8 * w < 8 ? bytes - 8 * w : 8);
    }
#endif
}

TTI_INLINE f32_pack fill_f32(float value)
{
    return (f32_pack){0} + value;
}

TTI_INLINE f64_pack fill_f64(double value)
{
    return (f64_pack){0} + value;
}

TTI_INLINE u16_pack fill_u16(uint16_t value)
{
    return (u16_pack){0} + value;
}

#if TTI_PACK > 16
/* As many bytes as a pack has elements of 16 bits. */
TTI_INLINE u16_pack load_bytes_u16(const uint8_t *from)
{
#if TTI_PACK == 64
    return (u16_pack)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)from));
#else
    return (u16_pack)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)from));
#endif
}
#endif

/* Element by element a < x ? a : x; so x, if one of the two is NaN or if both are zero. */
TTI_INLINE f32_pack lesser_f32(f32_pack a, f32_pack x)
{
#if TTI_PACK == 64
    return (f32_pack)_mm512_min_ps((__m512)a, (__m512)x);
#elif TTI_PACK == 32
    return (f32_pack)_mm256_min_ps((__m256)a, (__m256)x);
#elif defined(__x86_64__)
    return (f32_pack)_mm_min_ps((__m128)a, (__m128)x);
#else
    const u32_pack less = (u32_pack)(a < x);
    return (f32_pack)((less & (u32_pack)a) | (~less & (u32_pack)x));
#endif
}

TTI_INLINE f64_pack lesser_f64(f64_pack a, f64_pack x)
{
#if TTI_PACK == 64
    return (f64_pack)_mm512_min_pd((__m512d)a, (__m512d)x);
#elif TTI_PACK == 32
    return (f64_pack)_mm256_min_pd((__m256d)a, (__m256d)x);
#elif defined(__x86_64__)
    return (f64_pack)_mm_min_pd((__m128d)a, (__m128d)x);
#else
    const u64_pack less = (u64_pack)(a < x);
    return (f64_pack)((less & (u64_pack)a) | (~less & (u64_pack)x));
#endif
}

/* Writes the canonical NaN over every NaN. */
TTI_INLINE f32_pack canonical_f32(f32_pack value)
{
    const f32_pack nan = fill_f32(f32_of_bits(0x7fc00000u));
#if TTI_PACK == 64
    const __mmask16 is_nan = _mm512_cmp_ps_mask((__m512)value, (__m512)value, _CMP_UNORD_Q);
    return (f32_pack)_mm512_mask_mov_ps((__m512)value, is_nan, (__m512)nan);
#elif TTI_PACK == 32
    return (f32_pack)_mm256_blendv_ps((__m256)value, (__m256)nan, (__m256)(value != value));
#else
    const f32_pack same = value;
    const u32_pack is_nan = (u32_pack)(value != same);
    return (f32_pack)((is_nan & (u32_pack)nan) | (~is_nan & (u32_pack)value));
#endif
}

TTI_INLINE f64_pack canonical_f64(f64_pack value)
{
    const f64_pack nan = fill_f64(f64_of_bits(0x7ff8000000000000u));
#if TTI_PACK == 64
    const __mmask8 is_nan = _mm512_cmp_pd_mask((__m512d)value, (__m512d)value, _CMP_UNORD_Q);
    return (f64_pack)_mm512_mask_mov_pd((__m512d)value, is_nan, (__m512d)nan);
#elif TTI_PACK == 32
    return (f64_pack)_mm256_blendv_pd((__m256d)value, (__m256d)nan, (__m256d)(value != value));
#else
    const f64_pack same = value;
    const u64_pack is_nan = (u64_pack)(value != same);
    return (f64_pack)((is_nan & (u64_pack)nan) | (~is_nan & (u64_pack)value));
#endif
}

/* `yes` where `code` without its sign is above `limit`, else `no`. */
TTI_INLINE u16_pack where_above_u16(u16_pack code, const uint16_t limit, const uint16_t yes, u16_pack no)
{
#if TTI_PACK == 64
    const u16_pack twice = (u16_pack)(code + code);
    const __mmask32 above = _mm512_cmpgt_epu16_mask((__m512i)twice, (__m512i)fill_u16((uint16_t)(2 * limit)));
    return (u16_pack)_mm512_mask_mov_epi16((__m512i)no, above, (__m512i)fill_u16(yes));
#else
    const u16_pack above = (u16_pack)((i16_pack)(code & 0x7fff) > (i16_pack)fill_u16(limit));
#if TTI_PACK == 32
    return (u16_pack)_mm256_blendv_epi8((__m256i)no, (__m256i)fill_u16(yes), (__m256i)above);
#else
    return (u16_pack)((above & yes) | (~above & no));
#endif
#endif
}

/* (a + b + 1) / 2 without overflow. */
TTI_INLINE u16_pack mean_u16(u16_pack a, u16_pack b)
{
#if TTI_PACK == 64
    return (u16_pack)_mm512_avg_epu16((__m512i)a, (__m512i)b);
#elif TTI_PACK == 32
    return (u16_pack)_mm256_avg_epu16((__m256i)a, (__m256i)b);
#elif defined(__x86_64__)
    return (u16_pack)_mm_avg_epu16((__m128i)a, (__m128i)b);
#else
    return (u16_pack)((a | b) - ((a ^ b) >> 1));
#endif
}

/*
 * MIN is IEEE 754-2019 minimum: the OR of both orders of x86's instruction. It gives -0 where the zeros' signs differ,
 * a NaN where one is NaN (an order gives that one; OR leaves its exponent all ones and its mantissa not 0), and else
 * both orders agree. MAX is the same with the signs turned; in a fold the turns between two steps cancel out.
 */
TTI_INLINE f32_pack minimum_f32(f32_pack a, f32_pack x)
{
    return (f32_pack)((u32_pack)lesser_f32(a, x) | (u32_pack)lesser_f32(x, a));
}

TTI_INLINE f32_pack turn_f32(f32_pack a)
{
    return (f32_pack)((u32_pack)a ^ 0x80000000u);
}

TTI_INLINE f64_pack minimum_f64(f64_pack a, f64_pack x)
{
    return (f64_pack)((u64_pack)lesser_f64(a, x) | (u64_pack)lesser_f64(x, a));
}

TTI_INLINE f64_pack turn_f64(f64_pack a)
{
    return (f64_pack)((u64_pack)a ^ 0x8000000000000000u);
}

TTI_INLINE f32_pack combine_pack_f32(const tutti_reduce_op op, f32_pack a, f32_pack x)
{
    switch (op) {
    case TUTTI_PRODUCT:
        return a * x;
    case TUTTI_MIN:
        return minimum_f32(a, x);
    case TUTTI_MAX:
        return turn_f32(minimum_f32(turn_f32(a), turn_f32(x)));
    default:
        return a + x;
    }
}

TTI_INLINE f64_pack combine_pack_f64(const tutti_reduce_op op, f64_pack a, f64_pack x)
{
    switch (op) {
    case TUTTI_PRODUCT:
        return a * x;
    case TUTTI_MIN:
        return minimum_f64(a, x);
    case TUTTI_MAX:
        return turn_f64(minimum_f64(turn_f64(a), turn_f64(x)));
    default:
        return a + x;
    }
}

/* The values of a pack of 16-bit floats: two packs of f32. The format chooses the pack of each element. */
struct f32_pair {
    f32_pack a;
    f32_pack b;
};

TTI_INLINE struct f32_pair factor_pair(double factor)
{
    return (struct f32_pair){fill_f32((float)factor), fill_f32((float)factor)};
}

TTI_INLINE struct f32_pair combine_pair(const tutti_reduce_op op, struct f32_pair v, struct f32_pair x)
{
    return (struct f32_pair){combine_pack_f32(op, v.a, x.a), combine_pack_f32(op, v.b, x.b)};
}

TTI_INLINE struct f32_pair divide_pair(struct f32_pair v, size_t n)
{
    return (struct f32_pair){v.a / (float)n, v.b / (float)n};
}

#endif
