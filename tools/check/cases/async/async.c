/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works: what a handle answers before the end; errors, callbacks and deadlines. That asynchronous operations give right
 * results is tested in every other chapter, see operation/jobs.h.
 */
#include <stdlib.h>

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/block_lane.h"
#include "check/operation/shortcuts.h"
#include "check/reference/expect.h"

enum { SMALL = 5 };

/* An all_reduce with its data, started. */
static void start(struct tti_check *c, struct tti_check_job *job, enum tti_check_completion completion, int64_t count,
                  uint64_t salt)
{
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    tti_check_job_prepare(job, c, &tti_check_all_reduce_form, &p, salt);
    tti_check_job_start(job, completion);
}

static void end(struct tti_check *c, struct tti_check_job *job)
{
    tti_check_job_finish(job, TUTTI_OK);
    tti_check_job_end(job, c);
}

/* ---- before the end ---- */

static void expect_unfinished(struct tti_check *c, tutti_work *work)
{
    int32_t flag = 7;
    int fd = -1;
    DLTensor view;
    tutti_error details;
    for (int i = 0; i < 2; i++) {
        tti_check_ok(c, "work_test", tutti_work_test(work, &flag));
        tti_check_expect_i64(c, "an operation that a rank has not joined has ended", flag, 0);
        tti_check_status(c, "work_wait with limit 0", tutti_work_wait(work, 0), TUTTI_BUSY);
        tti_check_status(c, "work_wait with a limit", tutti_work_wait(work, 1), TUTTI_BUSY);
        tti_check_status(c, "work_error before the end", tutti_work_error(work, &details), TUTTI_BAD_STATE);
        tti_check_status(c, "work_result before the end", tutti_work_result(work, &view, &details), TUTTI_BAD_STATE);
        tti_check_ok(c, "work_cancelled", tutti_work_cancelled(work, &flag));
        tti_check_expect_i64(c, "an operation that was not cancelled counts as cancelled", flag, 0);
        if (tti_check_ok(c, "work_eventfd", tutti_work_eventfd(work, &fd, &c->error))) {
            tti_check_expect_i64(c, "the descriptor is readable before the end", tti_check_readable(fd, 0), 0);
        }
    }
}

/* Looks at an operation that has begun on all but one rank, and at one that is queued behind it. */
static void before_the_end(struct tti_check *c, int64_t count)
{
    const int holder = c->size - 1;
    struct tti_check_job held;
    struct tti_check_job behind;
    tti_check_block_lane(c, &held, holder, count);
    if (c->rank != holder) {
        start(c, &behind, TTI_CHECK_EVENTFD, count, 1);
        expect_unfinished(c, held.pending.work);
        expect_unfinished(c, behind.pending.work);
    }
    tti_check_unblock_lane(c, &held, holder);
    if (c->rank == holder) {
        start(c, &behind, TTI_CHECK_EVENTFD, count, 1);
    }
    end(c, &behind);
    tti_check_blocked_end(c, &held);
}

/* Handles are given back while their operations run or wait: these end all the same, with callback and result. */
static void release_while_running(struct tti_check *c, int64_t count)
{
    const int holder = 0;
    struct tti_check_job held;
    struct tti_check_job behind;
    tti_check_block_lane(c, &held, holder, count);
    if (c->rank != holder) {
        start(c, &behind, TTI_CHECK_CALLBACK, count, 1);
        tti_check_pending_release(c, &held.pending);
        tti_check_pending_release(c, &behind.pending);
    }
    tti_check_unblock_lane(c, &held, holder);
    if (c->rank == holder) {
        start(c, &behind, TTI_CHECK_CALLBACK, count, 1);
        tti_check_pending_release(c, &held.pending);
        tti_check_pending_release(c, &behind.pending);
    }
    /* the callback of the second also means, by the order of the lane, the end of the first */
    tti_check_expect_i64(c, "calls of the callback", tti_check_pending_callbacks(c, &behind.pending), 1);
    tti_check_expect_i64(c, "status of the callback", behind.pending.reported, TUTTI_OK);
    tti_check_group_works(c);
    tti_check_expect_i64(c, "calls of the callback, later", tti_check_pending_callbacks(c, &behind.pending), 1);
    end(c, &behind);
    tti_check_blocked_end(c, &held);
}

static void *wait_beside(void *user)
{
    struct tti_check_job *job = user;
    const tutti_status status = tutti_work_wait(job->pending.work, TUTTI_FOREVER);
    return status == TUTTI_OK ? NULL : user;
}

/* Several threads wait for one work. */
static void many_waiters(struct tti_check *c, int64_t count)
{
    enum { WAITERS = 4 };
    const int holder = c->size - 1;
    pthread_t threads[WAITERS];
    int started = 0;
    struct tti_check_job held;
    tti_check_block_lane(c, &held, holder, count);
    while (c->rank != holder && started < WAITERS && pthread_create(&threads[started], NULL, wait_beside, &held) == 0) {
        started++;
    }
    tti_check_expect_i64(c, "threads that could be started", started, c->rank == holder ? 0 : WAITERS);
    tti_check_unblock_lane(c, &held, holder);
    tti_check_ok(c, "the wait beside them", tutti_work_wait(held.pending.work, TUTTI_FOREVER));
    for (int i = 0; i < started; i++) {
        void *failed = NULL;
        pthread_join(threads[i], &failed);
        tti_check_expect_i64(c, "a thread's wait has failed", failed != NULL, 0);
    }
    tti_check_blocked_end(c, &held);
}

/* ---- errors ---- */

static void error_details(struct tti_check *c, int64_t count)
{
    struct tti_check_job job;
    tutti_error details;
    DLTensor view;
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, c->rank == 0 ? TUTTI_MAX : TUTTI_SUM, count);
    tti_check_job_prepare(&job, c, &tti_check_all_reduce_form, &p, 1);
    tti_check_job_start(&job, tti_check_random_completion(c, 1, 0));
    tti_check_status(c, "the wait", tti_check_pending_wait(&job.check, &job.pending), TUTTI_MISMATCH);
    if (tti_check_ok(c, "work_error", tutti_work_error(job.pending.work, &details))) {
        tti_check_expect_i64(c, "operation in the details", details.operation, TUTTI_OP_ALL_REDUCE);
        tti_check_expect_i64(c, "the details have a sentence", details.message[0] != '\0', 1);
        tti_check_expect_i64(c, "the details name a backend", details.backend[0] != '\0', 1);
        tti_check_expect_i64(c, "the details have a number of the call", details.sequence > 0, 1);
        tti_check_expect_i64(c, "what is spoilt", details.scope, TUTTI_SCOPE_WORK);
    }
    tti_check_status(c, "work_result", tutti_work_result(job.pending.work, &view, &details), TUTTI_MISMATCH);
    tti_check_pending_release(c, &job.pending);
    tti_check_job_end(&job, c);
    tti_check_group_works(c);
}

/* ---- callbacks ---- */

struct follower {
    struct tti_check_job first;
    struct tti_check_job next; /* started by first's callback */
    tutti_status waited;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool done;
};

static void start_next(tutti_status status, const tutti_error *error, void *user)
{
    struct follower *f = user;
    (void)status;
    (void)error;
    tti_check_job_start(&f->next, TTI_CHECK_CALLBACK);
    f->waited = tutti_work_wait(f->next.pending.work, TUTTI_FOREVER);
    pthread_mutex_lock(&f->mutex);
    f->done = true;
    pthread_cond_signal(&f->changed);
    pthread_mutex_unlock(&f->mutex);
}

/* A callback starts the next operation of the lane; waiting for it there would never end, and is refused. */
static void callback_starts(struct tti_check *c, int64_t count)
{
    struct follower f = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    tti_check_job_prepare(&f.first, c, &tti_check_all_reduce_form, &p, 1);
    tti_check_job_prepare(&f.next, c, &tti_check_all_reduce_form, &p, 2);
    tti_check_pending_init(&f.first.check, &f.first.pending, TTI_CHECK_WAIT);
    f.first.pending.options.callback = start_next;
    f.first.pending.options.user = &f;
    tti_check_pending_start(&f.first.check, &f.first.pending, &f.first.operation);
    pthread_mutex_lock(&f.mutex);
    while (!f.done) { /* without a limit, since the callback uses what lies on this stack */
        pthread_cond_wait(&f.changed, &f.mutex);
    }
    pthread_mutex_unlock(&f.mutex);
    f.first.pending.options.callback = NULL; /* it counts no calls */
    tti_check_status(c, "a wait in a callback", f.waited, TUTTI_WOULD_DEADLOCK);
    end(c, &f.first);
    end(c, &f.next);
}

/* ---- deadlines ---- */

enum { SOON_MS = 200 };

/* True: the operation behind the blocked one has ended by its deadline. False: another rank's deadline came first. */
static bool expect_deadline(struct tti_check *sub, struct tti_check_job *behind, int holder)
{
    tutti_error details = {.status = TUTTI_OK};
    const tutti_status status = tti_check_pending_wait(&behind->check, &behind->pending);
    if (status != TUTTI_TIMEOUT) {
        tti_check_status(sub, "the operation behind", status, TUTTI_REVOKED);
        return false;
    }
    tti_check_ok(sub, "work_error", tutti_work_error(behind->pending.work, &details));
    tti_check_expect_i64(sub, "what is spoilt", details.scope, TUTTI_SCOPE_GROUP);
    tti_check_expect_i64(sub, "deadline in the details", details.deadline_ms, SOON_MS);
    if (sub->capabilities & TUTTI_CAP_CHECKS_CALLS) {
        tti_check_expect_i64(sub, "the suspect", details.suspect, holder);
    }
    return true;
}

/* Of a rank that is not the holder: whether its deadline was the first one. */
static bool wait_behind_blocked(struct tti_check *c, struct tti_check *sub, int holder, int64_t count)
{
    struct tti_check_job held;
    struct tti_check_job behind;
    tutti_error details = {.status = TUTTI_OK};
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    tti_check_block_lane(sub, &held, holder, count);
    tti_check_barrier(c); /* all ranks but the holder have started it */
    tti_check_job_prepare(&behind, sub, &tti_check_all_reduce_form, &p, 1);
    behind.operation.timeout_ms = SOON_MS;
    tti_check_job_start(&behind, tti_check_random_completion(sub, 1, 0));
    const bool timed_out = expect_deadline(sub, &behind, holder);
    const tutti_status front = tti_check_pending_wait(&held.check, &held.pending);
    tti_check_expect_i64(sub, "the operation in front fails with the group",
                         front == TUTTI_TIMEOUT || front == TUTTI_REVOKED, 1);
    tti_check_pending_release(sub, &behind.pending);
    tti_check_pending_release(sub, &held.pending);
    tti_check_job_end(&behind, sub);
    tti_check_job_end(&held, sub);
    tti_check_ok(sub, "group_error", tutti_group_error(sub->group, &details));
    tti_check_expect_i64(sub, "the group has failed", details.status != TUTTI_OK, 1);
    return timed_out;
}

/* An operation whose deadline passes in the queue: it and the group fail. In a group of its own. */
static void queued_deadline(struct tti_check *c, int64_t count)
{
    tutti_group *group = tti_check_group_of_all(c, NULL);
    if (!group) {
        return;
    }
    const int holder = c->size - 1;
    struct tti_check sub = tti_check_sub(c, group, 1);
    int64_t timed_out = 0;
    if (c->rank != holder) {
        timed_out = wait_behind_blocked(c, &sub, holder, count);
    } else {
        tti_check_barrier(c);
    }
    tti_check_merge(c, &sub);
    /* the holder comes into the group when it is too late */
    struct tti_check_values values;
    tti_check_values_begin(c, &values, &timed_out, 1);
    tti_check_ok(c, "all_reduce",
                 tutti_all_reduce(c->group, &values.t, &values.t, TUTTI_MAX, TUTTI_CALL(.error = &c->error)));
    tti_check_values_end(&values);
    tti_check_expect_i64(c, "some rank gets TIMEOUT", timed_out, 1);
    /* a short deadline: the holder may not be notified, and the others have gone on */
    const tutti_status status = tutti_barrier(group, TUTTI_CALL(.timeout_ms = SOON_MS, .error = &c->error));
    tti_check_expect_i64(c, "later calls are refused", status == TUTTI_REVOKED || status == TUTTI_TIMEOUT, 1);
    tti_check_barrier(c);
    tti_check_ok(c, "group_destroy", tutti_group_destroy(group, &c->error));
}

void tti_check_async_cases(struct tti_check *c)
{
    const bool several = c->size > 1;
    tti_check_small_and_large(c, several, before_the_end, "handles/before-the-end");
    tti_check_small_and_large(c, several, release_while_running, "handles/release-while-running");
    tti_check_small_and_large(c, several, many_waiters, "handles/many-waiters");
    tti_check_small_and_large(c, several && (c->capabilities & TUTTI_CAP_CHECKS_CALLS), error_details,
                              "errors/mismatch");
    tti_check_small_and_large(c, true, callback_starts, "callbacks/start-the-next");
    tti_check_case(c, several, queued_deadline, SMALL, "deadlines/queued");
    tti_check_async_order_cases(c);
}
