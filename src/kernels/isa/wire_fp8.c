/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * f32 as blocks of fp8, for the wire of an all_reduce. A block is what OCP Microscaling (MX) 1.0 calls MXFP8: a scale s
 * of 8 bits, which stands for 2^(s - 127), and 32 codes of e4m3. Two things differ from that text:
 *   - the code of 448 stands for infinity, so infinities and NaNs are kept value by value
 *   - the scale is chosen so that the largest finite value of the block is at most 416, the code below: nothing
 *     saturates
 * Dividing by the scale is exact as far as it counts, so a value is rounded once.
 *
 * Cost: 5.03 bytes loaded and stored an element. The scales of some blocks are found before their codes: else each
 * block would wait for the maximum of its own values. Rare blocks, with infinities or NaNs, take loops of their own.
 */
#include "kernels/isa/convert.h"
#include "kernels/isa/f16_packs.h"
#include "kernels/isa/staged.h"

enum { VALUES = TTI_FP8_BLOCK, BLOCK_BYTES = 1 + VALUES, AHEAD = 16 /* blocks */ };

#define CODE_INFINITY 0x7eu
#define CODE_NAN      0x7fu
#define F32_INFINITY  0x7f800000u
#define F32_NAN       0x7fc00000u

/* Magnitudes as signed integers, which all instruction sets compare. */
TTI_INLINE int32_t magnitude_of(float value)
{
    return (int32_t)(bits_of_f32(value) & 0x7fffffffu);
}

TTI_INLINE int32_t largest_of(const float *src)
{
    int32_t most = 0;
    for (int i = 0; i < VALUES; i++) {
        most = magnitude_of(src[i]) > most ? magnitude_of(src[i]) : most;
    }
    return most;
}

/* 416 is 1.625 * 2^8; a mantissa above 1.625 carries into the exponent. */
TTI_INLINE uint32_t scale_of(int32_t largest)
{
    const uint32_t exponent = ((uint32_t)largest + 0x2fffffu) >> 23;
    return exponent > 8 ? exponent - 8 : 0;
}

/* 2^(127 - scale). The scale is at most 247. */
TTI_INLINE float divisor_of(uint32_t scale)
{
    return f32_of_bits((254 - scale) << 23);
}

/* 2^(scale - 127). */
TTI_INLINE float factor_of(uint32_t scale)
{
    return f32_of_bits(scale > 0 ? scale << 23 : 1u << 22);
}

__attribute__((noinline)) static void pack_special(uint8_t *dst, const float *src)
{
    int32_t most = 0;
    for (int i = 0; i < VALUES; i++) {
        const int32_t finite = magnitude_of(src[i]) < (int32_t)F32_INFINITY ? magnitude_of(src[i]) : 0;
        most = finite > most ? finite : most;
    }
    dst[0] = (uint8_t)scale_of(most);
    for (int i = 0; i < VALUES; i++) {
        dst[1 + i] = (uint8_t)narrow(src[i] * divisor_of(dst[0]), 4, 3, CODE_INFINITY, CODE_NAN);
    }
}

/*
 * The code of |value| <= 416, to nearest even. The f32 adder rounds: the last place of a sum with 2^(e + 20), where
 * 2^e <= |value|, is that of the code's mantissa; subnormals of e4m3 have that of 2^-6.
 */
TTI_INLINE uint32_t code_of(float value)
{
    const int32_t least = (127 - 6) << 23;
    const int32_t exponent = (int32_t)(bits_of_f32(value) & 0x7f800000u);
    const uint32_t kept = (uint32_t)(exponent > least ? exponent : least);
    const uint32_t adder = kept + (20u << 23);
    const uint32_t sum = bits_of_f32(f32_of_bits((uint32_t)magnitude_of(value)) + f32_of_bits(adder));
    return (sum - adder + ((kept - (uint32_t)least) >> 20)) | (bits_of_f32(value) >> 24 & 0x80);
}

TTI_INLINE void pack_block(uint8_t *restrict dst, const float *restrict src, int32_t largest)
{
    if (largest >= (int32_t)F32_INFINITY) {
        pack_special(dst, src);
        return;
    }
    const uint32_t scale = scale_of(largest);
    const float divisor = divisor_of(scale);
    uint32_t codes[VALUES]; /* in a loop of its own: GCC would narrow each term of the code */
    for (int i = 0; i < VALUES; i++) {
        codes[i] = code_of(src[i] * divisor);
    }
    dst[0] = (uint8_t)scale;
    for (int i = 0; i < VALUES; i++) {
        dst[1 + i] = (uint8_t)codes[i];
    }
}

/* Of a finite code. */
TTI_INLINE float value_of(uint32_t code)
{
    const uint32_t magnitude = code & 0x7f;
    const uint32_t normal = (magnitude << 20) + ((127 - 7) << 23);
    const uint32_t finite = magnitude < 8 ? bits_of_f32((float)(int32_t)magnitude * 0x1p-9f) : normal;
    return f32_of_bits(finite | (code & 0x80) << 24);
}

/* Any block, at less speed. */
__attribute__((noinline)) static void unpack_special(float *dst, const uint8_t *src)
{
    for (int i = 0; i < VALUES; i++) {
        const uint32_t code = src[1 + i];
        const float infinity = f32_of_bits(F32_INFINITY | (code & 0x80) << 24);
        const float finite = value_of(code) * factor_of(src[0]);
        dst[i] = (code & 0x7f) == CODE_NAN ? f32_of_bits(F32_NAN) : (code & 0x7f) == CODE_INFINITY ? infinity : finite;
    }
}

#if defined(TTI_F8_PACKS)

/*
 * By way of f16, which the processor widens: the codes of e4m3 are bits 7 to 13 of an f16 that is 2^8 smaller. This
 * takes a third of the time of the loop below. 2^8 times the largest scales is no f32.
 */
TTI_INLINE void unpack_block(float *restrict dst, const uint8_t *restrict src)
{
    typedef f32_pack any_f32_pack __attribute__((aligned(4), may_alias));
    if (src[0] > 254 - 8) {
        unpack_special(dst, src);
        return;
    }
    const float factor = f32_of_bits((uint32_t)(src[0] + 8) << 23);
    for (int i = 0; i < VALUES; i += TTI_PACK / 2) {
        const u16_pack code = load_bytes_u16(src + 1 + i);
        const u16_pack half = (code << 7 & 0x3f80) | (code << 8 & 0x8000);
        const u16_pack is_infinity = (u16_pack)((half & 0x7fff) == CODE_INFINITY << 7);
        const u16_pack number = half + (is_infinity & (0x7c00 - (CODE_INFINITY << 7)));
        const struct f32_pair value = widen_halves(where_above_u16(half, CODE_INFINITY << 7, 0x7e00, number));
        any_f32_pack *const to = (any_f32_pack *)(dst + i);
        to[0] = value.a * factor;
        to[1] = value.b * factor;
    }
}

#else

TTI_INLINE void unpack_block(float *restrict dst, const uint8_t *restrict src)
{
    uint8_t most = 0;
    for (int i = 1; i <= VALUES; i++) {
        const uint8_t magnitude = src[i] & 0x7f;
        most = magnitude > most ? magnitude : most;
    }
    if (most >= CODE_INFINITY) {
        unpack_special(dst, src);
        return;
    }
    const float factor = factor_of(src[0]);
    for (int i = 0; i < VALUES; i++) {
        dst[i] = value_of(src[1 + i]) * factor;
    }
}

#endif

void TTI_ISA_NAME(tti_f32_to_fp8)(void *dst, const float *src, size_t count)
{
    uint8_t *to = dst;
    while (count >= VALUES) {
        const size_t blocks = count / VALUES < AHEAD ? count / VALUES : AHEAD;
        int32_t largest[AHEAD];
        for (size_t i = 0; i < blocks; i++) {
            largest[i] = largest_of(src + i * VALUES);
        }
        for (size_t i = 0; i < blocks; i++) {
            pack_block(to + i * BLOCK_BYTES, src + i * VALUES, largest[i]);
        }
        to += blocks * BLOCK_BYTES;
        src += blocks * VALUES;
        count -= blocks * VALUES;
    }
    if (count > 0) {
        float values[VALUES] = {0};
        uint8_t block[BLOCK_BYTES];
        memcpy(values, src, count * sizeof(*src));
        pack_block(block, values, largest_of(values));
        memcpy(to, block, 1 + count);
    }
}

void TTI_ISA_NAME(tti_fp8_to_f32)(float *dst, const void *src, size_t count)
{
    const uint8_t *from = src;
    for (; count >= VALUES; count -= VALUES, dst += VALUES, from += BLOCK_BYTES) {
        unpack_block(dst, from);
    }
    if (count > 0) {
        float values[VALUES];
        uint8_t block[BLOCK_BYTES] = {0};
        memcpy(block, from, 1 + count);
        unpack_block(values, block);
        memcpy(dst, values, count * sizeof(*dst));
    }
}

static void widen_tile(float *tile, const void *src, size_t count)
{
    TTI_ISA_NAME(tti_fp8_to_f32)(tile, src, count);
}

static void narrow_tile(void *dst, const float *tile, size_t count)
{
    TTI_ISA_NAME(tti_f32_to_fp8)(dst, tile, count);
}

void TTI_ISA_NAME(tti_fold_fp8)(void *dst, const void *const *src, size_t n, size_t count, tutti_reduce_op op)
{
    static const struct staged_format format = {
        .tile_bytes = STAGED_TILE / VALUES * BLOCK_BYTES, .widen = widen_tile, .narrow = narrow_tile};
    staged_run(dst, src, n, count, op, NULL, &format);
}
