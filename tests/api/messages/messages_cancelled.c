/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancelling asynchronous messages: from callbacks, while other threads poll them, in a batch, and its visible effects.
 *
 * tutti-test: timeout=240
 */
#include <stdlib.h>

#include "messages_async.h"
#include "spin.h"
#include "time_limits.h"

struct receive {
    struct receive *other;
    tutti_work *work;
    struct recorded recorded;
    tutti_status cancel; /* of the other one */
};

static void cancel_other(tutti_status status, const tutti_error *error, void *user)
{
    struct receive *r = user;
    if (status == TUTTI_OK) {
        r->cancel = tutti_work_cancel(r->other->work, NULL);
    }
    record(status, error, &r->recorded);
}

/* The callback of one receive cancels another: a receive that was posted later, then one that was posted before. */
static tutti_status cancelled_by_a_message(tutti_group *g, void *user)
{
    (void)user;
    for (int32_t comes = 0; comes < 2; comes++) {
        if (tutti_group_rank(g) == 1) {
            EXPECT_OK(tutti_barrier(g, NULL));
            EXPECT_OK(send_value(g, 5, 0, comes));
            continue;
        }
        int32_t values[2] = {-1, -1};
        struct receive r[2] = {{.other = &r[1], .cancel = TUTTI_INTERNAL}, {.other = &r[0], .cancel = TUTTI_INTERNAL}};
        for (int32_t i = 0; i < 2; i++) {
            start_receive(g, &values[i], i, TUTTI_CALL(.callback = cancel_other, .user = &r[i]), &r[i].work);
        }
        EXPECT_OK(tutti_barrier(g, NULL));
        land(r[comes].work, TUTTI_OK);
        land(r[1 - comes].work, TUTTI_CANCELLED);
        EXPECT(r[comes].cancel == TUTTI_OK && values[comes] == 5 && values[1 - comes] == -1);
        EXPECT(r[1 - comes].recorded.status == TUTTI_CANCELLED && r[1 - comes].cancel == TUTTI_INTERNAL);
        EXPECT(atomic_load(&r[0].recorded.calls) == 1 && atomic_load(&r[1].recorded.calls) == 1);
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* The callback of a collective operation cancels a receive, which has a callback too. */
static tutti_status cancelled_by_a_lane(tutti_group *g, void *user)
{
    (void)user;
    static _Atomic int posted;
    if (tutti_group_rank(g) == 1) {
        EXPECT(reaches(&posted, 1));
        EXPECT_OK(tutti_barrier(g, NULL));
        EXPECT_USABLE(g); /* rank 1 must not leave before the cancel */
        return TUTTI_OK;
    }
    int32_t value = -1;
    struct receive r = {.work = NULL};
    struct receive barrier = {.other = &r, .cancel = TUTTI_INTERNAL};
    start_receive(g, &value, NEVER, TUTTI_CALL(.callback = record, .user = &r.recorded), &r.work);
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = cancel_other, .user = &barrier), &barrier.work));
    reach(&posted);
    land(barrier.work, TUTTI_OK);
    EXPECT_OK(barrier.cancel);
    land(r.work, TUTTI_CANCELLED);
    EXPECT(atomic_load(&r.recorded.calls) == 1 && r.recorded.status == TUTTI_CANCELLED);
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* The effect of a cancel is visible at once; a second cancel is OK, before the end and after it. */
static tutti_status cancelled_at_once(tutti_group *g, void *user)
{
    (void)user;
    for (int i = 0; tutti_group_rank(g) == 0 && i < 200; i++) {
        int32_t value = -1;
        int32_t cancelled[2] = {-1, -1};
        tutti_work *work;
        start_receive(g, &value, NEVER, NULL, &work);
        EXPECT_OK(tutti_work_cancel(work, NULL));
        EXPECT_OK(tutti_work_cancelled(work, &cancelled[0]));
        EXPECT_OK(tutti_work_cancel(work, NULL));
        EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_CANCELLED);
        EXPECT_OK(tutti_work_cancel(work, NULL));
        EXPECT_OK(tutti_work_cancelled(work, &cancelled[1]));
        EXPECT(cancelled[0] == 1 && cancelled[1] == 1 && value == -1);
        EXPECT_OK(tutti_work_release(work));
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* Sends are cancelled, the newest first, as long as they have not been announced: exactly those never arrive. */
static tutti_status withdrawn_sends(tutti_group *g, void *user)
{
    (void)user;
    static int32_t values[MANY];
    static _Atomic int left; /* and one more */
    tutti_work *works[MANY];
    if (tutti_group_rank(g) == 1) {
        EXPECT(reaches(&left, 1));
        for (int32_t i = 0; i < atomic_load(&left) - 1; i++) {
            int32_t value = -1;
            DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
            EXPECT_OK(tutti_recv(g, &t, 0, 0, TUTTI_CALL(.timeout_ms = LONG_MS), NULL));
            EXPECT(value == i);
        }
        EXPECT_USABLE(g);
        int32_t found = 1;
        EXPECT_OK(tutti_probe(g, 0, TUTTI_ANY_TAG, &found, NULL, NULL));
        EXPECT(found == 0);
        return TUTTI_OK;
    }
    for (int32_t i = 0; i < MANY; i++) {
        values[i] = i;
        DLTensor t = tutti_tensor_1d(&values[i], &one, TUTTI_I32);
        EXPECT_OK(tutti_send_async(g, &t, 1, 0, NULL, &works[i]));
    }
    int sent = MANY;
    tutti_status status = TUTTI_OK;
    while (sent > 0 && (status = tutti_work_cancel(works[sent - 1], NULL)) == TUTTI_OK) {
        sent--;
    }
    EXPECT(sent == 0 || status == TUTTI_TOO_LATE);
    atomic_store_explicit(&left, sent + 1, memory_order_release);
    for (int i = 0; i < MANY; i++) {
        land(works[i], i < sent ? TUTTI_OK : TUTTI_CANCELLED);
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

struct poller {
    tutti_work *_Atomic work; /* what to poll; perhaps already stale */
    _Atomic int stop;
};

static void *poll_works(void *argument)
{
    struct poller *p = argument;
    while (!atomic_load_explicit(&p->stop, memory_order_relaxed)) {
        int32_t ended;
        tutti_work *work = atomic_load(&p->work);
        if (work) {
            tutti_work_test(work, &ended);
        }
    }
    return NULL;
}

static bool ends_unattended(tutti_work *work)
{
    const struct timespec moment = {.tv_nsec = 50000};
    tutti_error e;
    for (int looks = 0; looks < 400000; looks++) {
        if (tutti_work_error(work, &e) == TUTTI_OK) { /* which transfers nothing */
            return e.status == TUTTI_CANCELLED;
        }
        nanosleep(&moment, NULL);
    }
    return false;
}

/* Receives are cancelled while another thread polls the last of them, and then stops: they end although no thread polls
 * any more. With several receives the worker stays awake: it may run while the poller is there. */
static void cancel_polled(tutti_group *g, struct poller *p, int round)
{
    enum { DEPTH = 6 };
    int32_t values[DEPTH];
    tutti_work *works[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        start_receive(g, &values[i], NEVER, NULL, &works[i]);
    }
    atomic_store(&p->work, works[DEPTH - 1]);
    spin(round * 37 % 2000);
    for (int i = 0; i < DEPTH; i++) {
        if (i == DEPTH - 1) {
            atomic_store(&p->work, NULL);
        }
        EXPECT_OK(tutti_work_cancel(works[i], NULL));
    }
    for (int i = 0; i < DEPTH; i++) {
        EXPECT(ends_unattended(works[i]));
        EXPECT_OK(tutti_work_release(works[i]));
    }
}

static tutti_status cancelled_while_polled(tutti_group *g, void *user)
{
    (void)user;
    struct poller p = {.work = NULL};
    pthread_t thread;
    if (tutti_group_rank(g) == 0) {
        EXPECT(pthread_create(&thread, NULL, poll_works, &p) == 0);
        for (int round = 0; round < 1000; round++) {
            cancel_polled(g, &p, round);
        }
        atomic_store(&p.stop, 1);
        pthread_join(thread, NULL);
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

struct firer {
    tutti_cancel_token *_Atomic token;
    _Atomic int round; /* in which it fires; below 0: it ends */
    _Atomic int fired; /* up to this one */
    int64_t began;     /* of the last one */
};

static void *fire_tokens(void *argument)
{
    struct firer *f = argument;
    for (int round = 1;; round++) {
        int now;
        while ((now = atomic_load(&f->round)) >= 0 && now < round) {
            spin(1);
        }
        if (now < 0) {
            return NULL;
        }
        spin(round * 37 % 3000);
        EXPECT_OK(tutti_cancel_token_cancel(atomic_load(&f->token), &f->began, NULL));
        atomic_store(&f->fired, round);
    }
}

/* Sends a message while its token fires. True if it goes on; then the token has counted it as begun. */
static bool send_beside_firer(tutti_group *g, struct firer *f, const DLTensor *t, int round, tutti_work **work)
{
    tutti_cancel_token *token = NULL;
    int32_t cancelled = 0;
    EXPECT_OK(tutti_cancel_token_create(NULL, -1, &token, NULL));
    atomic_store(&f->token, token);
    atomic_store(&f->round, round);
    spin(round * 13 % 1000);
    const tutti_status status = tutti_send_async(g, t, 1, 0, TUTTI_CALL(.token = token), work);
    while (atomic_load(&f->fired) != round) {
        sched_yield();
    }
    EXPECT(status == TUTTI_OK || status == TUTTI_CANCELLED);
    if (status == TUTTI_OK) {
        EXPECT_OK(tutti_work_cancelled(*work, &cancelled));
        EXPECT(f->began == !cancelled);
    }
    EXPECT_OK(tutti_cancel_token_destroy(token, NULL));
    return status == TUTTI_OK && !cancelled;
}

/* A token that fires while a large message is posted either prevents or withdraws it, or counts it as begun. */
static tutti_status cancelled_while_posted(tutti_group *g, void *user)
{
    (void)user;
    enum { ROUNDS = 600, SENT = 100000 };
    static float data[2][SENT];
    const int64_t sent = SENT;
    int32_t goes_on = 0;
    DLTensor t = tutti_tensor_1d(data[tutti_group_rank(g)], &sent, TUTTI_F32);
    DLTensor next = tutti_tensor_1d(&goes_on, &one, TUTTI_I32);
    if (tutti_group_rank(g) == 1) {
        for (int round = 1; round <= ROUNDS; round++) {
            EXPECT_OK(tutti_recv(g, &next, 0, 1, NULL, NULL));
            if (goes_on) {
                EXPECT_OK(tutti_recv(g, &t, 0, 0, NULL, NULL));
            }
        }
        return TUTTI_OK;
    }
    struct firer f = {.round = 0};
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, fire_tokens, &f) == 0);
    for (int round = 1; round <= ROUNDS; round++) {
        tutti_work *work = NULL;
        goes_on = send_beside_firer(g, &f, &t, round, &work);
        EXPECT_OK(tutti_send(g, &next, 1, 1, NULL));
        if (work) {
            EXPECT(tutti_work_wait(work, LONG_MS) == (goes_on ? TUTTI_OK : TUTTI_CANCELLED));
            EXPECT_OK(tutti_work_release(work));
        }
    }
    atomic_store(&f.round, -1);
    pthread_join(thread, NULL);
    return TUTTI_OK;
}

/* A batch that is cancelled delivers nothing, not even messages of this rank to itself. */
static tutti_status cancelled_batch(tutti_group *g, void *user)
{
    (void)user;
    int32_t me = tutti_group_rank(g);
    int32_t values[3] = {5, -1, -1};
    DLTensor own = tutti_tensor_1d(&values[0], &one, TUTTI_I32);
    DLTensor from_self = tutti_tensor_1d(&values[1], &one, TUTTI_I32);
    DLTensor from_peer = tutti_tensor_1d(&values[2], &one, TUTTI_I32);
    DLManagedTensorVersioned *managed = NULL;
    tutti_message message = TUTTI_MESSAGE_INIT;
    tutti_work *work;
    EXPECT_OK(tutti_batch_begin(g, NULL));
    EXPECT_OK(tutti_send(g, &own, me, 1, NULL));
    EXPECT_OK(tutti_send(g, &own, me, 2, NULL));
    EXPECT_OK(tutti_recv(g, &from_self, me, 1, NULL, &message));
    EXPECT_OK(tutti_recv_alloc(g, me, 2, NULL, &managed, NULL));
    EXPECT_OK(tutti_recv(g, &from_peer, 1 - me, NEVER, NULL, NULL));
    EXPECT_OK(tutti_batch_end_async(g, NULL, &work));
    EXPECT_OK(tutti_work_cancel(work, NULL));
    land(work, TUTTI_CANCELLED);
    EXPECT(values[1] == -1 && values[2] == -1 && message.count == 0 && managed == NULL);
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(2, cancelled_by_a_message);
    test_ranks(2, cancelled_by_a_lane);
    test_ranks(2, cancelled_at_once);
    test_ranks(2, withdrawn_sends);
    test_ranks(2, cancelled_while_polled);
    test_ranks(2, cancelled_batch);
    setenv("TUTTI_ENGINE_ZERO_COPY", "0", 1); /* messages that have begun cannot be withdrawn, as between processes */
    test_ranks(2, cancelled_while_posted);
    return test_result();
}
