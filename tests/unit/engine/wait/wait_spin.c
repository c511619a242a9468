/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a rank spins for another one, and that messages between ranks on one CPU are soon awaited by yields. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/wait/spin.h"
#include "unit/engine/p2p/p2p_support.h"

#define FULL   4096u
#define MOST   20000   /* messages each way */
#define LEARNT 3       /* halvings */
#define LARGE  100000u /* elements: in chunks, by requests */

static void a_spin_that_fails_gets_shorter(void **state)
{
    (void)state;
    struct tti_spin s = {0};
    assert_int_equal(tti_spin_polls(&s, FULL), FULL);
    for (unsigned i = 1; i <= TTI_SPIN_HALVINGS_MOST; i++) {
        tti_spin_failed(&s);
        assert_int_equal(tti_spin_polls(&s, FULL), FULL >> i);
    }
    tti_spin_failed(&s);
    assert_int_equal(tti_spin_polls(&s, FULL), FULL >> TTI_SPIN_HALVINGS_MOST);
}

static void a_spin_that_succeeds_gets_longer(void **state)
{
    (void)state;
    struct tti_spin s = {0};
    for (unsigned i = 0; i < 3; i++) {
        tti_spin_failed(&s);
    }
    for (unsigned i = 3; i > 0; i--) {
        assert_int_equal(tti_spin_polls(&s, FULL), FULL >> i);
        tti_spin_succeeded(&s, false);
    }
    assert_int_equal(tti_spin_polls(&s, FULL), FULL);
    tti_spin_succeeded(&s, false);
    assert_int_equal(tti_spin_polls(&s, FULL), FULL);
}

static void one_of_many_is_full(void **state)
{
    (void)state;
    struct tti_spin s = {0};
    tti_spin_failed(&s);
    tti_spin_failed(&s);
    for (int i = 1; i < 4 * TTI_SPIN_TRIAL_EVERY; i++) {
        assert_int_equal(tti_spin_polls(&s, FULL), i % TTI_SPIN_TRIAL_EVERY == 0 ? FULL : FULL >> 2);
    }
    assert_int_equal(tti_spin_polls(&s, FULL), FULL);
    tti_spin_succeeded(&s, true);
    assert_int_equal(tti_spin_polls(&s, FULL), FULL);
}

/* Threads may use several CPUs when they are counted, and are on one afterwards. Returns the number of faults. */
static int stay_on_one_cpu(void)
{
    cpu_set_t may;
    cpu_set_t one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof(may), &may) != 0) {
        return 1;
    }
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++) {
        if (CPU_ISSET(i, &may)) {
            CPU_SET(i, &one);
        }
    }
    return sched_setaffinity(0, sizeof(one), &one) != 0;
}

/* Until both ranks have learnt; each message says whether its sender has. */
static int exchange(struct cluster *c, int rank, int64_t count)
{
    static int32_t memory[2][2][LARGE];
    struct tti_engine *e = c->engines[rank];
    const struct tti_spin *spin = count == 1 ? &e->p2p->peers[1 - rank].spin : &e->p2p->spin;
    int32_t *mine = memory[rank][0];
    int32_t *theirs = memory[rank][1];
    *mine = *theirs = 0;
    for (int i = 0; i < MOST && !(*mine && *theirs); i++) {
        *mine = *mine || atomic_load(&spin->halvings) >= LEARNT;
        tutti_op send = send_op(mine, &count, 1 - rank, 0);
        tutti_op recv = recv_op(theirs, (size_t)count, 1 - rank, 0);
        tutti_op *both[] = {&send, &recv};
        tutti_error error;
        if (tti_engine_run_p2p(e, both, 2, TUTTI_FOREVER, &error) != TUTTI_OK) {
            return 1;
        }
    }
    return !(*mine && *theirs);
}

static int exchange_small(struct cluster *c, int rank)
{
    return stay_on_one_cpu() || exchange(c, rank, 1);
}

static int exchange_large(struct cluster *c, int rank)
{
    return stay_on_one_cpu() || exchange(c, rank, LARGE);
}

static void messages_between_ranks_on_one_cpu(void **state)
{
    (void)state;
    const rank_body bodies[] = {exchange_small, exchange_large};
    for (int i = 0; i < 2; i++) {
        struct cluster c;
        assert_int_equal(cluster_open(&c, 2, 1, 8192, (struct waiting){.spin_ns = 40000, .yield_ns = 20000}), 0);
        c.engines[0]->ranks_per_cpu = c.engines[1]->ranks_per_cpu = 1;
        assert_int_equal(cluster_run(&c, bodies[i]), 0);
        cluster_close(&c);
    }
}

/* A group of the same processes need not learn it again. */
static void a_covered_engine_starts_with_what_was_learnt(void **state)
{
    (void)state;
    struct cluster c;
    const int32_t covered[] = {2, 0};
    assert_int_equal(cluster_open(&c, 3, 1, 8192, (struct waiting){0}), 0);
    atomic_store(&c.engines[2]->lanes[0].spins[0].halvings, 5);
    struct tti_engine_options o = {.rank = 0,
                                   .layout =
                                       tti_layout_make(2, 2, c.layout.stage, c.layout.stage_far, c.layout.stage_small),
                                   .tuning = c.engines[2]->tuning,
                                   .covering = c.engines[2],
                                   .covered_ranks = covered};
    struct tti_engine *e = NULL;
    tutti_error error;
    assert_int_equal(tti_engine_create(&o, &e, &error), TUTTI_OK);
    for (int lane = 0; lane < 2; lane++) {
        assert_int_equal(atomic_load(&e->lanes[lane].spins[0].halvings), 0);
        assert_int_equal(atomic_load(&e->lanes[lane].spins[1].halvings), 5);
    }
    tti_engine_destroy(e);
    cluster_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spin_that_fails_gets_shorter),
        cmocka_unit_test(a_spin_that_succeeds_gets_longer),
        cmocka_unit_test(one_of_many_is_full),
        cmocka_unit_test(messages_between_ranks_on_one_cpu),
        cmocka_unit_test(a_covered_engine_starts_with_what_was_learnt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
