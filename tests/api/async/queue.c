/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queues. Rank 0 fills them with receives and decides when each of them ends: rank 1 sends on request. So only the
 * check that a thread is asleep depends on the kernel; nothing depends on time.
 */
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/check.h"
#include "time_limits.h"

#define COMMAND    1000 /* tag of the messages that rank 1 obeys */
#define STOP       -1
#define JOIN       -2 /* take part in a barrier */
#define JOIN_CHILD -3 /* make a group; at the next JOIN, take part in its barrier */
#define MANY       1000

static const int64_t one = 1;

static tutti_group *make_child(tutti_group *g)
{
    tutti_group *child = NULL;
    EXPECT_OK(tutti_group_create(g, (const int32_t[]){0, 1}, 2, NULL, &child, NULL));
    return child;
}

static int32_t next_command(tutti_group *g)
{
    int32_t what = STOP;
    DLTensor t = tutti_tensor_1d(&what, &one, TUTTI_I32);
    EXPECT_OK(tutti_recv(g, &t, 0, COMMAND, TUTTI_CALL(.timeout_ms = 2 * LONG_MS), NULL));
    return what;
}

static void obey(tutti_group *g)
{
    int32_t what;
    while ((what = next_command(g)) != STOP) {
        if (what == JOIN) {
            EXPECT_OK(tutti_barrier(g, NULL));
        } else if (what == JOIN_CHILD) {
            tutti_group *child = make_child(g);
            EXPECT(next_command(g) == JOIN);
            EXPECT_OK(tutti_barrier(child, NULL));
            EXPECT_OK(tutti_group_destroy(child, NULL));
        } else {
            int32_t value = what * 10;
            DLTensor answer = tutti_tensor_1d(&value, &one, TUTTI_I32);
            EXPECT_OK(tutti_send(g, &answer, 0, what, TUTTI_CALL(.timeout_ms = LONG_MS)));
        }
    }
}

static void command(tutti_group *g, int32_t what)
{
    DLTensor t = tutti_tensor_1d(&what, &one, TUTTI_I32);
    EXPECT_OK(tutti_send(g, &t, 1, COMMAND, TUTTI_CALL(.timeout_ms = LONG_MS)));
}

/* A receive that ends after `command(g, tag)`. */
static tutti_work *post(tutti_group *g, int32_t *buffer, int32_t tag)
{
    tutti_work *work = NULL;
    *buffer = -1;
    DLTensor t = tutti_tensor_1d(buffer, &one, TUTTI_I32);
    EXPECT_OK(tutti_recv_async(g, &t, 1, tag, TUTTI_CALL(.timeout_ms = 2 * LONG_MS), NULL, &work));
    return work;
}

static tutti_queue *make(void)
{
    tutti_error e;
    tutti_queue *queue = NULL;
    EXPECT_OK(tutti_queue_create(&queue, &e));
    EXPECT(queue && e.status == TUTTI_OK);
    return queue;
}

static void add(tutti_queue *queue, tutti_work *work)
{
    tutti_error e;
    EXPECT_OK(tutti_queue_enqueue(queue, work, &e));
    EXPECT(e.status == TUTTI_OK);
}

static int64_t count(tutti_queue *queue)
{
    int64_t n = -1;
    EXPECT_OK(tutti_queue_count(queue, &n));
    return n;
}

static int64_t pending(tutti_queue *queue)
{
    int64_t n = -1;
    EXPECT_OK(tutti_queue_pending(queue, &n));
    return n;
}

static int64_t clear(tutti_queue *queue)
{
    int64_t n = -1;
    EXPECT_OK(tutti_queue_clear_completed(queue, &n));
    return n;
}

static int64_t any(tutti_queue *queue, int64_t limit_ms)
{
    tutti_error e;
    int64_t index = -7;
    EXPECT_OK(tutti_queue_wait_any(queue, limit_ms, &index, &e));
    EXPECT(e.status == TUTTI_OK);
    return index;
}

static void destroy(tutti_queue *queue)
{
    tutti_error e;
    EXPECT_OK(tutti_queue_destroy(queue, &e));
    EXPECT(e.status == TUTTI_OK && tutti_queue_count(queue, &(int64_t){0}) == TUTTI_BAD_STATE);
}

/* ---- alone ------------------------------------------------------------------------------------------------------ */

static void indices(tutti_group *g)
{
    int32_t got[4];
    tutti_error e;
    DLTensor view;
    tutti_queue *queue = make();
    EXPECT(count(queue) == 0 && pending(queue) == 0 && clear(queue) == 0);
    for (int32_t i = 0; i < 4; i++) {
        add(queue, post(g, &got[i], i));
    }
    EXPECT(count(queue) == 4 && pending(queue) == 4);
    EXPECT(any(queue, 0) == -1 && any(queue, 10) == -1);
    EXPECT(clear(queue) == 0);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "member 2 has not ended", tutti_queue_status(queue, 2, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "member 2 has not ended", tutti_queue_result(queue, 2, &view, &e));
    command(g, 2);
    EXPECT(any(queue, TUTTI_FOREVER) == 2);
    EXPECT(any(queue, 0) == 2 && got[2] == 20);
    EXPECT(count(queue) == 4 && pending(queue) == 3);
    EXPECT_OK(tutti_queue_status(queue, 2, &e));
    EXPECT(e.status == TUTTI_OK && e.operation == TUTTI_OP_RECV);
    EXPECT_OK(tutti_queue_result(queue, 2, &view, &e));
    EXPECT(view.data == &got[2] && view.ndim == 1 && view.shape[0] == 1);
    EXPECT(clear(queue) == 1 && count(queue) == 3 && pending(queue) == 3);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "member 2 has not ended",
                 tutti_queue_status(queue, 2, &e)); /* member 3 is here now */
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "member 3", tutti_queue_status(queue, 3, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "member -1", tutti_queue_status(queue, -1, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "member 3", tutti_queue_result(queue, 3, &view, &e));
    command(g, 3);
    EXPECT(any(queue, LONG_MS) == 2);
    command(g, 0);
    while (any(queue, LONG_MS) == 2) { /* the first member that has ended: 0, as soon as it has */
        sched_yield();
    }
    EXPECT(any(queue, LONG_MS) == 0);
    command(g, 1);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, &e));
    EXPECT(e.status == TUTTI_OK && pending(queue) == 0 && count(queue) == 3);
    EXPECT(got[0] == 0 && got[1] == 10 && got[3] == 30);
    EXPECT_OK(tutti_queue_clear_completed(queue, NULL));
    EXPECT(count(queue) == 0 && any(queue, TUTTI_FOREVER) == -1); /* does not wait for what never comes */
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    destroy(queue);
}

static void time_limits(tutti_group *g)
{
    int32_t got[2];
    tutti_error e;
    tutti_queue *queue = make();
    add(queue, post(g, &got[0], 0));
    add(queue, post(g, &got[1], 1));
    EXPECT_ERROR(&e, TUTTI_BUSY, "2 of 2", tutti_queue_wait_all(queue, 0, &e));
    EXPECT_ERROR(&e, TUTTI_BUSY, "2 of 2", tutti_queue_wait_all(queue, 15, &e));
    EXPECT(e.deadline_ms == 15);
    command(g, 1);
    EXPECT(any(queue, LONG_MS) == 1);
    EXPECT_ERROR(&e, TUTTI_BUSY, "1 of 2", tutti_queue_wait_all(queue, 15, &e));
    EXPECT(pending(queue) == 1);
    command(g, 0);
    EXPECT_OK(tutti_queue_wait_all(queue, LONG_MS, &e));
    EXPECT_OK(tutti_queue_wait_all(queue, 0, &e));
    destroy(queue);
    /* a thread that only polls sees the end as well */
    queue = make();
    for (int look = 0; look < 3; look++) {
        add(queue, post(g, &got[0], 5));
        command(g, 5);
        time_t until = time(NULL) + LIMIT_S;
        bool open = true;
        while (open && time(NULL) < until) {
            open = look == 0   ? pending(queue) > 0
                   : look == 1 ? tutti_queue_wait_all(queue, 0, NULL) == TUTTI_BUSY
                               : any(queue, 0) < 0;
            sched_yield();
        }
        EXPECT(!open && clear(queue) == 1);
    }
    destroy(queue);
}

static void ownership(tutti_group *g)
{
    int32_t got[3];
    tutti_error e;
    int32_t ended;
    tutti_queue *queue = make();
    tutti_queue *other = make();
    tutti_work *work = post(g, &got[0], 0);
    tutti_work *free_one = post(g, &got[1], 1);
    add(queue, work);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "in a queue already", tutti_queue_enqueue(queue, work, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "in a queue already", tutti_queue_enqueue(other, work, &e));
    EXPECT(count(queue) == 1 && count(other) == 0);
    command(g, 1);
    EXPECT_OK(tutti_work_wait(free_one, TUTTI_FOREVER));
    add(other, free_one); /* one that has ended */
    EXPECT(pending(other) == 0 && any(other, 0) == 0);
    command(g, 0);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    EXPECT_OK(tutti_work_test(work, &ended)); /* still a handle, though the queue's */
    EXPECT(clear(queue) == 1);
    EXPECT(tutti_work_test(work, &ended) == TUTTI_BAD_STATE);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "released", tutti_queue_enqueue(queue, work, &e));
    destroy(other);
    EXPECT(tutti_work_test(free_one, &ended) == TUTTI_BAD_STATE);
    /* a member whose handle another thread releases nevertheless */
    work = post(g, &got[2], 2);
    add(queue, work);
    EXPECT_OK(tutti_work_release(work));
    command(g, 2);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    EXPECT(got[2] == 20 && clear(queue) == 1);
    destroy(queue);
}

/* The first error in the order of the members, not in the order of their ends. */
static void errors(tutti_group *g)
{
    int32_t got[4];
    int16_t small = 0;
    tutti_error e;
    DLTensor view;
    tutti_queue *queue = make();
    DLTensor t = tutti_tensor_1d(&small, &one, TUTTI_I16);
    tutti_work *mismatch = NULL;
    add(queue, post(g, &got[0], 0));
    EXPECT_OK(tutti_recv_async(g, &t, 1, 1, NULL, NULL, &mismatch));
    add(queue, mismatch);
    tutti_work *cancelled = post(g, &got[2], 2);
    EXPECT_OK(tutti_work_cancel(cancelled, &e));
    EXPECT(tutti_work_wait(cancelled, TUTTI_FOREVER) == TUTTI_CANCELLED);
    add(queue, cancelled);
    EXPECT(any(queue, TUTTI_FOREVER) == 2);
    EXPECT_ERROR(&e, TUTTI_BUSY, "2 of 3", tutti_queue_wait_all(queue, 0, &e)); /* no error before all have ended */
    command(g, 0);
    command(g, 1);
    EXPECT_ERROR(&e, TUTTI_MISMATCH, "i16", tutti_queue_wait_all(queue, TUTTI_FOREVER, &e));
    EXPECT(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL) == TUTTI_MISMATCH); /* and again */
    EXPECT_OK(tutti_queue_status(queue, 0, &e));
    EXPECT(e.status == TUTTI_OK);
    EXPECT_OK(tutti_queue_status(queue, 1, &e));
    EXPECT(e.status == TUTTI_MISMATCH);
    EXPECT_OK(tutti_queue_status(queue, 2, &e));
    EXPECT(e.status == TUTTI_CANCELLED);
    EXPECT_ERROR(&e, TUTTI_CANCELLED, "", tutti_queue_result(queue, 2, &view, &e));
    EXPECT(clear(queue) == 3);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, &e)); /* its errors have gone with the members */
    t = tutti_tensor_1d(&got[1], &one, TUTTI_I32);
    EXPECT_OK(tutti_recv(g, &t, 1, 1, TUTTI_CALL(.timeout_ms = LONG_MS), NULL)); /* what did not fit has stayed */
    destroy(queue);
}

static void cancelling(tutti_group *g)
{
    int32_t got[3];
    int64_t began = -1;
    tutti_error e;
    tutti_work *barrier = NULL;
    tutti_queue *queue = make();
    EXPECT_OK(tutti_queue_cancel_all(queue, &began));
    EXPECT(began == 0);
    add(queue, post(g, &got[0], 0));
    command(g, 0);
    EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    add(queue, post(g, &got[1], 1));
    EXPECT_OK(tutti_barrier_async(g, NULL, &barrier)); /* arrives at once: too late */
    add(queue, barrier);
    add(queue, post(g, &got[2], 2));
    EXPECT_OK(tutti_queue_cancel_all(queue, &began));
    EXPECT(began == 1); /* a member that has ended does not count */
    EXPECT_OK(tutti_queue_cancel_all(queue, NULL));
    time_t until = time(NULL) + LIMIT_S;
    while (pending(queue) > 1 && time(NULL) < until) { /* the cancelled ones end by themselves, on some thread */
        sched_yield();
    }
    EXPECT(pending(queue) == 1);
    command(g, JOIN);
    EXPECT_ERROR(&e, TUTTI_CANCELLED, "", tutti_queue_wait_all(queue, TUTTI_FOREVER, &e));
    const tutti_status want[4] = {TUTTI_OK, TUTTI_CANCELLED, TUTTI_OK, TUTTI_CANCELLED};
    for (int i = 0; i < 4; i++) {
        EXPECT_OK(tutti_queue_status(queue, i, &e));
        EXPECT(e.status == want[i]);
    }
    destroy(queue);
}

/* Destroying releases the handles; the operations continue, and their buffers stay in use until they end. */
static void destroying(tutti_group *g)
{
    int32_t got[2];
    int32_t later;
    int32_t ended;
    tutti_work *works[2];
    tutti_work *barrier = NULL;
    tutti_error e;
    tutti_queue *queue = make();
    for (int32_t i = 0; i < 2; i++) {
        works[i] = post(g, &got[i], i);
        add(queue, works[i]);
    }
    EXPECT_OK(tutti_barrier_async(g, NULL, &barrier));
    add(queue, barrier);
    destroy(queue);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_queue_destroy(queue, &e));
    EXPECT(tutti_work_test(works[0], &ended) == TUTTI_BAD_STATE && tutti_work_test(barrier, &ended) == TUTTI_BAD_STATE);
    command(g, JOIN);
    /* the first messages of those tags go to the receives that the queue held, although those had not begun */
    queue = make();
    for (int32_t i = 0; i < 2; i++) {
        add(queue, post(g, &later, i));
        command(g, i);
        command(g, i);
        EXPECT_OK(tutti_queue_wait_all(queue, TUTTI_FOREVER, NULL));
    }
    EXPECT(got[0] == 0 && got[1] == 10 && later == 10);
    destroy(queue);
    /* no other call uses this group, and no thread waits: the barrier must end all the same */
    queue = make();
    command(g, JOIN_CHILD);
    tutti_group *child = make_child(g);
    EXPECT_OK(tutti_barrier_async(child, NULL, &barrier));
    add(queue, barrier);
    destroy(queue);
    command(g, JOIN);
    tutti_status status = TUTTI_BUSY;
    for (time_t until = time(NULL) + LIMIT_S; status == TUTTI_BUSY && time(NULL) < until; sched_yield()) {
        status = tutti_group_destroy(child, NULL);
    }
    EXPECT_OK(status);
}

/* ---- in a callback ---------------------------------------------------------------------------------------------- */

struct in_callback {
    tutti_queue *open;  /* has an open member of the group */
    tutti_queue *ended; /* has the operation of this callback */
    _Atomic int calls;
};

static void call_back(tutti_status status, const tutti_error *error, void *user)
{
    struct in_callback *c = user;
    tutti_error e;
    int64_t index = -7;
    (void)error;
    EXPECT_OK(status);
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_queue_wait_all(c->open, TUTTI_FOREVER, &e));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_queue_wait_all(c->open, 1, &e));
    EXPECT_ERROR(&e, TUTTI_WOULD_DEADLOCK, "callback", tutti_queue_wait_any(c->open, 1, &index, &e));
    EXPECT(index == -7);
    EXPECT_ERROR(&e, TUTTI_BUSY, "1 of 1", tutti_queue_wait_all(c->open, 0, &e));
    EXPECT(any(c->open, 0) == -1 && count(c->open) == 1 && pending(c->open) == 1);
    /* its own operation has ended for it: there is nothing to wait for */
    EXPECT(any(c->ended, TUTTI_FOREVER) == 0 && pending(c->ended) == 0);
    EXPECT_OK(tutti_queue_wait_all(c->ended, TUTTI_FOREVER, &e));
    EXPECT_OK(tutti_queue_status(c->ended, 0, &e));
    EXPECT(clear(c->ended) == 1 && count(c->ended) == 0);
    atomic_fetch_add(&c->calls, 1);
}

static void from_callbacks(tutti_group *g)
{
    int32_t got[2];
    struct in_callback c = {.open = make(), .ended = make()};
    tutti_work *work = NULL;
    DLTensor t = tutti_tensor_1d(&got[0], &one, TUTTI_I32);
    EXPECT_OK(tutti_recv_async(g, &t, 1, 0, TUTTI_CALL(.callback = call_back, .user = &c), NULL, &work));
    add(c.ended, work);
    add(c.open, post(g, &got[1], 1));
    command(g, 0);
    EXPECT_OK(tutti_queue_wait_all(c.ended, TUTTI_FOREVER, NULL));
    time_t until = time(NULL) + LIMIT_S;
    while (atomic_load(&c.calls) == 0 && time(NULL) < until) { /* cleared in the callback: no thread waits for it */
        sched_yield();
    }
    EXPECT(atomic_load(&c.calls) == 1);
    command(g, 1);
    EXPECT_OK(tutti_queue_wait_all(c.open, TUTTI_FOREVER, NULL));
    destroy(c.open);
    destroy(c.ended);
}

/* ---- many members ----------------------------------------------------------------------------------------------- */

static void many(tutti_group *g)
{
    static int64_t values[2][MANY];
    int64_t *own = values[tutti_group_rank(g)];
    tutti_error e;
    DLTensor view;
    tutti_queue *queue = make();
    for (int round = 0; round < 3; round++) {
        for (int64_t i = 0; i < MANY; i++) {
            tutti_work *work = NULL;
            DLTensor t = tutti_tensor_1d(&own[i], &one, TUTTI_I64);
            own[i] = i + round;
            EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, NULL, &work));
            add(queue, work);
        }
        EXPECT(count(queue) == MANY);
        EXPECT_OK(tutti_queue_wait_all(queue, round == 1 ? LONG_MS : TUTTI_FOREVER, &e));
        EXPECT(pending(queue) == 0);
        bool right = true;
        for (int64_t i = 0; i < MANY; i++) {
            right = right && tutti_queue_result(queue, i, &view, &e) == TUTTI_OK && view.data == &own[i] &&
                    own[i] == 2 * (i + round);
        }
        EXPECT(right);
        EXPECT(clear(queue) == MANY && count(queue) == 0);
    }
    destroy(queue);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    if (tutti_group_rank(g) == 0) {
        indices(g);
        time_limits(g);
        ownership(g);
        errors(g);
        cancelling(g);
        destroying(g);
        from_callbacks(g);
        command(g, STOP);
    } else {
        obey(g);
    }
    many(g);
    EXPECT_USABLE(g);
    return TUTTI_OK;
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static void forked(void)
{
    tutti_queue *queue = make();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        tutti_error e;
        int64_t n;
        EXPECT(tutti_queue_count(queue, &n) == TUTTI_FORKED && tutti_queue_pending(queue, &n) == TUTTI_FORKED);
        EXPECT(tutti_queue_clear_completed(queue, &n) == TUTTI_FORKED &&
               tutti_queue_cancel_all(queue, &n) == TUTTI_FORKED);
        EXPECT_ERROR(&e, TUTTI_FORKED, "fork", tutti_queue_wait_all(queue, 0, &e));
        EXPECT_ERROR(&e, TUTTI_FORKED, "fork", tutti_queue_wait_any(queue, 0, &n, &e));
        EXPECT_ERROR(&e, TUTTI_FORKED, "fork", tutti_queue_status(queue, 0, &e));
        EXPECT_ERROR(&e, TUTTI_FORKED, "fork", tutti_queue_destroy(queue, &e));
        destroy(make());
        _exit(test_result());
    }
    int status = -1;
    EXPECT(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0);
    destroy(queue);
}

int main(void)
{
    forked();
    test_ranks(2, rank);
    return test_result();
}
