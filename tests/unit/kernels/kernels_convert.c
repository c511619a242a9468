/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/*
 * f32 to bf16 and to blocks of fp8 and back, with every instruction set: numbers whose results are written out, then
 * many by chance against the reference, at every length and alignment in which a vector loop has a rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "fp8_reference.h"
#include "kernels/wire_format.h"
#include "kernels_inputs.h"
#include "kernels_reference.h"

static float f32_from(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof(x));
    return x;
}

/* NaN, infinity, zeros, subnormals, overflow, and ties to even. */
static const struct {
    uint32_t from;
    uint16_t to;
} rows[] = {
    {0x00000000, 0x0000}, {0x80000000, 0x8000},                                             /* zeros keep their sign */
    {0x7f800000, 0x7f80}, {0xff800000, 0xff80},                                             /* infinities */
    {0x7fc00000, 0x7fc0}, {0x7f800001, 0x7fc0}, {0xffc12345, 0x7fc0}, {0xffffffff, 0x7fc0}, /* NaNs become one */
    {0x7f7f0000, 0x7f7f}, {0x7f7f7fff, 0x7f7f}, {0x7f7f8000, 0x7f80}, {0x7f7fffff, 0x7f80}, /* the largest */
    {0xff7fffff, 0xff80}, {0x3f808000, 0x3f80}, {0x3f818000, 0x3f82}, {0x3f807fff, 0x3f80},
    {0x3f808001, 0x3f81}, /* ties */
    {0xbf808000, 0xbf80}, {0xbf818000, 0xbf82}, {0x00000001, 0x0000}, {0x00008000, 0x0000},
    {0x00008001, 0x0001}, {0x00010000, 0x0001}, /* subnormals */
    {0x00018000, 0x0002}, {0x007f8000, 0x0080}, {0x80008001, 0x8001}, {0x007fffff, 0x0080},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]), MOST = 300 };

static void test_written_out(void **state)
{
    (void)state;
    const struct tti_fold_table *tables[3];
    const size_t count = usable_tables(tables);
    for (size_t t = 0; t < count; t++) {
        float from[ROWS];
        uint16_t to[ROWS];
        for (size_t i = 0; i < ROWS; i++) {
            from[i] = f32_from(rows[i].from);
        }
        tables[t]->narrow_bf16(to, from, ROWS);
        for (size_t i = 0; i < ROWS; i++) {
            uint16_t one;
            tables[t]->narrow_bf16(&one, &from[i], 1);
            assert_int_equal(to[i], rows[i].to);
            assert_int_equal(one, rows[i].to);
        }
    }
}

static void test_all_codes(void **state)
{
    (void)state;
    static uint16_t codes[65536];
    static uint16_t again[65536];
    static float wide[65536];
    const struct tti_fold_table *tables[3];
    const size_t count = usable_tables(tables);
    for (size_t t = 0; t < count; t++) {
        for (uint32_t i = 0; i < 65536; i++) {
            codes[i] = (uint16_t)i;
        }
        tables[t]->widen_bf16(wide, codes, 65536);
        tables[t]->narrow_bf16(again, wide, 65536);
        for (uint32_t i = 0; i < 65536; i++) {
            uint32_t bits;
            memcpy(&bits, &wide[i], sizeof(bits));
            assert_int_equal(bits, i << 16);
            assert_int_equal(again[i], (i & 0x7fff) > 0x7f80 ? 0x7fc0 : i);
        }
    }
}

static void test_by_chance(void **state)
{
    (void)state;
    uint64_t random = 7;
    const struct tti_fold_table *tables[3];
    const size_t count = usable_tables(tables);
    for (size_t n = 0; n <= MOST; n++) {
        float from[MOST + 1];
        for (size_t i = 0; i <= MOST; i++) {
            from[i] = f32_from((uint32_t)random_element(TUTTI_F32, &random));
        }
        const float *begin = from + n % 2;
        const size_t length = n < MOST ? n : MOST;
        for (size_t t = 0; t < count; t++) {
            uint16_t to[MOST + 2];
            memset(to, 0x11, sizeof(to));
            tables[t]->narrow_bf16(to + 1, begin, length);
            for (size_t i = 0; i < length; i++) {
                assert_int_equal(to[1 + i], reference_encode(&formats[TUTTI_BF16], (double)begin[i]));
            }
            assert_int_equal(to[0], 0x1111);
            assert_int_equal(to[1 + length], 0x1111); /* nothing is written behind */
        }
    }
}

/* ---- fp8 in blocks ---- */

/* One value in a block whose largest is `largest`, and the codes of the two. */
static const struct {
    uint32_t value;
    uint32_t largest;
    uint8_t scale;
    uint8_t code;
    uint8_t code_of_largest;
} blocks[] = {
    {0x00000000, 0x00000000, 0, 0x00, 0x00}, /* zeros keep their sign */
    {0x80000000, 0x80000000, 0, 0x80, 0x80},
    {0x3f800000, 0x43d00000, 127, 0x38, 0x7d}, /* 1 beside 416: nothing is scaled */
    {0x3f800000, 0x43d00001, 128, 0x30, 0x75}, /* ... beside a little more, which rounds to 208 twice */
    {0xbf880000, 0x43d00000, 127, 0xb8, 0x7d}, /* 1.0625 is halfway to 1.125: to even */
    {0x3f980000, 0x43d00000, 127, 0x3a, 0x7d}, /* 1.1875, to 1.25 */
    {0x3f980001, 0x43d00000, 127, 0x3a, 0x7d},
    {0x3f97ffff, 0x43d00000, 127, 0x39, 0x7d},
    {0x3b000000, 0x43d00000, 127, 0x01, 0x7d}, /* 2^-9, the smallest code */
    {0x3a800000, 0x43d00000, 127, 0x00, 0x7d}, /* its half, to even */
    {0x3a800001, 0x43d00000, 127, 0x01, 0x7d},
    {0x3c700000, 0x43d00000, 127, 0x08, 0x7d}, /* 7.5 of it: up to a normal number */
    {0x7f800000, 0x43d00000, 127, 0x7e, 0x7d}, /* infinities and NaNs have no part in the scale */
    {0xff800000, 0x43d00000, 127, 0xfe, 0x7d},
    {0x7fc00000, 0x43d00000, 127, 0x7f, 0x7d},
    {0xff800001, 0x43d00000, 127, 0x7f, 0x7d},
    {0xffffffff, 0x7f800000, 0, 0x7f, 0x7e},
    {0x7f7fffff, 0x7f7fffff, 247, 0x78, 0x78}, /* the largest f32 rounds to 2^128, which is infinite */
    {0x7f77ffff, 0x7f7fffff, 247, 0x77, 0x78}, /* the largest that does not */
    {0x00000001, 0x00000001, 0, 0x00, 0x00},   /* subnormals: 2^-149 is nothing, 2^-136 the smallest code */
    {0x00002000, 0x00002000, 0, 0x01, 0x01},
    {0x80003000, 0x00006000, 0, 0x82, 0x03},
};
enum { BLOCKS = sizeof(blocks) / sizeof(blocks[0]) };

static void test_fp8_written_out(void **state)
{
    (void)state;
    const struct tti_fold_table *tables[3];
    const size_t count = usable_tables(tables);
    for (size_t t = 0; t < count; t++) {
        for (size_t b = 0; b < BLOCKS; b++) {
            for (size_t at = 0; at < TTI_FP8_BLOCK; at++) {
                float from[TTI_FP8_BLOCK] = {0};
                uint8_t to[1 + TTI_FP8_BLOCK];
                from[at] = f32_from(blocks[b].value);
                from[(at + 5) % TTI_FP8_BLOCK] = f32_from(blocks[b].largest);
                tables[t]->pack_fp8(to, from, TTI_FP8_BLOCK);
                assert_int_equal(to[0], blocks[b].scale);
                assert_int_equal(to[1 + at], blocks[b].code);
                assert_int_equal(to[1 + (at + 5) % TTI_FP8_BLOCK], blocks[b].code_of_largest);
            }
        }
    }
}

/* Every scale with every code: all sets unpack the same, and packing what was unpacked changes no finite value. */
static void test_fp8_all_codes(void **state)
{
    (void)state;
    const struct tti_fold_table *tables[3];
    const size_t count = usable_tables(tables);
    for (int scale = 0; scale <= 247; scale++) {
        for (uint32_t first = 0; first < 256; first += TTI_FP8_BLOCK) {
            uint8_t packed[1 + TTI_FP8_BLOCK] = {(uint8_t)scale};
            for (uint32_t i = 0; i < TTI_FP8_BLOCK; i++) {
                packed[1 + i] = (uint8_t)(first + i);
            }
            for (size_t t = 0; t < count; t++) {
                float wide[TTI_FP8_BLOCK];
                float again[TTI_FP8_BLOCK];
                uint8_t repacked[1 + TTI_FP8_BLOCK];
                tables[t]->unpack_fp8(wide, packed, TTI_FP8_BLOCK);
                tables[t]->pack_fp8(repacked, wide, TTI_FP8_BLOCK);
                tables[t]->unpack_fp8(again, repacked, TTI_FP8_BLOCK);
                for (uint32_t i = 0; i < TTI_FP8_BLOCK; i++) {
                    const uint32_t code = packed[1 + i] & 0x7f;
                    const double magnitude = code < 8 ? ldexp(code, -9) : ldexp(8 + (code & 7), (int)(code >> 3) - 10);
                    const double sign = packed[1 + i] & 0x80 ? -1 : 1;
                    const float wanted = (float)(sign * ldexp(magnitude, scale - 127));
                    if (code == 0x7f) {
                        uint32_t bits;
                        memcpy(&bits, &wide[i], sizeof(bits));
                        assert_int_equal(bits, 0x7fc00000);
                    } else {
                        assert_true(code == 0x7e ? isinf(wide[i]) && (wide[i] < 0) == (sign < 0)
                                                 : memcmp(&wide[i], &wanted, sizeof(wanted)) == 0);
                    }
                    assert_memory_equal(&again[i], &wide[i], sizeof(wide[i]));
                }
            }
        }
    }
}

/* Blocks of any bits, and of numbers of about one size, from the smallest to the largest. */
static void fill(float *to, size_t count, size_t round, uint64_t *random)
{
    for (size_t i = 0; i < count; i++) {
        to[i] = f32_from((uint32_t)random_element(TUTTI_F32, random));
        if (round % 4 != 0) {
            const int exponent = (int)((round * 37) % 278) - 149 - (int)(next_random(random) % 24);
            const float mantissa = (float)(1 + (double)(next_random(random) % 4096) / 4096);
            to[i] = ldexpf(next_random(random) % 2 ? mantissa : -mantissa, exponent);
        }
    }
}

static void test_fp8_by_chance(void **state)
{
    (void)state;
    enum { SOURCES = 3, BYTES = MOST + MOST / TTI_FP8_BLOCK + 1 };
    uint64_t random = 11;
    const struct tti_fold_table *tables[3];
    const size_t count = usable_tables(tables);
    for (size_t n = 0; n <= 2 * MOST; n++) {
        const size_t length = n < MOST ? n : MOST - n % 40;
        const size_t bytes = length + (length + TTI_FP8_BLOCK - 1) / TTI_FP8_BLOCK;
        float from[SOURCES][MOST + 1];
        float wanted[SOURCES][MOST + 1];
        float sum[MOST + 1] = {0};
        float mean[MOST + 1];
        for (int k = 0; k < SOURCES; k++) {
            fill(from[k], MOST + 1, n, &random);
            memcpy(wanted[k], from[k] + n % 2, length * sizeof(float));
            fp8_round(wanted[k], length);
            for (size_t i = 0; i < length; i++) {
                sum[i] = k == 0 ? wanted[k][i] : sum[i] + wanted[k][i];
            }
        }
        for (size_t i = 0; i < length; i++) {
            mean[i] = sum[i] / (float)SOURCES;
        }
        fp8_round(sum, length);
        fp8_round(mean, length);
        for (size_t t = 0; t < count; t++) {
            uint8_t packed[SOURCES][BYTES + 2];
            uint8_t folded[BYTES + 2];
            float back[MOST + 2];
            const void *sources[SOURCES];
            for (int k = 0; k < SOURCES; k++) {
                memset(packed[k], 0x11, sizeof(packed[k]));
                memset(back, 0x11, sizeof(back));
                tables[t]->pack_fp8(packed[k] + 1, from[k] + n % 2, length);
                assert_int_equal(packed[k][0], 0x11);
                assert_int_equal(packed[k][1 + bytes], 0x11); /* nothing is written behind */
                tables[t]->unpack_fp8(back + 1, packed[k] + 1, length);
                for (size_t i = 0; i < length; i++) {
                    assert_true(isnan(wanted[k][i]) ? isnan(back[1 + i])
                                                    : memcmp(&back[1 + i], &wanted[k][i], sizeof(float)) == 0);
                }
                uint32_t behind;
                memcpy(&behind, &back[1 + length], sizeof(behind));
                assert_int_equal(behind, 0x11111111);
                sources[k] = packed[k] + 1;
            }
            for (int average = 0; average < 2; average++) {
                const float *expected = average ? mean : sum;
                memset(folded, 0x11, sizeof(folded));
                tables[t]->fold_fp8(folded + 1, sources, SOURCES, length, average ? TUTTI_AVG : TUTTI_SUM);
                tables[t]->unpack_fp8(back, folded + 1, length);
                for (size_t i = 0; i < length; i++) {
                    assert_true(isnan(expected[i]) ? isnan(back[i])
                                                   : memcmp(&back[i], &expected[i], sizeof(float)) == 0);
                }
                assert_int_equal(folded[1 + bytes], 0x11);
            }
        }
    }
}

/* The caller's environment does not count: here it flushes subnormals and rounds down. */
static void test_environment(void **state)
{
    (void)state;
    const struct tti_wire_format *const bf16 = tti_wire_format(TUTTI_WIRE_BF16);
    const struct tti_wire_format *const fp8 = tti_wire_format(TUTTI_WIRE_FP8);
    const float from[3] = {f32_from(0x00018000), f32_from(0x3f818000), f32_from(0x7f800001)};
    const float tiny[3] = {f32_from(0x00003000), f32_from(0x80006000), f32_from(0x00006000)};
    uint16_t to[3];
    float back[3];
    uint8_t packed[4];
    uint8_t doubled[4];
    float tiny_back[3];
#if defined(__x86_64__)
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0xbfc0);
#endif
    tti_wire_pack(bf16, to, from, 3, TUTTI_SUM, 1);
    tti_wire_unpack(bf16, back, to, 3);
    tti_wire_pack(fp8, packed, tiny, 3, TUTTI_SUM, 1);
    tti_wire_pack(fp8, doubled, tiny, 3, TUTTI_PREMUL_SUM, 2);
    tti_wire_unpack(fp8, tiny_back, packed, 3);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(before);
#endif
    assert_int_equal(to[0], 0x0002);
    assert_int_equal(to[1], 0x3f82);
    assert_int_equal(to[2], 0x7fc0);
    const uint32_t wanted[3] = {0x00020000, 0x3f820000, 0x7fc00000};
    assert_memory_equal(back, wanted, sizeof(wanted));
    static const uint8_t codes[4] = {0, 0x02, 0x83, 0x03}; /* 1.5 and 3 times 2^-136 */
    static const uint8_t twice[4] = {0, 0x03, 0x86, 0x06};
    assert_memory_equal(packed, codes, sizeof(codes));
    assert_memory_equal(doubled, twice, sizeof(twice));
    const uint32_t wide[3] = {0x00004000, 0x80006000, 0x00006000};
    assert_memory_equal(tiny_back, wide, sizeof(wide));
}

static void test_bytes(void **state)
{
    (void)state;
    const struct tti_wire_format *const bf16 = tti_wire_format(TUTTI_WIRE_BF16);
    const struct tti_wire_format *const fp8 = tti_wire_format(TUTTI_WIRE_FP8);
    assert_null(tti_wire_format(TUTTI_WIRE_FULL));
    assert_null(tti_wire_format(-1));
    assert_null(tti_wire_format(3));
    assert_int_equal(tti_wire_bytes(bf16, 33), 66);
    assert_int_equal(tti_wire_bytes(fp8, 0), 0);
    assert_int_equal(tti_wire_bytes(fp8, 1), 2);
    assert_int_equal(tti_wire_bytes(fp8, 32), 33);
    assert_int_equal(tti_wire_bytes(fp8, 33), 35);
}

int main(void)
{
    reference_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_out),   cmocka_unit_test(test_all_codes),
        cmocka_unit_test(test_by_chance),     cmocka_unit_test(test_fp8_written_out),
        cmocka_unit_test(test_fp8_all_codes), cmocka_unit_test(test_fp8_by_chance),
        cmocka_unit_test(test_environment),   cmocka_unit_test(test_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
