/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that share CPUs, where yields let no other rank run: each wait sleeps soon, although it might yield for a
 * second. The other rank comes only when it sees the sleeper.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/syscall.h>

#include "base/clock.h"
#include "engine/wait/wait.h"
#include "unit/engine/p2p/p2p_support.h"

#define YIELDS_MOST 32 /* of one wait: 8, or 8 before it posts a request and 8 after */

static _Atomic int yields;

/* The library's calls of these two functions come here. */
int sched_yield(void)
{
    atomic_fetch_add(&yields, 1);
    return 0;
}

int getrusage(__rusage_who_t who, struct rusage *usage)
{
    (void)who;
    *usage = (struct rusage){.ru_nvcsw = 7};
    return 0;
}

static void await_sleeper(const struct cluster *c, int channel)
{
    while ((atomic_load(tti_sleepers(c->engines[1], 1, channel)) & 1) == 0) {
        syscall(SYS_sched_yield); /* the function is this test's */
    }
}

static int reduce(struct cluster *c, int rank)
{
    const int32_t in = 3 + rank;
    int32_t out = 0;
    tutti_op op = op_of(TUTTI_OP_ALL_REDUCE, &in, &out, 1, 0);
    tutti_error error;
    if (rank == 1) {
        await_sleeper(c, 0);
    }
    return tti_engine_run(c->engines[rank], &op, &error) != TUTTI_OK || out != 7;
}

static int receive(struct cluster *c, int rank)
{
    const int32_t out = 5;
    const int64_t one = 1;
    int32_t in = 0;
    tutti_op op = rank == 0 ? recv_op(&in, 1, 1, 0) : send_op(&out, &one, 0, 0);
    tutti_op *ops[] = {&op};
    tutti_error error;
    if (rank == 1) {
        await_sleeper(c, c->layout.lanes);
    }
    return tti_engine_run_p2p(c->engines[rank], ops, 1, TUTTI_FOREVER, &error) != TUTTI_OK || (rank == 0 && in != 5);
}

static int yields_of(rank_body body)
{
    struct cluster c;
    assert_int_equal(cluster_open(&c, 2, 1, 8192, (struct waiting){0, 1000000000, 0}), 0);
    c.engines[0]->ranks_per_cpu = c.engines[1]->ranks_per_cpu = 2;
    atomic_store(&yields, 0);
    assert_int_equal(cluster_run(&c, body), 0);
    cluster_close(&c);
    return atomic_load(&yields);
}

static void a_wait_sleeps_although_it_might_yield(void **state)
{
    (void)state;
    assert_in_range(yields_of(reduce), 1, YIELDS_MOST);
    assert_in_range(yields_of(receive), 1, YIELDS_MOST);
}

/* Its yields are in vain because it has the CPU to itself. */
static void a_rank_with_its_own_cpu_goes_on(void **state)
{
    (void)state;
    struct tti_engine e = {.ranks_per_cpu = 1};
    struct tti_yields wait = {.now_ns = tti_now_ns()};
    for (int i = 0; i < 10 * YIELDS_MOST; i++) {
        assert_true(tti_yield_to_ranks(&e, &wait));
    }
    e.ranks_per_cpu = 1.5;
    assert_false(tti_yield_to_ranks(&e, &wait));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wait_sleeps_although_it_might_yield),
        cmocka_unit_test(a_rank_with_its_own_cpu_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
