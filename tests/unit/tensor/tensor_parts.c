/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* Sizes and places of parts, with and without counts, displacements and rows. */
#include "tensor/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

enum { RANKS = 3 };

static const int64_t counts[RANKS] = {2, 0, 5};
static const int64_t places[RANKS] = {6, 1, 0};

static const tutti_parts even = {.outer = 4, .pitch = 100, .unit = 8, .each = 3};
static const tutti_parts uneven = {.outer = 4, .pitch = 100, .unit = 8, .counts = counts};
static const tutti_parts placed = {.outer = 4, .pitch = 100, .unit = 8, .counts = counts, .displacements = places};

static void bytes_count_all_rows(void **state)
{
    (void)state;
    assert_int_equal(tti_parts_width(&even, 2), 24);
    assert_int_equal(tti_parts_bytes(&even, 2), 96);
    assert_int_equal(tti_parts_total(&even, RANKS), 288);
    static const size_t widths[RANKS] = {16, 0, 40};
    for (int32_t r = 0; r < RANKS; r++) {
        assert_int_equal(tti_parts_width(&uneven, r), widths[r]);
        assert_int_equal(tti_parts_bytes(&placed, r), 4 * widths[r]);
    }
    assert_int_equal(tti_parts_total(&uneven, 2), 64);
    assert_int_equal(tti_parts_total(&placed, RANKS), 224);
    assert_int_equal(tti_parts_total(&uneven, 0), 0);
}

static void without_rows_there_are_no_bytes(void **state)
{
    (void)state;
    tutti_parts none = uneven;
    none.outer = 0;
    assert_int_equal(tti_parts_width(&none, 2), 0);
    assert_int_equal(tti_parts_bytes(&none, 2), 0);
    assert_int_equal(tti_parts_total(&none, RANKS), 0);
}

static void parts_follow_one_another_unless_placed(void **state)
{
    (void)state;
    assert_int_equal(tti_parts_offset(&even, 2), 48);
    assert_int_equal(tti_parts_offset(&uneven, 2), 16);
    assert_int_equal(tti_parts_offset(&placed, 0), 48);
    assert_int_equal(tti_parts_offset(&placed, 2), 0);
}

static void a_run_ends_with_its_row(void **state)
{
    (void)state;
    const unsigned char joined[400] = {0};
    size_t n = 30;
    assert_ptr_equal(tti_parts_at(&even, 1, joined, 50, &n), joined + 24 + 2 * 100 + 2);
    assert_int_equal(n, 22);
    n = 5;
    assert_ptr_equal(tti_parts_at(&even, 1, joined, 50, &n), joined + 24 + 2 * 100 + 2);
    assert_int_equal(n, 5);
    tutti_parts one_row = placed;
    one_row.outer = 1;
    n = 33;
    assert_ptr_equal(tti_parts_at(&one_row, 2, joined, 7, &n), joined + 7);
    assert_int_equal(n, 33);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_count_all_rows),
        cmocka_unit_test(without_rows_there_are_no_bytes),
        cmocka_unit_test(parts_follow_one_another_unless_placed),
        cmocka_unit_test(a_run_ends_with_its_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
