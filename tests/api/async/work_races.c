/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works that several threads use, and operations that become late in the queue: which thread may run them, and that
 * none is lost. Ranks are threads of this process and synchronize by atomics. A defect shows as an expectation that
 * fails when a deadline or the limit below ends, or as the timeout of the test. Where only chance brings two threads
 * together, there are many rounds.
 *
 * tutti-test: timeout=240
 */
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "api/check.h"
#include "api/collectives/reaches.h"
#include "clock.h"
#include "spin.h"
#include "time_limits.h"

static const int64_t one = 1;

static void reach(_Atomic int *counter, int value)
{
    atomic_store_explicit(counter, value, memory_order_release);
}

/* ---- rounds ---- */

enum { STOP = INT_MAX };

/* Rank 0 writes its round into `started`, and continues until each case has occurred often enough. */
static bool wants_another(int round, int rounds, int64_t begun_ms, int64_t budget_ms)
{
    return round <= rounds && now_ms() - begun_ms < budget_ms;
}

/* Rank 1: whether this round comes. */
static bool comes(const _Atomic int *started, int round)
{
    bool known = reaches(started, round);
    EXPECT(known);
    return known && atomic_load_explicit(started, memory_order_relaxed) != STOP;
}

/* Another moment in every round. */
static void pass_time(int round, int prime, int most)
{
    spin((int64_t)round * prime % most);
}

/* ---- operations ---- */

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

static void count(tutti_status status, const tutti_error *error, void *user)
{
    (void)error;
    EXPECT(status == TUTTI_OK);
    atomic_fetch_add((_Atomic int *)user, 1);
}

/* ---- late in the queue ------------------------------------------------------------------------------------------- */

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

/* Either all results are right, or the group has failed: the ranks always agree on the order of calls. */
static tutti_status late_in_step(tutti_group *world, void *user)
{
    (void)user;
    const int32_t ranks[2] = {0, 1};
    for (int round = 0; round < 12; round++) {
        tutti_group *g;
        EXPECT_OK(tutti_group_create(world, ranks, 2, NULL, &g, NULL));
        late_behind_slow(g, round);
        EXPECT_OK(tutti_barrier(world, TUTTI_CALL(.timeout_ms = LONG_MS))); /* no rank leaves before both have polled */
        EXPECT_OK(tutti_group_destroy(g, NULL));
    }
    return TUTTI_OK;
}

/* ---- two threads, one work --------------------------------------------------------------------------------------- */

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

/* Several threads wait for the first of two operations. None may be caught in the second one, which rank 1 joins only
 * when all have returned. */
static tutti_status nothing_behind(tutti_group *g, void *user)
{
    (void)user;
    enum { HELPERS = 3 };
    static _Atomic int started;
    static _Atomic int returned;
    float x = 1;
    float sums[2];
    if (tutti_group_rank(g) == 1) {
        for (int round = 1; comes(&started, round); round++) {
            pass_time(round, 7919, 60000);
            EXPECT_OK(add(g, &x, &sums[0], LONG_MS));
            EXPECT(reaches(&returned, round));
            EXPECT_OK(add(g, &x, &sums[1], LONG_MS));
        }
        return TUTTI_OK;
    }
    struct second helpers[HELPERS] = {{.given = 0}};
    for (int i = 0; i < HELPERS; i++) {
        begin(&helpers[i], wait_for_it);
    }
    int64_t begun_ms = now_ms();
    for (int round = 1; wants_another(round, 20000, begun_ms, 700); round++) {
        tutti_work *works[2];
        EXPECT_OK(start_add(g, &x, &sums[0], LONG_MS, &works[0]));
        EXPECT_OK(start_add(g, &x, &sums[1], LONG_MS, &works[1]));
        for (int i = 0; i < HELPERS; i++) {
            give(&helpers[i], works[0], round);
        }
        reach(&started, round);
        pass_time(round, 104729, 60000);
        wait_for_it(works[0]);
        for (int i = 0; i < HELPERS; i++) {
            EXPECT(reaches(&helpers[i].done, round));
        }
        reach(&returned, round);
        wait_for_it(works[1]);
        EXPECT_OK(tutti_work_release(works[0]));
        EXPECT_OK(tutti_work_release(works[1]));
    }
    reach(&started, STOP);
    for (int i = 0; i < HELPERS; i++) {
        end(&helpers[i]);
    }
    return TUTTI_OK;
}

/* ---- pushes ------------------------------------------------------------------------------------------------------ */

enum { LIMIT, TOKEN, DESCRIPTOR, WAYS };

static void poll_a_while(tutti_work *work)
{
    int32_t ended = 0;
    for (int looks = 0; looks < 300 && !ended; looks++) {
        EXPECT_OK(tutti_work_test(work, &ended));
    }
}

static bool ends(tutti_work *work, int way, tutti_cancel_token *token)
{
    int fd = -1;
    switch (way) {
    case LIMIT:
        return tutti_work_wait(work, 1000 * LIMIT_S) == TUTTI_OK;
    case TOKEN:
        return tutti_work_wait_token(work, 1000 * LIMIT_S, token, NULL) == TUTTI_OK;
    default:
        EXPECT_OK(tutti_work_eventfd(work, &fd, NULL));
        return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, 1000 * LIMIT_S) == 1;
    }
}

/* One thread waits in a way in which it does not run the operation itself. Another one polls the operation for a while
 * and may have claimed it. The operation ends all the same. */
static void push(tutti_group *g, bool message, int way, _Atomic int *started)
{
    float x = 1;
    float y = 0;
    DLTensor in = tutti_tensor_1d(&x, &one, TUTTI_F32);
    DLTensor out = tutti_tensor_1d(&y, &one, TUTTI_F32);
    if (tutti_group_rank(g) == 1) {
        for (int round = 1; comes(started, round); round++) {
            pass_time(round, 7919, 40000);
            EXPECT_OK(message ? tutti_send(g, &in, 0, 5, NULL) : add(g, &x, &y, LONG_MS));
        }
        return;
    }
    struct second poller = {.given = 0};
    tutti_cancel_token *token;
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, NULL));
    begin(&poller, poll_a_while);
    int64_t begun_ms = now_ms();
    for (int round = 1; wants_another(round, 5000, begun_ms, 200); round++) {
        tutti_work *work;
        EXPECT_OK(message ? tutti_recv_async(g, &out, 1, 5, TUTTI_CALL(.timeout_ms = LONG_MS), NULL, &work)
                          : start_add(g, &x, &y, LONG_MS, &work));
        give(&poller, work, round);
        reach(started, round);
        EXPECT(ends(work, way, token));
        EXPECT(reaches(&poller.done, round));
        EXPECT_OK(tutti_work_wait(work, LONG_MS));
        EXPECT_OK(tutti_work_release(work));
    }
    reach(started, STOP);
    end(&poller);
    EXPECT_OK(tutti_cancel_token_destroy(token, NULL));
}

static tutti_status pushes(tutti_group *g, void *user)
{
    (void)user;
    static _Atomic int started[2][WAYS];
    for (int way = 0; way < WAYS; way++) {
        push(g, false, way, &started[0][way]);
        push(g, true, way, &started[1][way]);
    }
    return TUTTI_OK;
}

/* ---- polls ------------------------------------------------------------------------------------------------------- */

/* The worker of a lane that has just been started runs what it finds. Afterwards it runs only after a push. */
static void wake_lane(tutti_group *g)
{
    _Atomic int calls = 0;
    tutti_work *work;
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = count, .user = (void *)&calls), &work));
    wait_for_it(work);
    EXPECT(atomic_load(&calls) == 1);
    EXPECT_OK(tutti_work_release(work));
}

/* Rank 2 arrives at a gather and leaves the group. A poll of rank 0 must not begin to wait for rank 1, which comes only
 * after the poll. */
static void poll_after_departure(tutti_group *g, int round)
{
    static _Atomic int begun;
    static _Atomic int left;
    static _Atomic int looked;
    int64_t three = 3;
    int32_t me = tutti_group_rank(g);
    float mine = (float)me;
    float all[3] = {-1, -1, -1};
    DLTensor in = tutti_tensor_1d(&mine, &one, TUTTI_F32);
    DLTensor out = tutti_tensor_1d(all, &three, TUTTI_F32);
    const tutti_call *call = TUTTI_CALL(.timeout_ms = 2 * LONG_MS);
    wake_lane(g);
    EXPECT_OK(tutti_barrier(g, call));
    if (me == 0) {
        tutti_work *work;
        int32_t ended = -1;
        EXPECT_OK(tutti_gather_async(g, &in, &out, 0, 0, call, &work));
        reach(&begun, round);
        EXPECT(reaches(&left, round));
        EXPECT_OK(tutti_work_test(work, &ended));
        EXPECT(ended == 0 && tutti_work_wait(work, 0) == TUTTI_BUSY);
        reach(&looked, round);
        wait_for_it(work);
        EXPECT(all[0] == 0 && all[1] == 1 && all[2] == 2);
        EXPECT_OK(tutti_work_release(work));
    } else {
        EXPECT(reaches(me == 2 ? &begun : &looked, round));
        EXPECT_OK(tutti_gather(g, &in, NULL, 0, 0, call));
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
    if (me == 2) {
        reach(&left, round);
    }
}

static tutti_status polls_never_wait(tutti_group *world, void *user)
{
    (void)user;
    const int32_t ranks[3] = {0, 1, 2};
    for (int round = 1; round <= 8; round++) {
        tutti_group *g;
        EXPECT_OK(tutti_group_create(world, ranks, 3, NULL, &g, NULL));
        poll_after_departure(g, round);
    }
    return TUTTI_OK;
}

/* ---- waits in callbacks ------------------------------------------------------------------------------------------ */

struct visit {
    tutti_work *ended;
    tutti_work *open[3]; /* behind this one, in another lane with a callback, a message */
    _Atomic int inside;
    _Atomic int open_started;
    _Atomic int left;
};

static void wait_inside(tutti_status status, const tutti_error *error, void *user)
{
    struct visit *v = user;
    (void)error;
    EXPECT(status == TUTTI_OK);
    reach(&v->inside, 1);
    EXPECT(reaches(&v->open_started, 1));
    EXPECT_OK(tutti_work_wait(v->ended, TUTTI_FOREVER));
    int32_t any_ended = 0;
    for (int looks = 0; looks < 300; looks++) { /* time for the other lane to reach its callback */
        const struct timespec moment = {.tv_nsec = 50000};
        int32_t ended = -1;
        EXPECT_OK(tutti_work_test(v->open[looks % 3], &ended));
        any_ended |= ended;
        nanosleep(&moment, NULL);
    }
    EXPECT(any_ended == 0);
    for (int i = 0; i < 3; i++) {
        EXPECT(tutti_work_wait(v->open[i], TUTTI_FOREVER) == TUTTI_WOULD_DEADLOCK);
    }
    reach(&v->left, 1);
}

/* A callback may use works that have ended. A wait for anything else of the group is WOULD_DEADLOCK, also for an
 * operation that has not ended only because its own callback waits for this one to return. */
static tutti_status waits_inside(tutti_group *world, void *user)
{
    (void)user;
    const int32_t ranks[2] = {0, 1};
    static _Atomic int all_left;
    tutti_group *g;
    tutti_work *outer;
    float x = 1;
    float y[3];
    _Atomic int calls = 0;
    struct visit v = {.inside = 0};
    DLTensor in = tutti_tensor_1d(&x, &one, TUTTI_F32);
    DLTensor out = tutti_tensor_1d(&y[2], &one, TUTTI_F32);
    EXPECT_OK(tutti_group_create(world, ranks, 2, TUTTI_CONFIG(.lanes = 2), &g, NULL));
    int32_t peer = 1 - tutti_group_rank(g);
    EXPECT_OK(start_add(g, &x, &y[0], LONG_MS, &v.ended));
    wait_for_it(v.ended);
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = wait_inside, .user = &v), &outer));
    EXPECT(reaches(&v.inside, 1));
    EXPECT_OK(start_add(g, &x, &y[1], LONG_MS, &v.open[0]));
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.lane = 1, .callback = count, .user = (void *)&calls), &v.open[1]));
    EXPECT_OK(tutti_recv_async(g, &out, peer, 5, TUTTI_CALL(.timeout_ms = 2 * LONG_MS), NULL, &v.open[2]));
    reach(&v.open_started, 1);
    EXPECT(reaches(&v.left, 1));
    atomic_fetch_add_explicit(&all_left, 1, memory_order_release);
    EXPECT(reaches(&all_left, 2));
    EXPECT_OK(tutti_send(g, &in, peer, 5, NULL));
    wait_for_it(outer);
    EXPECT_OK(tutti_work_release(outer));
    EXPECT_OK(tutti_work_release(v.ended));
    for (int i = 0; i < 3; i++) {
        wait_for_it(v.open[i]);
        EXPECT_OK(tutti_work_release(v.open[i]));
    }
    EXPECT(atomic_load(&calls) == 1 && y[1] == 2 && y[2] == 1);
    EXPECT_OK(tutti_group_destroy(g, NULL));
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(2, late_in_step);
    test_ranks(2, nothing_behind);
    test_ranks(2, pushes);
    test_ranks(3, polls_never_wait);
    test_ranks(2, waits_inside);
    return test_result();
}
