/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* Sets of CPUs from and to the kernel's notation. */
#include "base/host/cpu_set.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void expect(const char *text, const char *printed, size_t count)
{
    struct tti_cpus cpus;
    char again[32];
    assert_true(tti_cpus_parse(text, &cpus));
    assert_int_equal(tti_cpus_count(&cpus), count);
    tti_cpus_format(&cpus, again, sizeof(again));
    assert_string_equal(again, printed);
}

static void lists_are_read(void **state)
{
    (void)state;
    expect("7", "7", 1);
    expect("0-3,8\n", "0-3,8", 5);
    expect("5,3-4,65535", "3-5,65535", 4);
    expect("2-2", "2", 1);
}

static void anything_else_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"",    "\n", ",",  "1,", "1,\n", "1\n\n", "1\n2",
                                        "3-1", "-1", "1-", "1 ", "a",    "65536"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct tti_cpus cpus;
        assert_false(tti_cpus_parse(wrong[i], &cpus));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_read),
        cmocka_unit_test(anything_else_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
