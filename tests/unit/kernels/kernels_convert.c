/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/*
 * f32 to bf16 and back, with every instruction set: numbers whose results are written out, then many by chance against
 * the reference, at every length and alignment in which a vector loop has a rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

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

/* The caller's environment does not count: here it flushes subnormals and rounds down. */
static void test_environment(void **state)
{
    (void)state;
#if defined(__x86_64__)
    const unsigned before = __builtin_ia32_stmxcsr();
    __builtin_ia32_ldmxcsr(0xbfc0);
#endif
    const float from[3] = {f32_from(0x00018000), f32_from(0x3f818000), f32_from(0x7f800001)};
    uint16_t to[3];
    float back[3];
    tti_narrow_bf16(to, from, 3);
    tti_widen_bf16(back, to, 3);
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(before);
#endif
    assert_int_equal(to[0], 0x0002);
    assert_int_equal(to[1], 0x3f82);
    assert_int_equal(to[2], 0x7fc0);
    const uint32_t wanted[3] = {0x00020000, 0x3f820000, 0x7fc00000};
    assert_memory_equal(back, wanted, sizeof(wanted));
}

int main(void)
{
    reference_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_out),
        cmocka_unit_test(test_all_codes),
        cmocka_unit_test(test_by_chance),
        cmocka_unit_test(test_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
