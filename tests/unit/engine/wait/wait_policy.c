/* SPDX-License-Identifier: BSD-3-Clause */
/* How long ranks wait before they sleep: by the CPUs and quotas in the segments' headers, and by the settings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "engine/wait/policy.h"

#define MOST 64

/* A group of which only the headers exist. Every rank may use CPUs 0 and 1 unless a test says otherwise. */
struct group {
    struct tti_engine engine;
    unsigned char *segments[MOST];
    struct tti_segment_header headers[MOST];
};

static void make(struct group *g, int size)
{
    memset(g, 0, sizeof(*g));
    g->engine.size = size;
    g->engine.segments = g->engine.homes = g->segments;
    g->engine.barriers = true;
    for (int r = 0; r < size; r++) {
        g->segments[r] = (unsigned char *)&g->headers[r];
        g->headers[r].cpus[0] = 3;
    }
}

static void limit(struct group *g, int rank, uint32_t thousandths, uint64_t cpu_group)
{
    g->headers[rank].cpu_limit = thousandths;
    g->headers[rank].cpu_group = cpu_group;
}

static double decide(struct group *g)
{
    tti_wait_policy(&g->engine, -1, -1);
    return g->engine.ranks_per_cpu;
}

static void masks_count_together(void **state)
{
    (void)state;
    struct group g;
    make(&g, 2);
    assert_true(decide(&g) == 1);
    make(&g, 5);
    assert_true(decide(&g) == 2.5);
    make(&g, 4); /* each bound to one CPU */
    for (int r = 0; r < 4; r++) {
        g.headers[r].cpus[0] = 0;
        g.headers[r].cpus[r % 2 == 0 ? 0 : TTI_CPU_WORDS - 1] = UINT64_C(1) << 63;
    }
    assert_true(decide(&g) == 2);
    make(&g, 2); /* the kernel gives no mask */
    g.headers[0].cpus[0] = g.headers[1].cpus[0] = 0;
    assert_true(decide(&g) == 2);
}

static void quotas_count_in_fractions(void **state)
{
    (void)state;
    struct group g;
    make(&g, 3);
    for (int r = 0; r < 3; r++) {
        limit(&g, r, 1500, 7);
    }
    assert_true(decide(&g) == 2);
    for (int r = 0; r < 3; r++) {
        limit(&g, r, 8000, 7); /* more than the CPUs have */
    }
    assert_true(decide(&g) == 1.5);
}

static void ranks_share_only_the_limit_of_their_own_group(void **state)
{
    (void)state;
    struct group g;
    make(&g, 4);
    for (int r = 0; r < 4; r++) {
        g.headers[r].cpus[0] = 0xff;
        limit(&g, r, 2000, (uint64_t)r / 2);
    }
    assert_true(decide(&g) == 1);
    limit(&g, 3, 2000, 0); /* three in the first group */
    assert_true(decide(&g) == 1.5);
    limit(&g, 3, 0, 0); /* not limited at all */
    assert_true(decide(&g) == 1);
    limit(&g, 2, 500, 9);
    assert_true(decide(&g) == 2);
}

static void scarce_cpus_are_yielded(void **state)
{
    (void)state;
    struct group g;
    make(&g, 2);
    decide(&g);
    const unsigned alone = g.engine.spin_polls;
    const int64_t yields_alone = g.engine.yield_ns;
    assert_true(g.engine.barriers);
    make(&g, 8);
    decide(&g);
    assert_true(g.engine.spin_polls < alone);
    assert_true(g.engine.yield_ns > yields_alone);
    assert_false(g.engine.barriers);
}

static void scarce_time_is_not_burnt(void **state)
{
    (void)state;
    struct group g;
    for (int size = 2; size <= MOST; size *= 2) { /* with a CPU for each at first, and then not */
        make(&g, size);
        g.headers[0].cpus[0] = 0xff;
        for (int r = 0; r < size; r++) {
            limit(&g, r, 1000, 1);
        }
        decide(&g);
        assert_true(g.engine.ranks_per_cpu == size);
        assert_true(g.engine.spin_polls * 5.0 < 100000); /* a pause takes 5 ns at least */
        assert_true(g.engine.yield_ns <= 100000);
        assert_false(g.engine.barriers);
    }
}

static void settings_come_first(void **state)
{
    (void)state;
    struct group g;
    make(&g, 8);
    tti_wait_policy(&g.engine, 0, 123);
    assert_int_equal(g.engine.spin_polls, 0);
    assert_int_equal(g.engine.yield_ns, 123);
    limit(&g, 0, 10, 1);
    tti_wait_policy(&g.engine, 1000000, 456000000);
    assert_true(g.engine.spin_polls > 1000);
    assert_int_equal(g.engine.yield_ns, 456000000);
}

static void barriers_stay_away_where_they_do_not_work(void **state)
{
    (void)state;
    struct group g;
    make(&g, 2);
    g.engine.barriers = false;
    decide(&g);
    assert_false(g.engine.barriers);
}

/* A lane's call begins; a call of a background thread spins and yields for a short time. */
static void background_calls_yield(void **state)
{
    (void)state;
    struct group g;
    static struct tti_lane lane;
    tutti_op op = {.kind = TUTTI_OP_BARRIER};
    lane = (struct tti_lane){.engine = &g.engine, .op = &op};
    make(&g, 8);
    decide(&g);
    tti_wait_begin(&lane);
    assert_int_equal(lane.spin_polls, g.engine.spin_polls);
    assert_int_equal(lane.yield_ns, g.engine.yield_ns);
    op.background = 1;
    tti_wait_begin(&lane);
    assert_true(lane.yield_ns < g.engine.yield_ns);
    make(&g, 2);
    decide(&g);
    tti_wait_begin(&lane);
    assert_true(lane.spin_polls < g.engine.spin_polls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_count_together),
        cmocka_unit_test(quotas_count_in_fractions),
        cmocka_unit_test(ranks_share_only_the_limit_of_their_own_group),
        cmocka_unit_test(scarce_cpus_are_yielded),
        cmocka_unit_test(scarce_time_is_not_burnt),
        cmocka_unit_test(settings_come_first),
        cmocka_unit_test(barriers_stay_away_where_they_do_not_work),
        cmocka_unit_test(background_calls_yield),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
