/* SPDX-License-Identifier: BSD-3-Clause */
/* Works that the application completes: every function on a work, and every way in which a work ends. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/async/work_end.h"
#include "api/check.h"

#define RANKS 2

static const int64_t three = 3;

static tutti_work *make(tutti_group *g, const tutti_call *call)
{
    tutti_work *work = NULL;
    EXPECT_OK(tutti_work_create(g, NULL, call, &work));
    EXPECT(work != NULL);
    return work;
}

static int32_t is_cancelled(tutti_work *work)
{
    int32_t cancelled = -1;
    EXPECT_OK(tutti_work_cancelled(work, &cancelled));
    return cancelled;
}

/* ---- one work --------------------------------------------------------------------------------------------------- */

struct outcome {
    int calls;
    tutti_status status;
    char message[64];
    tutti_work *work;
    int64_t number;
};

static void record(tutti_status status, const tutti_error *error, void *user)
{
    struct outcome *t = user;
    EXPECT(error->status == status);
    t->calls++;
    t->status = status;
    snprintf(t->message, sizeof(t->message), "%.60s", error->message);
}

static void answers(tutti_group *g)
{
    tutti_error e;
    int32_t values[3] = {1, 2, 3};
    DLTensor output = tutti_tensor_1d(values, &three, TUTTI_I32);
    DLTensor view;
    struct outcome outcome = {0};
    int fd = -1;
    tutti_work *work = NULL;
    EXPECT_OK(tutti_work_create(g, &output, TUTTI_CALL(.callback = record, .user = &outcome, .error = &e), &work));
    EXPECT(e.status == TUTTI_OK && !has_ended(work) && tutti_work_wait(work, 0) == TUTTI_BUSY);
    EXPECT(tutti_work_wait(work, 1) == TUTTI_BUSY && tutti_work_error(work, &e) == TUTTI_BAD_STATE);
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_BAD_STATE && is_cancelled(work) == 0);
    EXPECT_OK(tutti_work_eventfd(work, &fd, &e));
    struct pollfd readable = {.fd = fd, .events = POLLIN};
    EXPECT(poll(&readable, 1, 0) == 0 && outcome.calls == 0);
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT(e.status == TUTTI_OK && outcome.calls == 1 && outcome.status == TUTTI_OK && has_ended(work));
    EXPECT(poll(&readable, 1, 0) == 1 && tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_OK);
    EXPECT_OK(tutti_work_result(work, &view, &e));
    EXPECT(view.data == values && view.ndim == 1 && view.shape != output.shape && view.shape[0] == 3);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "completed already", tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_TOO_LATE, "task", tutti_work_cancel(work, &e));
    EXPECT(end(work) == TUTTI_OK && outcome.calls == 1);
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "completed already", tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT(tutti_work_cancelled(work, &fd) == TUTTI_BAD_STATE);
}

static void failures(tutti_group *g)
{
    tutti_error e;
    DLTensor view;
    struct outcome outcome = {0};
    tutti_work *work = make(g, TUTTI_CALL(.callback = record, .user = &outcome));
    EXPECT_OK(tutti_work_complete(work, TUTTI_SYSTEM, "the disk is full", NULL));
    EXPECT(outcome.calls == 1 && outcome.status == TUTTI_SYSTEM && strcmp(outcome.message, "the disk is full") == 0);
    EXPECT_OK(tutti_work_error(work, &e));
    EXPECT(e.status == TUTTI_SYSTEM && strcmp(e.message, "the disk is full") == 0 && e.scope == TUTTI_SCOPE_WORK);
    EXPECT(e.operation == TUTTI_OP_TASK && e.rank == tutti_group_rank(g) && e.suspect == -1 && e.deadline_ms == -1);
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_SYSTEM && end(work) == TUTTI_SYSTEM);
    work = make(g, NULL);
    EXPECT_OK(tutti_work_complete(work, TUTTI_TIMEOUT, NULL, NULL));
    EXPECT_OK(tutti_work_error(work, &e));
    EXPECT(strcmp(e.message, tutti_status_string(TUTTI_TIMEOUT)) == 0);
    EXPECT(end(work) == TUTTI_TIMEOUT);
    EXPECT_USABLE(g); /* no status of a task is the group's */
    work = make(g, NULL);
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, "this is not reported", NULL));
    EXPECT(tutti_work_result(work, &view, &e) == TUTTI_NOT_FOUND && end(work) == TUTTI_OK);
}

static void bad_arguments(tutti_group *g)
{
    tutti_error e;
    tutti_work *work = NULL;
    DLTensor strange = {.device = {kDLCPU, 0}, .ndim = -1};
    tutti_call call = *TUTTI_CALL(.error = &e);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "group is NULL", tutti_work_create(NULL, NULL, &call, &work));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "work is NULL", tutti_work_create(g, NULL, &call, NULL));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "output", tutti_work_create(g, &strange, &call, &work));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "deadline",
                 tutti_work_create(g, NULL, TUTTI_CALL(.error = &e, .timeout_ms = 5), &work));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "stream",
                 tutti_work_create(g, NULL, TUTTI_CALL(.error = &e, .flags = TUTTI_HAS_STREAM), &work));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "is NULL", tutti_work_complete(NULL, TUTTI_OK, NULL, &e));
    EXPECT(work == NULL);
    work = make(g, NULL);
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "99", tutti_work_complete(work, 99, NULL, &e));
    EXPECT_ERROR(&e, TUTTI_INVALID_ARGUMENT, "-1", tutti_work_complete(work, -1, NULL, &e));
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT(end(work) == TUTTI_OK);
}

/* The application cannot complete the work of an operation. */
static void operations(tutti_group *g)
{
    tutti_error e;
    tutti_work *work = NULL;
    EXPECT_OK(tutti_barrier_async(g, NULL, &work));
    EXPECT_ERROR(&e, TUTTI_BAD_STATE, "tutti_work_create", tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT(end(work) == TUTTI_OK);
}

/* ---- cancelling, releasing -------------------------------------------------------------------------------------- */

static void cancels(tutti_group *g)
{
    tutti_error e;
    int64_t began = -1;
    tutti_cancel_token *token = NULL;
    tutti_work *work = make(g, NULL);
    EXPECT_OK(tutti_work_cancel(work, &e));
    EXPECT_OK(tutti_work_cancel(work, &e));
    EXPECT(is_cancelled(work) == 1 && !has_ended(work));
    EXPECT_OK(tutti_work_complete(work, TUTTI_CANCELLED, NULL, &e));
    EXPECT(is_cancelled(work) == 1 && end(work) == TUTTI_CANCELLED);
    work = make(g, NULL); /* the task was done all the same */
    EXPECT_OK(tutti_work_cancel(work, &e));
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT(is_cancelled(work) == 0 && end(work) == TUTTI_OK);
    EXPECT_OK(tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &e));
    work = make(g, TUTTI_CALL(.token = token));
    tutti_work *done = make(g, TUTTI_CALL(.token = token));
    EXPECT_OK(tutti_work_complete(done, TUTTI_OK, NULL, &e));
    EXPECT_OK(tutti_cancel_token_cancel(token, &began, &e));
    EXPECT(began == 0 && is_cancelled(work) == 1 && !has_ended(work) && is_cancelled(done) == 0);
    EXPECT_OK(tutti_work_complete(work, TUTTI_CANCELLED, "the token has fired", &e));
    EXPECT(end(work) == TUTTI_CANCELLED && end(done) == TUTTI_OK);
    work = NULL;
    EXPECT_ERROR(&e, TUTTI_CANCELLED, "fired",
                 tutti_work_create(g, NULL, TUTTI_CALL(.token = token, .error = &e), &work));
    EXPECT(work == NULL);
    EXPECT_OK(tutti_cancel_token_destroy(token, &e));
}

/* The task may use the handle after its release, by hand and with a queue. */
static void released(tutti_group *g)
{
    tutti_error e;
    for (int i = 0; i < 2; i++) {
        struct outcome outcome = {0};
        tutti_queue *queue = NULL;
        tutti_work *work = make(g, TUTTI_CALL(.callback = record, .user = &outcome));
        EXPECT_OK(tutti_work_cancel(work, &e));
        if (i == 0) {
            EXPECT_OK(tutti_work_release(work));
        } else {
            EXPECT_OK(tutti_queue_create(&queue, &e));
            EXPECT_OK(tutti_queue_enqueue(queue, work, &e));
            EXPECT_OK(tutti_queue_destroy(queue, &e));
        }
        EXPECT(tutti_work_wait(work, 0) == TUTTI_BAD_STATE && tutti_work_release(work) == TUTTI_BAD_STATE);
        EXPECT(is_cancelled(work) == 1 && outcome.calls == 0);
        EXPECT_OK(tutti_work_complete(work, TUTTI_CANCELLED, NULL, &e));
        EXPECT(outcome.calls == 1 && outcome.status == TUTTI_CANCELLED);
        EXPECT(tutti_work_complete(work, TUTTI_OK, NULL, &e) == TUTTI_BAD_STATE);
        EXPECT(tutti_work_cancelled(work, &(int32_t){0}) == TUTTI_BAD_STATE);
    }
}

/* ---- beside operations ------------------------------------------------------------------------------------------ */

static void *complete_later(void *work)
{
    sched_yield();
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, NULL));
    return NULL;
}

static void in_a_queue(tutti_group *g)
{
    tutti_error e;
    int64_t number = -1;
    pthread_t thread;
    tutti_queue *queue = NULL;
    tutti_work *barrier = NULL;
    tutti_work *work = make(g, NULL);
    tutti_work *failing = make(g, NULL);
    EXPECT_OK(tutti_queue_create(&queue, &e));
    EXPECT_OK(tutti_queue_enqueue(queue, work, &e));
    EXPECT_OK(tutti_queue_enqueue(queue, failing, &e));
    EXPECT_OK(tutti_barrier_async(g, NULL, &barrier));
    EXPECT_OK(tutti_queue_enqueue(queue, barrier, &e));
    EXPECT_OK(tutti_queue_wait_any(queue, TUTTI_FOREVER, &number, &e));
    EXPECT(number == 2);
    EXPECT_OK(tutti_queue_pending(queue, &number));
    EXPECT(number == 2 && tutti_queue_wait_all(queue, 1, &e) == TUTTI_BUSY);
    EXPECT_OK(tutti_queue_cancel_all(queue, &number));
    EXPECT(number == 0 && is_cancelled(work) == 1);
    EXPECT_OK(tutti_work_complete(failing, TUTTI_SYSTEM, "no", &e));
    EXPECT(pthread_create(&thread, NULL, complete_later, work) == 0);
    EXPECT_ERROR(&e, TUTTI_SYSTEM, "no", tutti_queue_wait_all(queue, TUTTI_FOREVER, &e));
    pthread_join(thread, NULL);
    EXPECT_OK(tutti_queue_clear_completed(queue, &number));
    EXPECT(number == 3);
    EXPECT_OK(tutti_queue_destroy(queue, &e));
}

static void record_event(const tutti_event *event, void *user)
{
    struct outcome *t = user;
    t->calls++;
    t->status = event->status;
    t->work = event->work;
    t->number = event->operation_id;
    EXPECT(event->operation == TUTTI_OP_TASK && event->lane == 1);
}

static tutti_status start_task(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    tutti_call options = *call;
    (void)user;
    options.lane = 1;
    return tutti_work_create(g, NULL, &options, work);
}

static void events(tutti_group *g)
{
    tutti_error e;
    struct outcome all = {0};
    struct outcome own = {0};
    tutti_events *events = NULL;
    tutti_work *work = NULL;
    EXPECT_OK(tutti_events_create(g, &events, &e));
    EXPECT_OK(tutti_events_on_complete(events, record_event, &all, NULL, &e));
    EXPECT_OK(tutti_events_start(events, 17, start_task, NULL, NULL, record_event, &own, &work, &e));
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT(all.calls == 1 && own.calls == 1 && own.work == work && own.number == 17 && own.status == TUTTI_OK);
    EXPECT(end(work) == TUTTI_OK);
    EXPECT_OK(tutti_events_destroy(events, &e));
    tutti_work *with_limit = NULL;
    EXPECT(tutti_run_with_limit(g, start_task, NULL, 1, NULL, &with_limit, &e) == TUTTI_BUSY);
    EXPECT_OK(tutti_work_complete(with_limit, TUTTI_OK, NULL, &e));
    EXPECT(end(with_limit) == TUTTI_OK);
}

/* ---- in callbacks ----------------------------------------------------------------------------------------------- */

enum { LINKS = 2000 };

struct chain {
    tutti_group *group;
    tutti_work *works[LINKS];
    int next;
    bool nested;
    bool inside;
};

/* Completes the next work, with a callback that does the same: one after the other, none inside another one. */
static void complete_next(tutti_status status, const tutti_error *error, void *user)
{
    struct chain *c = user;
    (void)status;
    (void)error;
    c->nested = c->nested || c->inside;
    c->inside = true;
    if (c->next < LINKS) {
        tutti_work *work = c->works[c->next++];
        EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, NULL));
        EXPECT(!has_ended(work) && tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_WOULD_DEADLOCK);
        EXPECT(tutti_work_complete(work, TUTTI_OK, NULL, NULL) == TUTTI_BAD_STATE);
        EXPECT(tutti_work_cancel(work, NULL) == TUTTI_TOO_LATE);
    }
    c->inside = false;
}

static void in_callbacks(tutti_group *g, tutti_group *other)
{
    static struct chain chains[RANKS];
    struct chain *c = &chains[tutti_group_rank(g)];
    tutti_work *barrier = NULL;
    *c = (struct chain){.group = g};
    for (int i = 0; i < LINKS; i++) { /* of two groups alternately */
        c->works[i] = make(i % 2 == 0 ? g : other, TUTTI_CALL(.callback = complete_next, .user = c));
    }
    EXPECT_OK(tutti_barrier_async(g, TUTTI_CALL(.callback = complete_next, .user = c), &barrier));
    EXPECT(end(barrier) == TUTTI_OK);
    for (int i = 0; i < LINKS; i++) {
        EXPECT(end(c->works[i]) == TUTTI_OK);
    }
    EXPECT(c->next == LINKS && !c->nested);
}

/* ---- the group -------------------------------------------------------------------------------------------------- */

static void holds_its_group(tutti_group *g)
{
    tutti_error e;
    tutti_group *child = NULL;
    EXPECT_OK(tutti_group_create(g, (const int32_t[]){0, 1}, RANKS, NULL, &child, &e));
    tutti_work *work = make(child, NULL);
    EXPECT_OK(tutti_work_release(work));
    EXPECT_ERROR(&e, TUTTI_BUSY, "pending", tutti_group_destroy(child, &e));
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, &e));
    work = make(child, NULL);
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT_OK(tutti_group_destroy(child, &e));
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_OK && end(work) == TUTTI_OK);
}

/* A failure of the group is not the task's. */
static void in_a_failed_group(tutti_group *g)
{
    tutti_error e;
    tutti_group *child = NULL;
    EXPECT_OK(tutti_group_create(g, (const int32_t[]){0, 1}, RANKS, NULL, &child, &e));
    tutti_work *before = make(child, NULL);
    EXPECT_OK(tutti_group_revoke(child, &e));
    tutti_work *after = make(child, NULL);
    EXPECT(!has_ended(before));
    EXPECT_OK(tutti_work_complete(before, TUTTI_OK, NULL, &e));
    EXPECT_OK(tutti_work_complete(after, TUTTI_OK, NULL, &e));
    EXPECT(end(before) == TUTTI_OK && end(after) == TUTTI_OK);
    EXPECT_OK(tutti_group_destroy(child, &e));
}

static tutti_status rank(tutti_group *g, void *user)
{
    (void)user;
    tutti_group *other = NULL;
    EXPECT_OK(tutti_group_create(g, (const int32_t[]){0, 1}, RANKS, NULL, &other, NULL));
    for (int i = 0; i < 10; i++) {
        answers(g);
        failures(g);
        bad_arguments(g);
        operations(g);
        cancels(g);
        released(g);
        in_a_queue(g);
        events(g);
    }
    in_callbacks(g, other);
    holds_its_group(g);
    in_a_failed_group(g);
    EXPECT_OK(tutti_group_destroy(other, NULL));
    return TUTTI_OK;
}

/* One work that is left open: tutti_finalize refuses until it has been completed. In a child of fork it belongs to the
 * parent. */
static void left_open(void)
{
    tutti_error e;
    tutti_group *world = NULL;
    tutti_work *work = NULL;
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "local", .rank = 0, .world_size = 1), &world, &e));
    EXPECT_OK(tutti_work_create(world, NULL, NULL, &work));
    EXPECT_ERROR(&e, TUTTI_BUSY, "finalize", tutti_finalize(&e));
    const pid_t child = fork();
    if (child == 0) {
        _exit(tutti_work_complete(work, TUTTI_OK, NULL, NULL) != TUTTI_FORKED);
    }
    int result = -1;
    EXPECT(child > 0 && waitpid(child, &result, 0) == child && result == 0);
    EXPECT_OK(tutti_work_complete(work, TUTTI_OK, NULL, &e));
    EXPECT_OK(tutti_finalize(&e));
    EXPECT(end(work) == TUTTI_OK);
}

int main(void)
{
    setenv("TUTTI_LANES", "2", 1);
    test_ranks(RANKS, rank);
    left_open();
    return test_result();
}
