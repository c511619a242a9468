/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: trees=release,debug,address,undefined */
/* What the ranks of several hosts and control groups want together, against what each of these has left. */
#include "base/memory_requests.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 4 };

static struct tti_memory_request wanted[RANKS];
static tutti_error error;

/* Ranks 0 and 2 are on one host, 1 and 3 on another one. The control groups of both hosts have the same path. */
static int all_fit(void **state)
{
    (void)state;
    for (int32_t r = 0; r < RANKS; r++) {
        wanted[r] = (struct tti_memory_request){
            .bytes = 10, .available = {.host = 20, .limit = UINT64_MAX, .machine = (uint64_t)r % 2, .cgroup = 7}};
    }
    return 0;
}

static tutti_status check(void)
{
    return tti_memory_requests_check(wanted, sizeof(wanted[0]), RANKS, &error);
}

static void expect_refused(int32_t suspect, const char *words)
{
    assert_int_equal(check(), TUTTI_NO_MEMORY);
    assert_int_equal(error.suspect, suspect);
    assert_non_null(strstr(error.message, words));
}

static void hosts_are_added_up_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(check(), TUTTI_OK);
    wanted[3].bytes = 11;
    expect_refused(1, "the ranks want 21 bytes, the host has 20 left");
    wanted[1].available.host = 21; /* the largest value counts */
    assert_int_equal(check(), TUTTI_OK);
}

static void control_groups_are_added_up_one_by_one(void **state)
{
    (void)state;
    wanted[1].available.limit = wanted[3].available.limit = 19;
    expect_refused(1, "the ranks want 20 bytes, the control group leaves 19");
    wanted[3].available.cgroup = 8;
    assert_int_equal(check(), TUTTI_OK);
    wanted[3].bytes = 20;
    wanted[3].available.host = UINT64_MAX;
    expect_refused(3, "it wants 20 bytes, the control group leaves 19");
}

static void sum_does_not_overflow(void **state)
{
    (void)state;
    wanted[0].bytes = wanted[2].bytes = UINT64_MAX / 2 + 1;
    wanted[0].available.host = UINT64_MAX;
    expect_refused(0, "the host has");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(hosts_are_added_up_one_by_one, all_fit),
        cmocka_unit_test_setup(control_groups_are_added_up_one_by_one, all_fit),
        cmocka_unit_test_setup(sum_does_not_overflow, all_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
