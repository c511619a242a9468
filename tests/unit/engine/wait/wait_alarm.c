/* SPDX-License-Identifier: BSD-3-Clause */
/* tutti-test: timeout=60 */
/*
 * The alarm wakes a rank that sleeps, or is about to. A sleep is not bounded here, so a lost wake-up is a hang.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sched.h>

#include "base/wait/backoff.h"
#include "engine/wait/publish.h"
#include "engine/wait/wait.h"
#include "repetitions.h"
#include "unit/engine/p2p/p2p_support.h"

#define HOUR_NS INT64_C(3600000000000)

static bool after_sleeper; /* rank 1 leaves when rank 0 sleeps; else at any time, perhaps while it goes to sleep */
static unsigned pauses;    /* of rank 1 before it leaves at any time */

static int leave(struct cluster *c)
{
    while (after_sleeper && atomic_load(tti_alarm_sleepers(c->engines[1])) == 0) {
        sched_yield();
    }
    for (unsigned i = 0; !after_sleeper && i < pauses; i++) {
        tti_backoff();
    }
    tti_engine_leave(c->engines[1]);
    return 0;
}

static int wait_in_a_call(struct cluster *c, int rank)
{
    tutti_op op = op_of(TUTTI_OP_BARRIER, NULL, NULL, 0, 0);
    tutti_error error;
    return rank == 1 ? leave(c) : tti_engine_run(c->engines[0], &op, &error) != TUTTI_PEER_LEFT;
}

static int wait_for_a_message(struct cluster *c, int rank)
{
    int32_t in;
    tutti_op op = recv_op(&in, 1, 1, 0);
    tutti_op *ops[] = {&op};
    tutti_error error;
    return rank == 1 ? leave(c) : tti_engine_run_p2p(c->engines[0], ops, 1, TUTTI_FOREVER, &error) != TUTTI_PEER_LEFT;
}

static void sleepers_wake(rank_body body, bool asleep)
{
    struct cluster c;
    after_sleeper = asleep;
    for (int i = 0; i < repetitions(200); i++) {
        pauses = (unsigned)i * 7 % 200;
        assert_int_equal(cluster_open(&c, 2, 1, 8192, (struct waiting){0, 0, HOUR_NS}), 0);
        assert_int_equal(cluster_run(&c, body), 0);
        assert_int_equal(atomic_load(tti_alarm_sleepers(c.engines[0])), 0);
        cluster_close(&c);
    }
}

static void in_a_call(void **state)
{
    (void)state;
    sleepers_wake(wait_in_a_call, true);
    sleepers_wake(wait_in_a_call, false);
}

static void for_a_message(void **state)
{
    (void)state;
    sleepers_wake(wait_for_a_message, true);
    sleepers_wake(wait_for_a_message, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_call),
        cmocka_unit_test(for_a_message),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
