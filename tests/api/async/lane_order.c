/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of a lane: operations are queued behind one that cannot end yet because another rank holds it back. Rank 1
 * holds it back until a message from rank 0 releases it, so only the checks of deadlines depend on time.
 */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>

#include "api/check.h"
#include "time_limits.h"

#define LINKS 100 /* operations of `chained` */

static void let_go(tutti_group *g)
{
    int32_t zero = 0;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&zero, &one, TUTTI_I32);
    EXPECT_OK(tutti_send(g, &t, 1, 1, TUTTI_CALL(.timeout_ms = LONG_MS)));
}

static void hold_back(tutti_group *g)
{
    int32_t zero = 1;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&zero, &one, TUTTI_I32);
    EXPECT_OK(tutti_recv(g, &t, 0, 1, TUTTI_CALL(.timeout_ms = LONG_MS), NULL));
}

/* Operations of one lane run in the order of the calls: each takes the sum of its predecessor. */
static tutti_status in_order(tutti_group *g, void *user)
{
    (void)user;
    enum { CHAIN = 20 };
    int64_t x[1000];
    int64_t n = 1000;
    DLTensor t = tutti_tensor_1d(x, &n, TUTTI_I64);
    tutti_work *works[CHAIN];
    for (int64_t i = 0; i < n; i++) {
        x[i] = i;
    }
    if (tutti_group_rank(g) == 1) {
        hold_back(g);
    }
    for (int i = 0; i < CHAIN; i++) {
        EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &works[i]));
    }
    if (tutti_group_rank(g) == 0) {
        int32_t ended = 1;
        EXPECT_OK(tutti_work_test(works[CHAIN - 1], &ended));
        EXPECT(!ended);
        tutti_error e;
        EXPECT_ERROR(&e, TUTTI_BAD_STATE, "not ended", tutti_work_error(works[CHAIN - 1], &e));
        EXPECT(tutti_work_wait(works[CHAIN - 1], 1) == TUTTI_BUSY);
        EXPECT_ERROR(&e, TUTTI_BUSY, "pending", tutti_group_destroy(g, &e));
        let_go(g);
    }
    EXPECT_OK(tutti_all_reduce(g, &t, &t, TUTTI_SUM, NULL)); /* a synchronous call runs after them */
    for (int i = CHAIN - 1; i >= 0; i--) {
        EXPECT_OK(tutti_work_wait(works[i], -1)); /* the last one has run, but may not have published its end yet */
        EXPECT_OK(tutti_work_release(works[i]));
    }
    for (int64_t i = 0; i < n; i++) {
        EXPECT(x[i] == i << (CHAIN + 1));
    }
    EXPECT_OK(tutti_group_destroy(g, NULL));
    return TUTTI_OK;
}

/* Lanes do not wait for one another. */
static tutti_status other_lane(tutti_group *parent, void *user)
{
    (void)user;
    int32_t ranks[2] = {0, 1};
    tutti_group *g;
    EXPECT_OK(tutti_group_create(parent, ranks, 2, TUTTI_CONFIG(.lanes = 3), &g, NULL));
    tutti_work *held = NULL;
    if (tutti_group_rank(g) == 0) {
        EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.lane = 1), &held));
    }
    tutti_work *work;
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.lane = 2), &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_barrier(g, NULL));
    if (tutti_group_rank(g) == 1) {
        EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.lane = 1), &held));
    }
    EXPECT_OK(tutti_work_wait(held, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(held));
    EXPECT_OK(tutti_group_destroy(g, NULL));
    return TUTTI_OK;
}

/* Rank 1 never makes the call that rank 0 waits in; it waits for a message that is never sent. */
static void wait_for_failure(tutti_group *g)
{
    int32_t zero = 0;
    int64_t one = 1;
    DLTensor t = tutti_tensor_1d(&zero, &one, TUTTI_I32);
    EXPECT(tutti_recv(g, &t, 0, 2, TUTTI_CALL(.timeout_ms = LONG_MS), NULL) == TUTTI_REVOKED);
    EXPECT(tutti_barrier(g, NULL) == TUTTI_REVOKED);
}

/* An operation that becomes late in the queue of its lane: TIMEOUT, which names the rank that delays all others. The
 * group fails. */
static tutti_status late_in_the_queue(tutti_group *g, void *user)
{
    (void)user;
    int32_t me = tutti_group_rank(g);
    tutti_error e;
    if (me == 1) {
        wait_for_failure(g);
        return TUTTI_OK;
    }
    tutti_work *first;
    tutti_work *second;
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.timeout_ms = LONG_MS), &first));
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.timeout_ms = 30), &second));
    EXPECT(tutti_work_wait(second, TUTTI_FOREVER) == TUTTI_TIMEOUT);
    EXPECT_OK(tutti_work_error(second, &e));
    EXPECT(e.deadline_ms == 30 && e.elapsed_ms >= 30 && e.scope == TUTTI_SCOPE_GROUP);
    EXPECT(tutti_work_wait(first, TUTTI_FOREVER) == TUTTI_REVOKED);
    EXPECT_OK(tutti_group_error(g, &e));
    EXPECT(e.status == TUTTI_TIMEOUT && e.suspect == 1);
    EXPECT_OK(tutti_work_release(first));
    EXPECT_OK(tutti_work_release(second));
    return TUTTI_OK;
}

/* The same for a synchronous call behind an asynchronous one. */
static tutti_status late_in_line(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    if (tutti_group_rank(g) == 1) {
        wait_for_failure(g);
        return TUTTI_OK;
    }
    tutti_work *first;
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.timeout_ms = LONG_MS), &first));
    EXPECT_ERROR(&e, TUTTI_TIMEOUT, "waited", tutti_barrier(g, TUTTI_CALL(.timeout_ms = 30, .error = &e)));
    EXPECT(e.elapsed_ms >= 30 && e.operation == TUTTI_OP_BARRIER && e.suspect == 1);
    const char *found = strstr(e.message, "behind other operations of rank 0");
    EXPECT(found && strstr(found, "not arrived there: rank 1") && !strstr(found + 1, "behind other operations"));
    EXPECT(tutti_work_wait(first, TUTTI_FOREVER) == TUTTI_REVOKED);
    EXPECT_OK(tutti_work_release(first));
    return TUTTI_OK;
}

struct seen {
    _Atomic int calls;
    pthread_t caller;
    bool anywhere;
    tutti_group *group;
    tutti_work *own; /* written by the starter before it releases the other rank */
    tutti_work *next;
    tutti_status inside[4];
};

static void check_inside(tutti_status status, const tutti_error *error, void *user)
{
    struct seen *s = user;
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK && error->operation == TUTTI_OP_BARRIER);
    EXPECT(s->anywhere || !pthread_equal(pthread_self(), s->caller));
    s->inside[0] = tutti_barrier(s->group, NULL);
    s->inside[1] = tutti_barrier_async(s->group, NULL, &s->next);
    s->inside[2] = s->next ? tutti_work_wait(s->next, TUTTI_FOREVER) : TUTTI_INTERNAL;
    s->inside[3] = tutti_work_wait(s->own, TUTTI_FOREVER); /* a callback may wait for its own work, which has ended */
    atomic_fetch_add_explicit(&s->calls, 1, memory_order_release);
}

/* Callbacks come once, on another thread unless the flag says otherwise, before a wait returns. They may start but not
 * wait. */
static tutti_status callbacks(tutti_group *g, uint32_t flags)
{
    struct seen s = {.caller = pthread_self(), .anywhere = flags != 0, .group = g};
    tutti_error e;
    memset(&e, 0x5a, sizeof(e));
    if (tutti_group_rank(g) == 1) {
        hold_back(g);
    }
    EXPECT_OK(
        tutti_barrier_async(g, TUTTI_CALL(.flags = flags, .callback = check_inside, .user = &s, .error = &e), &s.own));
    EXPECT(e.status == TUTTI_OK);
    memset(&e, 0x5a, sizeof(e));
    if (tutti_group_rank(g) == 0) {
        let_go(g);
    }
    EXPECT_OK(tutti_work_wait(s.own, TUTTI_FOREVER));
    EXPECT(atomic_load_explicit(&s.calls, memory_order_acquire) == 1);
    EXPECT(s.inside[0] == TUTTI_WOULD_DEADLOCK && s.inside[1] == TUTTI_OK && s.inside[3] == TUTTI_OK);
    EXPECT(s.inside[2] == TUTTI_WOULD_DEADLOCK || s.inside[2] == TUTTI_OK);
    EXPECT_OK(tutti_work_wait(s.next, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(s.next));
    EXPECT_OK(tutti_work_release(s.own));
    const unsigned char *bytes = (const unsigned char *)&e;
    for (size_t i = 0; i < sizeof(e); i++) {
        EXPECT(bytes[i] == 0x5a); /* .error is not written after the call has returned */
    }
    return TUTTI_OK;
}

static tutti_status callbacks_on_worker(tutti_group *g, void *user)
{
    (void)user;
    return callbacks(g, 0);
}

static tutti_status callbacks_anywhere(tutti_group *g, void *user)
{
    (void)user;
    return callbacks(g, TUTTI_CALLBACK_ANYWHERE);
}

struct chain {
    tutti_group *group;
    int left;  /* under the lock of the group's callbacks */
    int depth; /* the same */
    tutti_work *works[LINKS];
    _Atomic int ended; /* release by a callback, acquire by the thread that waits */
};

static tutti_status start_next(struct chain *c);

static void start_another(tutti_status status, const tutti_error *error, void *user)
{
    struct chain *c = user;
    EXPECT(status == TUTTI_OK && error->status == TUTTI_OK && c->depth == 0);
    c->depth++;
    if (c->left > 0) {
        EXPECT_OK(start_next(c));
    }
    c->depth--;
    atomic_fetch_add_explicit(&c->ended, 1, memory_order_release);
}

static tutti_status start_next(struct chain *c)
{
    const tutti_call *call = TUTTI_CALL(.flags = TUTTI_CALLBACK_ANYWHERE, .callback = start_another, .user = c);
    c->left--;
    return tutti_barrier_async(c->group, call, &c->works[c->left]);
}

/* A callback that may run anywhere does not run inside another one, also if the operation ends in its start. No thread
 * waits for the operations. */
static tutti_status chained(tutti_group *g, void *user)
{
    (void)user;
    struct chain c = {.group = g, .left = LINKS};
    EXPECT_OK(start_next(&c));
    while (atomic_load_explicit(&c.ended, memory_order_acquire) < LINKS) {
        sched_yield();
    }
    for (int i = 0; i < LINKS; i++) {
        EXPECT_OK(tutti_work_wait(c.works[i], TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(c.works[i]));
    }
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* A descriptor becomes readable at the end, whenever it was opened, and a released operation continues. */
static tutti_status descriptors(tutti_group *g, void *user)
{
    (void)user;
    float x[3] = {1, 2, 3};
    int64_t n = 3;
    DLTensor t = tutti_tensor_1d(x, &n, TUTTI_F32);
    tutti_work *work;
    tutti_work *forgotten;
    int fd = -1;
    int again = -1;
    if (tutti_group_rank(g) == 1) {
        hold_back(g);
    }
    EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &work));
    EXPECT_OK(tutti_work_eventfd(work, &fd, NULL));
    EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &forgotten));
    EXPECT_OK(tutti_work_release(forgotten));
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (tutti_group_rank(g) == 0) {
        EXPECT(poll(&p, 1, 0) == 0);
        let_go(g);
    }
    EXPECT(poll(&p, 1, LONG_MS) == 1 && (p.revents & POLLIN));
    EXPECT(tutti_work_wait(work, 0) == TUTTI_OK);
    EXPECT_OK(tutti_work_eventfd(work, &again, NULL));
    EXPECT(again == fd && poll(&p, 1, 0) == 1);
    DLTensor view;
    EXPECT_OK(tutti_work_result(work, &view, NULL));
    EXPECT(view.data == x && view.ndim == 1 && view.shape[0] == 3 && view.shape != &n);
    EXPECT_OK(tutti_work_release(work));
    EXPECT_USABLE(g); /* the released operation comes first */
    EXPECT(x[0] == 4 && x[1] == 8 && x[2] == 12);
    EXPECT_OK(tutti_barrier_async(g, NULL, &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_eventfd(work, &fd, NULL)); /* opened after the end */
    p.fd = fd;
    EXPECT(poll(&p, 1, 0) == 1);
    EXPECT_OK(tutti_work_release(work));
    return TUTTI_OK;
}

/* A token that fires before the start, behind it, and for a waiter only. */
static tutti_status tokens(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_cancel_token *token;
    tutti_work *first = NULL;
    tutti_work *queued = NULL;
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, NULL));
    if (tutti_group_rank(g) == 1) {
        hold_back(g);
    }
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.token = token), &first));
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.token = tutti_group_rank(g) == 0 ? token : NULL), &queued));
    if (tutti_group_rank(g) == 0) {
        int64_t began = -1;
        EXPECT_ERROR(&e, TUTTI_BUSY, "limit", tutti_work_wait_token(first, 1, token, &e));
        EXPECT_OK(tutti_cancel_token_cancel(token, &began, NULL));
        EXPECT(began == 1); /* the first has arrived */
        EXPECT_ERROR(&e, TUTTI_CANCELLED, "token", tutti_work_wait_token(first, TUTTI_FOREVER, token, &e));
        EXPECT(e.scope == TUTTI_SCOPE_CALL);
        tutti_work *work = NULL;
        EXPECT_ERROR(&e, TUTTI_CANCELLED, "fired",
                     tutti_barrier_async(g, TUTTI_CALL(.token = token, .error = &e), &work));
        EXPECT(work == NULL);
        let_go(g);
    }
    EXPECT_OK(tutti_work_wait(first, TUTTI_FOREVER));
    EXPECT(tutti_work_wait(queued, TUTTI_FOREVER) == TUTTI_CANCELLED);
    int32_t cancelled = 0;
    EXPECT_OK(tutti_work_cancelled(queued, &cancelled));
    EXPECT(cancelled == 1);
    EXPECT_OK(tutti_work_error(queued, &e));
    EXPECT(e.suspect == 0 && e.scope == TUTTI_SCOPE_WORK && strstr(e.message, "rank 0") != NULL);
    EXPECT_OK(tutti_work_release(first));
    EXPECT_OK(tutti_work_release(queued));
    EXPECT_OK(tutti_cancel_token_destroy(token, NULL));
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

int main(void)
{
    test_ranks(2, in_order);
    test_ranks(2, other_lane);
    test_ranks(2, late_in_the_queue);
    test_ranks(2, late_in_line);
    test_ranks(2, callbacks_on_worker);
    test_ranks(2, callbacks_anywhere);
    test_ranks(1, chained);
    test_ranks(2, chained);
    test_ranks(2, descriptors);
    test_ranks(2, tokens);
    return test_result();
}
