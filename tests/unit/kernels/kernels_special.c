/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/*
 * Numbers where kernels go wrong: every code of the narrow floats, halfway cases, NaN, infinity, the sign of zero,
 * subnormals and overflow, extreme integers. Expected values are written out where the reference could share a mistake.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels_inputs.h"
#include "kernels_reference.h"

enum { CODES = 65536 };

static uint16_t left[CODES];
static uint16_t right[CODES];
static uint16_t result[CODES];

/* One element through every instruction set; all must agree. */
static uint64_t fold_one(tutti_dtype dtype, tutti_reduce_op op, const uint64_t *x, size_t n, const double *scales)
{
    const struct tti_fold_table *tables[3];
    const size_t table_count = usable_tables(tables);
    const void *src[8];
    uint64_t first = 0;
    for (size_t k = 0; k < n; k++) {
        src[k] = &x[k];
    }
    for (size_t t = 0; t < table_count; t++) {
        uint64_t out = 0;
        tables[t]->ops[dtype][op](&out, src, n, 1, scales);
        if (t == 0) {
            first = out;
        }
        assert_int_equal(out, first);
    }
    return first;
}

static uint64_t fold_two(tutti_dtype dtype, tutti_reduce_op op, uint64_t a, uint64_t b)
{
    const uint64_t x[2] = {a, b};
    return fold_one(dtype, op, x, 2, NULL);
}

/* The fold of `left` and, with n == 2, `right`, on every set, against the reference. */
static void check_codes(tutti_dtype dtype, tutti_reduce_op op, size_t n, size_t count, const double *scales)
{
    const struct tti_fold_table *tables[3];
    const size_t table_count = usable_tables(tables);
    const size_t size = tutti_dtype_size(dtype);
    const void *src[2] = {left, right};
    for (size_t t = 0; t < table_count; t++) {
        tables[t]->ops[dtype][op](result, src, n, count, scales);
        for (size_t i = 0; i < count; i++) {
            const uint64_t x[2] = {load_element(left, i, size), load_element(right, i, size)};
            const uint64_t wanted = reference_fold(dtype, op, x, n, scales);
            if (wanted != load_element(result, i, size)) {
                fail_msg("%s %s on %s of 0x%llx, 0x%llx: wanted 0x%llx, got 0x%llx", tutti_dtype_name(dtype),
                         tutti_reduce_op_name(op), tables[t]->isa, (unsigned long long)x[0], (unsigned long long)x[1],
                         (unsigned long long)wanted, (unsigned long long)load_element(result, i, size));
            }
        }
    }
}

/* One source comes back as it is, but for NaN: widening and narrowing are inverse for every code. */
static void test_round_trip(void **unused)
{
    (void)unused;
    for (tutti_dtype dtype = TUTTI_F16; dtype <= TUTTI_F8_E5M2; dtype++) {
        const size_t size = tutti_dtype_size(dtype);
        const size_t codes = size == 1 ? 256 : CODES;
        const uint64_t sign = codes / 2;
        for (size_t i = 0; i < codes; i++) {
            store_element(left, i, size, i);
        }
        check_codes(dtype, TUTTI_SUM, 1, codes, NULL);
        for (size_t i = 0; i < codes; i++) {
            const bool is_nan = (i & (sign - 1)) > formats[dtype].finite ||
                                (!formats[dtype].has_infinity && (i & (sign - 1)) == formats[dtype].finite);
            assert_int_equal(load_element(result, i, size), is_nan ? formats[dtype].nan : i);
        }
    }
}

static void test_all_pairs_of_fp8(void **unused)
{
    (void)unused;
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_PRODUCT, TUTTI_MIN, TUTTI_MAX, TUTTI_AVG};
    uint8_t *a = (uint8_t *)left;
    uint8_t *b = (uint8_t *)right;
    for (size_t i = 0; i < CODES; i++) {
        a[i] = (uint8_t)(i >> 8);
        b[i] = (uint8_t)i;
    }
    for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
        check_codes(TUTTI_F8_E4M3, ops[o], 2, CODES, NULL);
        check_codes(TUTTI_F8_E5M2, ops[o], 2, CODES, NULL);
    }
}

/* Every 16-bit code with partners that make halfway cases, overflow and subnormals; and scaled by factors that do. */
static void test_all_codes_of_16_bits(void **unused)
{
    (void)unused;
    static const tutti_reduce_op ops[] = {TUTTI_SUM, TUTTI_PRODUCT, TUTTI_MIN, TUTTI_MAX, TUTTI_AVG};
    static const double factors[] = {0.5, 1.5, 0.75, 1.0 / 3, 0x1p-7, 0x1.8p-10, 0x1p9, -0x1.002p0, 0x1p-130, 1e300};
    static const uint16_t partners[] = {0x0001, 0x8001, 0x03ff, 0x0400, 0x0080, 0x3c00, 0x3f80, 0x7bff, 0x7f7f, 0xfc00};
    for (size_t i = 0; i < CODES; i++) {
        left[i] = (uint16_t)i;
    }
    for (tutti_dtype dtype = TUTTI_F16; dtype <= TUTTI_BF16; dtype++) {
        for (size_t p = 0; p < sizeof(partners) / sizeof(partners[0]); p++) {
            for (size_t i = 0; i < CODES; i++) {
                right[i] = partners[p];
            }
            check_codes(dtype, ops[p % 5], 2, CODES, NULL);
            check_codes(dtype, TUTTI_SUM, 2, CODES, NULL);
        }
        for (size_t f = 0; f < sizeof(factors) / sizeof(factors[0]); f++) {
            check_codes(dtype, TUTTI_PREMUL_SUM, 1, CODES, &factors[f]);
        }
    }
}

static void test_minimum_and_maximum(void **unused)
{
    (void)unused;
    /* +0, -0, 1, a quiet and a signalling NaN with payloads and signs, canonical NaN; by dtype */
    static const struct {
        tutti_dtype dtype;
        uint64_t zero, minus_zero, one, quiet, signalling, canonical;
    } rows[] = {
        {TUTTI_F64, 0, UINT64_C(1) << 63, UINT64_C(0x3ff0000000000000), UINT64_C(0xfff8000000000123),
         UINT64_C(0x7ff0000000000001), UINT64_C(0x7ff8000000000000)},
        {TUTTI_F32, 0, 0x80000000u, 0x3f800000u, 0xffc00123u, 0x7f800001u, 0x7fc00000u},
        {TUTTI_F16, 0, 0x8000, 0x3c00, 0xfe12, 0x7c01, 0x7e00},
        {TUTTI_BF16, 0, 0x8000, 0x3f80, 0xffc1, 0x7f81, 0x7fc0},
        {TUTTI_F8_E4M3, 0, 0x80, 0x38, 0xff, 0x7f, 0x7f},
        {TUTTI_F8_E5M2, 0, 0x80, 0x3c, 0xff, 0x7d, 0x7e},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const tutti_dtype d = rows[i].dtype;
        assert_int_equal(fold_two(d, TUTTI_MIN, rows[i].zero, rows[i].minus_zero), rows[i].minus_zero);
        assert_int_equal(fold_two(d, TUTTI_MIN, rows[i].minus_zero, rows[i].zero), rows[i].minus_zero);
        assert_int_equal(fold_two(d, TUTTI_MAX, rows[i].zero, rows[i].minus_zero), rows[i].zero);
        assert_int_equal(fold_two(d, TUTTI_MAX, rows[i].minus_zero, rows[i].zero), rows[i].zero);
        assert_int_equal(fold_two(d, TUTTI_MIN, rows[i].one, rows[i].zero), rows[i].zero);
        assert_int_equal(fold_two(d, TUTTI_MAX, rows[i].zero, rows[i].one), rows[i].one);
        const uint64_t nans[] = {rows[i].quiet, rows[i].signalling};
        for (size_t k = 0; k < 2; k++) {
            for (tutti_reduce_op op = TUTTI_SUM; op <= TUTTI_AVG; op++) {
                assert_int_equal(fold_two(d, op, nans[k], rows[i].one), rows[i].canonical);
                assert_int_equal(fold_two(d, op, rows[i].one, nans[k]), rows[i].canonical);
                assert_int_equal(fold_one(d, op, &nans[k], 1, NULL), rows[i].canonical);
            }
        }
    }
}

static void test_overflow_and_rounding(void **unused)
{
    (void)unused;
    /* f16: 65504 + 16 is halfway to 65536 and goes to even, infinity; + 15.99 stays. AVG does not overflow. */
    assert_int_equal(fold_two(TUTTI_F16, TUTTI_SUM, 0x7bff, 0x4c00), 0x7c00);
    assert_int_equal(fold_two(TUTTI_F16, TUTTI_SUM, 0x7bff, 0x4bff), 0x7bff);
    assert_int_equal(fold_two(TUTTI_F16, TUTTI_AVG, 0x7bff, 0x7bff), 0x7bff);
    /* e4m3: 448 + 16 is halfway to 480 and goes to even, 448; 448 + 18 becomes NaN, also negative; no infinity. */
    assert_int_equal(fold_two(TUTTI_F8_E4M3, TUTTI_SUM, 0x7e, 0x58), 0x7e);
    assert_int_equal(fold_two(TUTTI_F8_E4M3, TUTTI_SUM, 0x7e, 0x59), 0x7f);
    assert_int_equal(fold_two(TUTTI_F8_E4M3, TUTTI_SUM, 0xfe, 0xd9), 0x7f);
    assert_int_equal(fold_two(TUTTI_F8_E4M3, TUTTI_PRODUCT, 0x7e, 0x7e), 0x7f);
    assert_int_equal(fold_two(TUTTI_F8_E4M3, TUTTI_AVG, 0x7e, 0x7e), 0x7e);
    /* e5m2: 57344 + 4096 is halfway to 65536 and goes to infinity; the sign stays. */
    assert_int_equal(fold_two(TUTTI_F8_E5M2, TUTTI_SUM, 0x7b, 0x6c), 0x7c);
    assert_int_equal(fold_two(TUTTI_F8_E5M2, TUTTI_SUM, 0xfb, 0xec), 0xfc);
    assert_int_equal(fold_two(TUTTI_F8_E5M2, TUTTI_SUM, 0x7b, 0x68), 0x7b);
    /* bf16: 1 + 2^-8 is halfway and goes to even, 1; infinity - infinity is NaN. */
    assert_int_equal(fold_two(TUTTI_BF16, TUTTI_SUM, 0x3f80, 0x3b80), 0x3f80);
    assert_int_equal(fold_two(TUTTI_BF16, TUTTI_SUM, 0x3f81, 0x3b80), 0x3f82);
    assert_int_equal(fold_two(TUTTI_BF16, TUTTI_SUM, 0x7f80, 0xff80), 0x7fc0);
    /* Rounded once: 1 + 2^-8 + 2^-8 in bf16 is 1 + 2^-7, where rounding each step would give 1. */
    const uint64_t once[3] = {0x3f80, 0x3b80, 0x3b80};
    assert_int_equal(fold_one(TUTTI_BF16, TUTTI_SUM, once, 3, NULL), 0x3f81);
    /* AVG divides: 7/3 by division, not by multiplication with a reciprocal (f32: 0x40155555). */
    const uint64_t sevenths[3] = {0x40400000, 0x40000000, 0x40000000};
    assert_int_equal(fold_one(TUTTI_F32, TUTTI_AVG, sevenths, 3, NULL), 0x40155555);
    /* Exactly halfway after the division, beside it after a multiplication with the reciprocal. */
    const uint64_t halfway_f16[7] = {0x4800, 0x3d5d, 0x1000};
    assert_int_equal(fold_one(TUTTI_F16, TUTTI_AVG, halfway_f16, 7, NULL), 0x3d56);
    const uint64_t halfway_e4m3[7] = {0x50, 0x40, 0x30, 0x28, 0x20, 0x18};
    assert_int_equal(fold_one(TUTTI_F8_E4M3, TUTTI_AVG, halfway_e4m3, 7, NULL), 0x3c);
    /* Subnormals survive: f32 2^-149 + 2^-149, and bf16's smallest twice. */
    assert_int_equal(fold_two(TUTTI_F32, TUTTI_SUM, 1, 1), 2);
    assert_int_equal(fold_two(TUTTI_BF16, TUTTI_SUM, 1, 1), 2);
    assert_int_equal(fold_two(TUTTI_F64, TUTTI_AVG, 2, 2), 2);
}

static void test_integers(void **unused)
{
    (void)unused;
    assert_int_equal(fold_two(TUTTI_I32, TUTTI_SUM, 0x7fffffffu, 1), 0x80000000u);
    assert_int_equal(fold_two(TUTTI_U16, TUTTI_PRODUCT, 0xffff, 0xffff), 1);
    assert_int_equal(fold_two(TUTTI_I8, TUTTI_AVG, 0x80, 0x81), 0x81); /* (-128 - 127) / 2 = -127.5 -> -127 */
    assert_int_equal(fold_two(TUTTI_I8, TUTTI_AVG, 0x7f, 0x7e), 0x7e); /* 126.5 -> 126 */
    assert_int_equal(fold_two(TUTTI_U8, TUTTI_AVG, 0xff, 0xff), 0xff);
    assert_int_equal(fold_two(TUTTI_I64, TUTTI_MIN, UINT64_C(1) << 63, 0), UINT64_C(1) << 63);
    assert_int_equal(fold_two(TUTTI_U64, TUTTI_MIN, UINT64_C(1) << 63, 0), 0);
    assert_int_equal(fold_two(TUTTI_I16, TUTTI_LAND, 0x100, 0x2), 1);
    assert_int_equal(fold_two(TUTTI_I16, TUTTI_LOR, 0, 0), 0);
    assert_int_equal(fold_two(TUTTI_BOOL, TUTTI_SUM, 0x80, 0x80), 1);
    assert_int_equal(fold_two(TUTTI_BOOL, TUTTI_BXOR, 0x80, 0x01), 0);
    assert_int_equal(fold_two(TUTTI_BOOL, TUTTI_PRODUCT, 0x02, 0x01), 1);
    /* Factors outside an integer's range are defined: modulo 2^64, and 0 for NaN and infinity. */
    const uint64_t one = 1;
    static const struct {
        double factor;
        uint64_t wanted;
    } rows[] = {{-1, UINT64_MAX},
                {0x1p63, UINT64_C(1) << 63},
                {0x1.8p64, UINT64_C(1) << 63},
                {0x1p200, 0},
                {INFINITY, 0},
                {NAN, 0},
                {0, 0},
                {2.9, 2},
                {-2.9, UINT64_MAX - 1}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(fold_one(TUTTI_U64, TUTTI_PREMUL_SUM, &one, 1, &rows[i].factor), rows[i].wanted);
        assert_int_equal(fold_one(TUTTI_I64, TUTTI_PREMUL_SUM, &one, 1, &rows[i].factor), rows[i].wanted);
    }
}

int main(void)
{
    reference_setup();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_all_pairs_of_fp8),
        cmocka_unit_test(test_all_codes_of_16_bits),
        cmocka_unit_test(test_minimum_and_maximum),
        cmocka_unit_test(test_overflow_and_rounding),
        cmocka_unit_test(test_integers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
