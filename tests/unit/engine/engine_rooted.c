/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether a root yields to its readers after it has written everything: where ranks share CPUs, after a large stream of
 * spans (here a broadcast) that the application's thread runs. And whether a reader's stores pass the caches: there is
 * another limit if it reads the ring for far readers. The ring holds all of it, so the writer runs before its reader.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/engine/engine_calls.h"

#define LARGE (UINT64_C(1) << 18) /* staged bytes: the fewest after which a root yields */

static int yields;

/* The library's calls come here. */
int sched_yield(void)
{
    yields++;
    return 0;
}

static int32_t value(size_t i)
{
    return (int32_t)(i * 2654435761u);
}

/* How often the root yields in a broadcast of so many bytes, with so many ranks a CPU. Its reader runs afterwards. */
static int yields_of(size_t bytes, double per_cpu, int32_t background)
{
    const size_t count = bytes / sizeof(int32_t);
    struct tti_tuning_overrides wishes = no_overrides;
    struct cluster c;
    wishes.stage = 1 << 22;
    struct tti_tuning tuning = built_in_tuning(2, &wishes);
    assert_int_equal(cluster_open_tuned(&c, 2, 1, tuning, (struct waiting){1000, 20000, 0}), 0);
    int32_t *tensors[2];
    for (int r = 0; r < 2; r++) {
        tensors[r] = calloc(count, sizeof(int32_t));
        assert_non_null(tensors[r]);
        c.engines[r]->ranks_per_cpu = per_cpu;
    }
    for (size_t i = 0; i < count; i++) {
        tensors[0][i] = value(i);
    }
    tutti_error error;
    int during = 0;
    for (int r = 0; r < 2; r++) {
        tutti_op op = op_of(TUTTI_OP_BROADCAST, tensors[r], tensors[r], count, 0);
        op.background = background;
        yields = 0;
        assert_int_equal(tti_engine_run(c.engines[r], &op, &error), TUTTI_OK);
        during = r == 0 ? yields : during;
    }
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(tensors[1][i], value(i));
    }
    free(tensors[0]);
    free(tensors[1]);
    cluster_close(&c);
    return during;
}

static void root_yields_once(void **state)
{
    (void)state;
    assert_int_equal(yields_of(LARGE, 2, 0), 1);
}

static void root_does_not_yield(void **state)
{
    (void)state;
    assert_int_equal(yields_of(LARGE / 2, 2, 0), 0);           /* little is left to read */
    assert_int_equal(yields_of(LARGE, 1, 0), 0);               /* readers have CPUs of their own */
    assert_int_equal(yields_of(LARGE, 2, TUTTI_ON_WORKER), 0); /* the application computes beside */
}

/* Whether the reader's stores pass the caches, if those do that follow a copy out of a stage, but not a direct one. */
static bool reader_streams(tutti_operation kind, bool far)
{
    static int32_t tensors[2][2 * LARGE / sizeof(int32_t)];
    const int writer = kind == TUTTI_OP_GATHER ? 1 : 0;
    struct tti_tuning_overrides wishes = no_overrides;
    struct cluster c;
    wishes.stage = 1 << 22;
    struct tti_tuning tuning = built_in_tuning(2, &wishes);
    tuning.stage_far = 2 * tuning.stage;
    tuning.streams[TTI_STREAM_ROOTED] = 1;
    tuning.streams[TTI_STREAM_DIRECT] = TTI_TUNING_NEVER;
    assert_int_equal(cluster_open_tuned(&c, 2, 1, tuning, (struct waiting){1000, 20000, 0}), 0);
    tutti_error error;
    for (int i = 0; i < 2; i++) {
        const int r = i == 0 ? writer : 1 - writer;
        tutti_op op = op_of(kind, tensors[r], tensors[r], LARGE / sizeof(int32_t), 0);
        c.engines[r]->ranks_per_cpu = 1;
        c.engines[r]->lanes[0].publish_ticks = (far ? 1e6 : 1e-6) * c.engines[r]->ticks_per_ns;
        assert_int_equal(tti_engine_run(c.engines[r], &op, &error), TUTTI_OK);
    }
    const bool streams = c.engines[1 - writer]->lanes[0].streams;
    cluster_close(&c);
    return streams;
}

static void a_far_stage_has_the_limit_of_direct_copies(void **state)
{
    (void)state;
    static const tutti_operation kinds[] = {TUTTI_OP_BROADCAST, TUTTI_OP_SCATTER, TUTTI_OP_GATHER};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        assert_true(reader_streams(kinds[i], false));
        assert_false(reader_streams(kinds[i], true));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(root_yields_once), cmocka_unit_test(root_does_not_yield),
                                       cmocka_unit_test(a_far_stage_has_the_limit_of_direct_copies)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
