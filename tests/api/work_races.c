/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works in the hands of several threads, and operations that become late in the queue: who may run what, and that nothing
 * is forgotten. The ranks are threads of this process and tell one another by atomics how far they are. A defect shows as
 * an expectation that fails when a deadline or the patience below ends, or as the timeout of the test. Where only chance
 * brings two threads together, there are many rounds.
 *
 * tutti-test: timeout=240
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "check.h"

#define LONG_MS 60000

static const int64_t one = 1;

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Whether the counter gets there before the patience ends. */
static bool reaches(const _Atomic int *counter, int value)
{
    const struct timespec moment = {.tv_nsec = 100000};
    for (int looks = 0; looks < 400000; looks++) {
        if (atomic_load_explicit(counter, memory_order_acquire) >= value) {
            return true;
        }
        if (looks < 1000) {
            sched_yield();
        } else {
            nanosleep(&moment, NULL);
        }
    }
    return false;
}

static void reach(_Atomic int *counter, int value)
{
    atomic_store_explicit(counter, value, memory_order_release);
}

/* Another moment in every round. */
static void pass_time(int round, int prime, int most)
{
    for (volatile int turns = round * prime % most; turns > 0; turns--) {
    }
}

static tutti_status add(tutti_group *g, float *in, float *out, int64_t timeout_ms)
{
    DLTensor i = tutti_tensor_1d(in, &one, TUTTI_F32);
    DLTensor o = tutti_tensor_1d(out, &one, TUTTI_F32);
    return tutti_all_reduce(g, &i, &o, TUTTI_SUM, TUTTI_CALL(.timeout_ms = timeout_ms));
}

static tutti_status start_add(tutti_group *g, float *in, float *out, int64_t timeout_ms, tutti_work **work)
{
    DLTensor i = tutti_tensor_1d(in, &one, TUTTI_F32);
    DLTensor o = tutti_tensor_1d(out, &one, TUTTI_F32);
    return tutti_all_reduce_async(g, &i, &o, TUTTI_SUM, TUTTI_CALL(.timeout_ms = timeout_ms), work);
}

/* ---- late in the queue --------------------------------------------------------------------------------------------- */

enum { CHAIN = 4, LATE = 1 };

/* On rank 0 the second of four operations becomes late while the first one still waits for rank 1. */
static void late_behind_slow(tutti_group *g, int round)
{
    static _Atomic int go;
    int32_t me = tutti_group_rank(g);
    float in[CHAIN];
    float out[CHAIN];
    tutti_work *works[CHAIN] = {NULL};
    bool failed = false;
    if (me == 1) {
        EXPECT(reaches(&go, round + 1));
    }
    for (int i = 0; i < CHAIN; i++) {
        in[i] = (float)(100 * (i + 1) + me);
        out[i] = -1;
        tutti_status status = start_add(g, &in[i], &out[i], me == 0 && i == LATE ? 1 : LONG_MS, &works[i]);
        EXPECT(status == TUTTI_OK || status == TUTTI_REVOKED);
        failed = failed || status != TUTTI_OK;
    }
    if (me == 0) {
        const struct timespec moment = {.tv_nsec = 2000000 * (long)(round + 1)};
        nanosleep(&moment, NULL); /* the deadline passes; whether the group fails before rank 1 comes is open */
        reach(&go, round + 1);
    }
    for (int i = 0; i < CHAIN; i++) {
        tutti_status status = works[i] ? tutti_work_wait(works[i], TUTTI_FOREVER) : TUTTI_REVOKED;
        failed = failed || status != TUTTI_OK;
        EXPECT(status == TUTTI_OK ? out[i] == (float)(200 * (i + 1) + 1)
                                  : status == TUTTI_TIMEOUT || status == TUTTI_REVOKED);
        if (works[i]) {
            EXPECT_OK(tutti_work_release(works[i]));
        }
    }
    tutti_error e;
    EXPECT_OK(tutti_group_error(g, &e));
    EXPECT(!failed || e.status == TUTTI_TIMEOUT);
}

/* All results are right, or the group has failed: never do the ranks get out of step. */
static tutti_status late_in_step(tutti_group *world, void *user)
{
    (void)user;
    const int32_t ranks[2] = {0, 1};
    for (int round = 0; round < 12; round++) {
        tutti_group *g;
        EXPECT_OK(tutti_group_create(world, ranks, 2, NULL, &g, NULL));
        late_behind_slow(g, round);
        EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.timeout_ms = LONG_MS))); /* nobody leaves before both have looked */
        EXPECT_OK(tutti_group_destroy(g, NULL));
    }
    return TUTTI_OK;
}

/* ---- two threads, one work ----------------------------------------------------------------------------------------- */

/* A thread that does the same with every work it is given, once. */
struct second {
    pthread_t thread;
    void (*use)(tutti_work *work);
    tutti_work *work;  /* of the round */
    _Atomic int given; /* the round, -1: no more */
    _Atomic int done;  /* the last round that it has done */
};

static void *use_works(void *argument)
{
    struct second *s = argument;
    for (int round = 0;;) {
        int given = atomic_load_explicit(&s->given, memory_order_acquire);
        if (given < 0) {
            return NULL;
        }
        if (given == round) {
            sched_yield();
            continue;
        }
        round = given;
        s->use(s->work);
        reach(&s->done, round);
    }
}

static void begin(struct second *s, void (*use)(tutti_work *work))
{
    s->use = use;
    EXPECT(pthread_create(&s->thread, NULL, use_works, s) == 0);
}

static void give(struct second *s, tutti_work *work, int round)
{
    s->work = work;
    reach(&s->given, round);
}

static void end(struct second *s)
{
    reach(&s->given, -1);
    pthread_join(s->thread, NULL);
}

static void wait_for_it(tutti_work *work)
{
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
}

/* Two threads wait for the first of two operations. Neither may be caught in the second one, which rank 1 joins only when
 * both have returned. */
static tutti_status nothing_behind(tutti_group *g, void *user)
{
    (void)user;
    enum { ROUNDS = 4000, BUDGET_MS = 400 };
    static _Atomic int started; /* the round; -1: no more */
    static _Atomic int returned;
    float x = 1;
    float sums[2];
    if (tutti_group_rank(g) == 1) {
        for (int round = 1; reaches(&started, round); round++) {
            pass_time(round, 7919, 20000);
            EXPECT_OK(add(g, &x, &sums[0], LONG_MS));
            EXPECT(reaches(&returned, round));
            EXPECT_OK(add(g, &x, &sums[1], LONG_MS));
            if (round == ROUNDS) {
                break;
            }
        }
        return TUTTI_OK;
    }
    struct second helper = {.given = 0};
    begin(&helper, wait_for_it);
    (void)BUDGET_MS;
    for (int round = 1; round <= ROUNDS; round++) {
        tutti_work *works[2];
        EXPECT_OK(start_add(g, &x, &sums[0], LONG_MS, &works[0]));
        EXPECT_OK(start_add(g, &x, &sums[1], LONG_MS, &works[1]));
        give(&helper, works[0], round);
        reach(&started, round);
        pass_time(round, 104729, 20000);
        wait_for_it(works[0]);
        EXPECT(reaches(&helper.done, round));
        reach(&returned, round);
        wait_for_it(works[1]);
        EXPECT_OK(tutti_work_release(works[0]));
        EXPECT_OK(tutti_work_release(works[1]));
    }
    end(&helper);
    return TUTTI_OK;
}
