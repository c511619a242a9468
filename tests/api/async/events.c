/* SPDX-License-Identifier: BSD-3-Clause */
/* Handlers of real operations: called once each, before a wait returns, for every end and on every lane. */
#include <sched.h>
#include <stdlib.h>

#include "api/check.h"
#include "start_functions.h"

#define RANKS      2
#define LANES      4
#define OPERATIONS 100 /* in each lane */

static const int64_t one = 1;

/* The events that a handler got. */
struct recorded {
    _Atomic int calls;
    tutti_status status;
    tutti_operation operation;
    int32_t lane;
    int64_t operation_id;
    tutti_work *work;
    tutti_error error;
};

static void record(const tutti_event *event, void *user)
{
    struct recorded *h = user;
    EXPECT(event->size == sizeof(*event) && event->error && event->error->status == event->status);
    h->status = event->status;
    h->operation = event->operation;
    h->lane = event->lane;
    h->operation_id = event->operation_id;
    h->work = event->work;
    h->error = *event->error;
    atomic_fetch_add(&h->calls, 1);
}

static void every_kind(tutti_group *g)
{
    tutti_error e;
    tutti_events *events = NULL;
    tutti_work *work = NULL;
    tutti_work *numbered = NULL;
    struct recorded complete = {0};
    struct recorded failed = {0};
    struct recorded handler = {0};
    struct recorded second = {0};
    int32_t value = 1;
    int64_t listener = 0;
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_OK(tutti_events_on_complete(events, record, &complete, &listener, &e));
    EXPECT_OK(tutti_events_on_error(events, record, &failed, NULL, &e));
    EXPECT_OK(tutti_events_on_operation(events, 42, record, &second, NULL, &e));
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.lane = 2), &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT(atomic_load(&complete.calls) == 1 && complete.operation == TUTTI_OP_BARRIER && complete.lane == 2);
    EXPECT(complete.operation_id == 0 && complete.work == work && complete.error.rank == tutti_group_rank(g));
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(
        tutti_events_start(events, 42, start_sum, &value, TUTTI_CALL(.lane = 3), record, &handler, &numbered, &e));
    EXPECT(e.status == TUTTI_OK);
    EXPECT_OK(tutti_work_wait(numbered, TUTTI_FOREVER));
    EXPECT(value == RANKS && atomic_load(&handler.calls) == 1 && atomic_load(&second.calls) == 1);
    EXPECT(handler.operation == TUTTI_OP_ALL_REDUCE && handler.lane == 3 && handler.operation_id == 42);
    EXPECT(handler.work == numbered && atomic_load(&complete.calls) == 2 && complete.operation_id == 42);
    EXPECT_OK(tutti_work_release(numbered));
    /* without a place for the work, the library releases it at once */
    int32_t ended;
    EXPECT_OK(tutti_events_start(events, 43, start_sum, &value, NULL, record, &handler, NULL, &e));
    EXPECT_OK(tutti_barrier(g, NULL)); /* in the same lane */
    EXPECT(atomic_load(&handler.calls) == 2 && tutti_work_test(handler.work, &ended) == TUTTI_BAD_STATE);
    /* synchronous operations do not call it */
    EXPECT_USABLE(g);
    EXPECT(atomic_load(&complete.calls) == 3 && atomic_load(&failed.calls) == 0);
    EXPECT_OK(tutti_events_remove(events, listener, &e));
    EXPECT_ERROR(&e, TUTTI_NOT_FOUND, "events_remove", tutti_events_remove(events, listener, &e));
    EXPECT_OK(tutti_barrier_async(g, NULL, &work));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
    EXPECT(atomic_load(&complete.calls) == 3);
    EXPECT_ERROR(&e, TUTTI_BUSY, "", tutti_group_destroy(g, &e));
    EXPECT_OK(tutti_events_destroy(events, &e));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "events_destroy", tutti_events_destroy(events, &e));
}

struct careless {
    tutti_group *group; /* NULL: the handle that it is given */
    tutti_work *work;
    int32_t value;
};

/* Starts without the options that it is given. */
static void ignore(tutti_status status, const tutti_error *error, void *user)
{
    (void)status;
    (void)error;
    (void)user;
}

/* Operations that began before an object was made do not concern it, whether they have a callback or not. */
static void earlier(tutti_group *g)
{
    enum { OPERATIONS_BEFORE = 4 };
    tutti_error e;
    tutti_events *events[2] = {NULL};
    tutti_work *work[OPERATIONS_BEFORE];
    struct recorded calls[2][2] = {{{0}}};
    if (tutti_group_rank(g) == 1) {
        EXPECT_OK(tutti_barrier(g, NULL));
        for (int i = 0; i < OPERATIONS_BEFORE; i++) {
            EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.lane = 2), &work[i]));
        }
    } else {
        for (int i = 0; i < OPERATIONS_BEFORE; i++) {
            if (i == 2) {
                EXPECT_OK(tutti_events_create(g, &events[0], &e));
            }
            EXPECT_OK(tutti_barrier_async(
                g, TUTTI_CALL(.lane = 2, .callback = i % 2 ? ignore : NULL, .operation_id = 7), &work[i]));
        }
        EXPECT_OK(tutti_events_create(g, &events[1], &e));
        for (int i = 0; i < 2; i++) {
            EXPECT_OK(tutti_events_on_complete(events[i], record, &calls[i][0], NULL, &e));
            EXPECT_OK(tutti_events_on_operation(events[i], 7, record, &calls[i][1], NULL, &e));
        }
        EXPECT_OK(tutti_barrier(g, NULL)); /* lane 0: none of the others has ended */
    }
    for (int i = 0; i < OPERATIONS_BEFORE; i++) {
        EXPECT_OK(tutti_work_wait(work[i], TUTTI_FOREVER));
        EXPECT_OK(tutti_work_release(work[i]));
    }
    if (tutti_group_rank(g) == 0) {
        EXPECT(atomic_load(&calls[0][0].calls) == 2 && atomic_load(&calls[0][1].calls) == 1);
        EXPECT(atomic_load(&calls[1][0].calls) == 0 && atomic_load(&calls[1][1].calls) == 0);
        EXPECT_OK(tutti_events_destroy(events[0], &e));
        EXPECT_OK(tutti_events_destroy(events[1], &e));
    }
}

static tutti_status start_carelessly(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    struct careless *c = user;
    tutti_status status = start_sum(c->group ? c->group : g, c->group ? call : NULL, &c->value, work);
    c->work = *work;
    return status;
}

/* A start function that drops the number gets an error: the handler would start_never be called. */
static void number_lost(tutti_group *g)
{
    tutti_error e;
    tutti_events *events = NULL;
    tutti_group *other = NULL;
    tutti_work *const untouched = (tutti_work *)(void *)&e;
    tutti_work *work = untouched;
    struct recorded handler = {0};
    struct careless c = {.value = 1};
    int32_t ended;
    EXPECT_OK(tutti_group_create(g, (const int32_t[]){0, 1}, RANKS, NULL, &other, &e));
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "events_start: the start function has not passed on the call options",
                 tutti_events_start(events, 42, start_carelessly, &c, NULL, record, &handler, &work, &e));
    EXPECT(strstr(e.message, "the number 0 instead of 42") && strstr(e.message, "has been waited for"));
    EXPECT(e.rank == tutti_group_rank(g) && work == untouched && c.value == RANKS);
    EXPECT(tutti_work_test(c.work, &ended) == TUTTI_BAD_STATE);
    /* the handler is gone, too */
    EXPECT_OK(tutti_events_start(events, 42, start_sum, &c.value, NULL, NULL, NULL, &work, &e));
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT_OK(tutti_work_release(work));
    c = (struct careless){.group = other, .value = 1};
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "runs on another group",
                 tutti_events_start(events, 42, start_carelessly, &c, NULL, record, &handler, NULL, &e));
    EXPECT(c.value == RANKS && tutti_work_test(c.work, &ended) == TUTTI_BAD_STATE);
    EXPECT_OK(tutti_barrier(g, NULL));
    EXPECT(atomic_load(&handler.calls) == 0);
    EXPECT_OK(tutti_events_destroy(events, &e));
    EXPECT_OK(tutti_group_destroy(other, &e));
}

/* Errors that the group survives: on_error and handlers are called, on_complete is not. */
static void failures(tutti_group *g)
{
    tutti_error e;
    tutti_events *events = NULL;
    tutti_work *work = NULL;
    struct recorded complete = {0};
    struct recorded failed = {0};
    struct recorded handler = {0};
    int32_t value = 1;
    DLTensor t = tutti_tensor_1d(&value, &one, tutti_group_rank(g) == 0 ? TUTTI_I32 : TUTTI_F32);
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_OK(tutti_events_on_complete(events, record, &complete, NULL, &e));
    EXPECT_OK(tutti_events_on_error(events, record, &failed, NULL, &e));
    EXPECT_OK(tutti_events_on_operation(events, 5, record, &handler, NULL, &e));
    EXPECT_OK(tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, TUTTI_CALL(.operation_id = 5), &work));
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_MISMATCH);
    EXPECT(atomic_load(&failed.calls) == 1 && failed.status == TUTTI_MISMATCH);
    EXPECT(atomic_load(&handler.calls) == 1 && handler.status == TUTTI_MISMATCH && handler.error.message[0] != '\0');
    EXPECT(atomic_load(&complete.calls) == 0);
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_events_destroy(events, &e));
    EXPECT_USABLE(g);
}

/* A count for every operation, so that one call too many for one does not hide one too few for another. */
struct counts {
    _Atomic int handlers[LANES * OPERATIONS];
    _Atomic int listened[LANES * OPERATIONS];
    _Atomic int inside; /* handlers that are running */
};

static void count_handler(const tutti_event *event, void *user)
{
    struct counts *c = user;
    EXPECT(atomic_fetch_add(&c->inside, 1) == 0);
    atomic_fetch_add(&c->handlers[event->operation_id - 1], 1);
    atomic_fetch_sub(&c->inside, 1);
}

static void count_listener(const tutti_event *event, void *user)
{
    struct counts *c = user;
    EXPECT(atomic_fetch_add(&c->inside, 1) == 0);
    EXPECT(atomic_load(&c->handlers[event->operation_id - 1]) == 0); /* handlers come last */
    atomic_fetch_add(&c->listened[event->operation_id - 1], 1);
    atomic_fetch_sub(&c->inside, 1);
}

static void exactly_once_in_all_lanes(tutti_group *g)
{
    static struct counts all[RANKS];
    static int32_t values[RANKS][LANES * OPERATIONS];
    tutti_error e;
    tutti_events *events = NULL;
    tutti_work *works[LANES * OPERATIONS] = {NULL};
    int32_t me = tutti_group_rank(g);
    struct counts *c = &all[me];
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_OK(tutti_events_on_complete(events, count_listener, c, NULL, &e));
    for (int i = 0; i < LANES * OPERATIONS; i++) {
        values[me][i] = me + i;
        /* one in three is released while it runs */
        EXPECT_OK(tutti_events_start(events, i + 1, start_sum, &values[me][i], TUTTI_CALL(.lane = i % LANES),
                                     count_handler, c, i % 3 == 0 ? NULL : &works[i], &e));
    }
    for (int i = 0; i < LANES * OPERATIONS; i++) {
        if (works[i]) {
            EXPECT_OK(tutti_work_wait(works[i], TUTTI_FOREVER));
            EXPECT(atomic_load(&c->handlers[i]) == 1 && atomic_load(&c->listened[i]) == 1);
            EXPECT_OK(tutti_work_release(works[i]));
        }
    }
    for (int lane = 0; lane < LANES; lane++) {
        EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.lane = lane))); /* everything before it in the lane has ended */
    }
    EXPECT_OK(tutti_events_destroy(events, &e));
    for (int i = 0; i < LANES * OPERATIONS; i++) {
        EXPECT(atomic_load(&c->handlers[i]) == 1 && atomic_load(&c->listened[i]) == 1);
        EXPECT(values[me][i] == 2 * i + 1);
    }
}

/* Handlers that start the next operation, release works, may not wait, and at last destroy the object. */
struct chain {
    tutti_group *group;
    tutti_events *events;
    int32_t values[3];
    tutti_work *works[3]; /* written by the handler of the one before, read after the wait for that */
    int links;
    tutti_status waited;
    tutti_status ran;
    tutti_status called;
    tutti_status destroyed;
};

static void next_link(const tutti_event *event, void *user)
{
    struct chain *c = user;
    tutti_error e;
    int link = ++c->links;
    EXPECT(event->operation_id == link && event->work);
    if (link == 3) {
        c->destroyed = tutti_events_destroy(c->events, NULL);
        return;
    }
    tutti_work *barrier = NULL;
    EXPECT_OK(tutti_barrier_async(c->group, NULL, &barrier));
    c->waited = tutti_work_wait(barrier, TUTTI_FOREVER);
    c->ran = tutti_run_with_deadline(c->group, start_never, NULL, 0, NULL, NULL);
    c->called = tutti_barrier(c->group, NULL);
    EXPECT_OK(tutti_work_release(barrier));
    EXPECT_OK(
        tutti_events_start(c->events, link + 1, start_sum, &c->values[link], NULL, next_link, c, &c->works[link], &e));
}

static void chains(tutti_group *g)
{
    tutti_error e;
    struct chain c = {.group = g, .values = {1, 1, 1}};
    EXPECT_OK(tutti_events_create(g, &c.events, &e));
    EXPECT_OK(tutti_events_on_operation(c.events, 1, next_link, &c, NULL, &e));
    EXPECT_OK(tutti_events_start(c.events, 1, start_sum, &c.values[0], NULL, NULL, NULL, &c.works[0], &e));
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(tutti_work_wait(c.works[i], TUTTI_FOREVER));
        EXPECT(c.values[i] == RANKS);
        EXPECT_OK(tutti_work_release(c.works[i]));
    }
    EXPECT(c.links == 3 && c.destroyed == TUTTI_OK);
    EXPECT(c.waited == TUTTI_WOULD_DEADLOCK && c.ran == TUTTI_WOULD_DEADLOCK && c.called == TUTTI_WOULD_DEADLOCK);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "destroyed", tutti_events_destroy(c.events, &e));
}

/* The number of one operation, and a handler that is removed before it could be called. */
static void taken_back(tutti_group *g)
{
    tutti_error e;
    tutti_events *events = NULL;
    tutti_work *work = NULL;
    struct recorded handler = {0};
    int64_t id = 0;
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_OK(tutti_events_on_operation(events, 8, record, &handler, &id, &e));
    if (tutti_group_rank(g) == 0) {
        EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.operation_id = 8), &work));
        EXPECT_OK(tutti_events_remove(events, id, &e)); /* rank 1 has not arrived yet: it waits for the next barrier */
    }
    EXPECT_OK(tutti_barrier(g, TUTTI_CALL(.lane = 1)));
    if (tutti_group_rank(g) == 1) {
        EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.operation_id = 8), &work));
    }
    EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
    EXPECT(atomic_load(&handler.calls) == tutti_group_rank(g));
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_events_destroy(events, &e));
}

/* Last, because the group fails: an operation that its peer start_never joins. */
static _Atomic int deadline_over;

static void deadlines(tutti_group *g)
{
    tutti_error e;
    tutti_events *events = NULL;
    tutti_work *work = NULL;
    struct recorded failed = {0};
    struct recorded handler = {0};
    if (tutti_group_rank(g) == 1) {
        while (atomic_load(&deadline_over) == 0) {
            sched_yield();
        }
        return;
    }
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_OK(tutti_events_on_error(events, record, &failed, NULL, &e));
    EXPECT_OK(
        tutti_events_start(events, -9, start_barrier, NULL, TUTTI_CALL(.timeout_ms = 50), record, &handler, &work, &e));
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_TIMEOUT);
    EXPECT(atomic_load(&handler.calls) == 1 && handler.status == TUTTI_TIMEOUT && handler.operation_id == -9);
    EXPECT(handler.error.suspect == 1 && handler.error.deadline_ms == 50);
    EXPECT(atomic_load(&failed.calls) == 1 && failed.status == TUTTI_TIMEOUT && failed.work == work);
    EXPECT_OK(tutti_work_release(work));
    EXPECT_OK(tutti_events_destroy(events, &e));
    atomic_store(&deadline_over, 1);
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    every_kind(g);
    earlier(g);
    number_lost(g);
    failures(g);
    exactly_once_in_all_lanes(g);
    for (int i = 0; i < 20; i++) {
        chains(g);
    }
    taken_back(g);
    deadlines(g);
    return TUTTI_OK;
}

/* In a group of one rank an operation may have ended before its start returns. */
static tutti_status alone(tutti_group *g, void *user)
{
    (void)user;
    tutti_error e;
    tutti_events *events = NULL;
    static struct recorded handlers[200];
    EXPECT_OK(tutti_events_create(g, &events, &e));
    for (int i = 0; i < 200; i++) {
        tutti_work *work = NULL;
        int32_t value = 7;
        EXPECT_OK(tutti_events_start(events, 1 + i % 2, start_sum, &value, NULL, record, &handlers[i], &work, &e));
        EXPECT_OK(tutti_work_wait(work, TUTTI_FOREVER));
        EXPECT(atomic_load(&handlers[i].calls) == 1 && handlers[i].work == work && value == 7);
        EXPECT_OK(tutti_work_release(work));
    }
    EXPECT_OK(tutti_events_destroy(events, &e));
    for (int i = 0; i < 200; i++) {
        EXPECT(atomic_load(&handlers[i].calls) == 1);
    }
    return TUTTI_OK;
}

int main(void)
{
    setenv("TUTTI_LANES", "4", 1);
    test_ranks(RANKS, rank);
    test_ranks(1, alone);
    return test_result();
}
