/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When a waiting thread yields, and when it sleeps: by the time that its yields take, on a clock of this test, and by
 * whether another thread ran meanwhile.
 */
#include "base/wait/yielding.h"

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#define SHORT_NS 300
#define SLICE_NS 4000000

static int64_t now_ns;
static int64_t yield_takes_ns;
static int yields;
static long changes; /* of thread */
static bool alone;   /* no other thread of the CPU runs */
static bool countless;

/* The library's calls of these three functions come here. */
int sched_yield(void)
{
    now_ns += yield_takes_ns;
    yields++;
    changes += !alone;
    return 0;
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
    assert_int_equal(who, RUSAGE_THREAD);
    *usage = (struct rusage){.ru_nvcsw = changes / 2, .ru_nivcsw = changes - changes / 2};
    return countless ? -1 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
    return 0;
}

/* One yield of this length: what tti_yield returns. */
static bool yield_in(struct tti_yields *wait, int64_t takes_ns)
{
    wait->now_ns = now_ns;
    const int64_t expected = now_ns + takes_ns;
    const int earlier = yields;
    yield_takes_ns = takes_ns;
    const bool pays = tti_yield(wait);
    assert_int_equal(yields, earlier + 1);
    assert_true(wait->now_ns == expected); /* the time after */
    return pays;
}

static bool yield(int64_t takes_ns)
{
    struct tti_yields wait = {.now_ns = 0};
    return yield_in(&wait, takes_ns);
}

/* How many waits sleep at once before one yields again. */
static int skipped(void)
{
    int n = 0;
    while (!tti_yield_pays()) {
        n++;
    }
    return n;
}

/* The state belongs to the process: each test begins with a CPU that only ranks use. */
static int use_quiet_cpu(void **state)
{
    (void)state;
    alone = countless = false;
    for (int i = 0; i < 8; i++) {
        yield(SHORT_NS);
    }
    skipped();
    return 0;
}

static void short_yields_go_on(void **state)
{
    (void)state;
    for (int i = 0; i < 1000; i++) {
        assert_true(tti_yield_pays());
        assert_true(yield(SHORT_NS));
    }
}

/* The kernel may have run another control group. */
static void single_long_yields_show_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        assert_true(yield(SLICE_NS));
        assert_true(yield(SHORT_NS));
        assert_true(tti_yield_pays());
    }
}

static void more_waits_sleep_at_once_the_longer_it_lasts(void **state)
{
    (void)state;
    static const int expected[] = {1, 3, 7, 15, 31, 63, 63, 63};
    assert_true(yield(SLICE_NS));
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_false(yield(SLICE_NS));
        assert_int_equal(skipped(), expected[i]);
    }
}

static void short_yields_end_that(void **state)
{
    (void)state;
    assert_true(yield(SLICE_NS));
    for (int i = 0; i < 6; i++) {
        assert_false(yield(SLICE_NS));
        skipped();
    }
    for (int i = 0; i < 3; i++) { /* 63 to 7 */
        assert_true(yield(SHORT_NS));
        assert_true(tti_yield_pays());
    }
    assert_true(yield(SLICE_NS));
    assert_false(yield(SLICE_NS));
    assert_int_equal(skipped(), 15);
}

/* How many yields of a new wait come before the first one after which they are vain. */
static int until_vain(struct tti_yields *wait)
{
    int n = 0;
    while (n < 100 && !wait->vain) {
        assert_true(yield_in(wait, SHORT_NS));
        n++;
    }
    return n;
}

static void yields_are_vain_while_no_other_thread_runs(void **state)
{
    (void)state;
    struct tti_yields wait = {.now_ns = 0};
    alone = true;
    changes = 0;
    assert_int_equal(until_vain(&wait), 8);
    alone = false;
    for (int i = 0; i < 4; i++) {
        assert_true(yield_in(&wait, SHORT_NS));
    }
    assert_int_equal(until_vain(&wait), 100);
    alone = true;
    const int again = until_vain(&wait);
    assert_in_range(again, 4, 8);
    struct tti_yields next = {.now_ns = 0};
    assert_false(next.vain);
}

static void no_yield_is_vain_where_changes_are_not_counted(void **state)
{
    (void)state;
    struct tti_yields wait = {.now_ns = 0};
    alone = countless = true;
    assert_int_equal(until_vain(&wait), 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(short_yields_go_on, use_quiet_cpu),
        cmocka_unit_test_setup(single_long_yields_show_nothing, use_quiet_cpu),
        cmocka_unit_test_setup(more_waits_sleep_at_once_the_longer_it_lasts, use_quiet_cpu),
        cmocka_unit_test_setup(short_yields_end_that, use_quiet_cpu),
        cmocka_unit_test_setup(yields_are_vain_while_no_other_thread_runs, use_quiet_cpu),
        cmocka_unit_test_setup(no_yield_is_vain_where_changes_are_not_counted, use_quiet_cpu),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
