/* SPDX-License-Identifier: BSD-3-Clause */
/* Cold outputs: when a lane believes that its outputs are cold, and what it does when they are not any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/memory/residency.h"

#define ENOUGH 0.3

static bool decide(struct tti_residency *r, double share)
{
    return tti_residency_decide(r, share, ENOUGH);
}

/* A lane whose next calls go past the caches, if they are cold. */
static struct tti_residency cold_lane(void)
{
    struct tti_residency r = {0};
    for (int i = 0; !decide(&r, 1); i++) {
        assert_true(i < 16);
    }
    return r;
}

static void a_pick_is_below_its_bound(void **state)
{
    (void)state;
    static const uint64_t bounds[] = {1, 7, 4096, (UINT64_C(1) << 32) + 1, UINT64_C(1) << 40};
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        struct tti_residency r = {0};
        uint64_t seen[7] = {0};
        for (int k = 0; k < 10000; k++) {
            const uint64_t pick = tti_residency_pick(&r, bounds[i]);
            assert_true(pick < bounds[i]);
            seen[pick / ((bounds[i] + 6) / 7)]++;
        }
        for (size_t k = 0; k < 7 && bounds[i] > 1; k++) {
            assert_in_range(seen[k], 1000, 2000); /* of 1429 */
        }
    }
}

static void hot_outputs_stay_in_the_caches(void **state)
{
    (void)state;
    struct tti_residency r = {0};
    for (int i = 0; i < 1000; i++) {
        assert_false(decide(&r, i % 16 == 0 ? 1 : 0.125)); /* an interrupt now and then */
    }
}

static void one_cold_output_is_not_enough(void **state)
{
    (void)state;
    struct tti_residency r = {0};
    assert_false(decide(&r, 1));
    assert_false(decide(&r, 0));
    r = cold_lane();
    assert_true(decide(&r, 1));
}

static void a_hot_output_among_cold_ones_stays(void **state)
{
    (void)state;
    struct tti_residency r = cold_lane();
    assert_true(decide(&r, 1));
    assert_false(decide(&r, 0));
    assert_true(decide(&r, 1));
}

static void cold_outputs_try_the_caches_once_in_16_calls(void **state)
{
    (void)state;
    struct tti_residency r = cold_lane();
    int past = 0;
    for (int i = 0; i < 160; i++) {
        past += decide(&r, 1);
    }
    assert_int_equal(past, 150);
}

/* A program that does not read its outputs finds them cold for as long as they go past the caches. */
static void a_loop_over_one_output_returns_to_the_caches(void **state)
{
    (void)state;
    struct tti_residency r = cold_lane();
    int past = 0;
    while (decide(&r, 1)) {
        past++;
    }
    assert_int_equal(past, 14); /* and the one that made it cold */
    for (int i = 0; i < 1000; i++) {
        assert_false(decide(&r, 0.125));
    }
}

static void measuring_changes_nothing(void **state)
{
    (void)state;
    static unsigned char memory[1 << 16];
    unsigned char *bytes[256];
    struct tti_residency r = {0};
    memset(memory, 7, sizeof(memory));
    for (size_t i = 0; i < 256; i++) {
        bytes[i] = memory + tti_residency_pick(&r, sizeof(memory));
    }
    (void)tti_residency_measure(bytes, 256, 1);
    for (size_t i = 0; i < sizeof(memory); i++) {
        assert_int_equal(memory[i], 7);
    }
    assert_true(tti_residency_measure(bytes, 256, 0) == 0); /* no clock: nothing is known */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pick_is_below_its_bound),
        cmocka_unit_test(hot_outputs_stay_in_the_caches),
        cmocka_unit_test(one_cold_output_is_not_enough),
        cmocka_unit_test(a_hot_output_among_cold_ones_stays),
        cmocka_unit_test(cold_outputs_try_the_caches_once_in_16_calls),
        cmocka_unit_test(a_loop_over_one_output_returns_to_the_caches),
        cmocka_unit_test(measuring_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
