/* SPDX-License-Identifier: BSD-3-Clause */
/* What is built upon works: queues, waits with a limit, and works of the application's own. */
#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/check.h"
#include "check/operation/block_lane.h"
#include "check/operation/calls.h"
#include "check/operation/completion.h"
#include "check/operation/jobs.h"
#include "check/plan.h"
#include "check/reference/expect.h"

static const int64_t small_count = 5;
static const int64_t large_count = 100003;

/* ---- queues ---- */

static void enqueue(struct tti_check *c, tutti_queue *queue, struct tti_check_job *job)
{
    if (tti_check_ok(c, "queue_enqueue", tutti_queue_enqueue(queue, job->pending.work, &c->error))) {
        job->pending.work = NULL; /* the queue's */
    }
}

/* A queue is destroyed that holds an operation under way and one that waits for its turn: on every rank both end
 * well. */
static void queue_destroy(struct tti_check *c, int64_t count)
{
    const int holder = c->size - 1;
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    struct tti_check_job held;
    struct tti_check_job behind;
    tutti_queue *queue = NULL;
    tti_check_job_prepare(&behind, c, &tti_check_all_reduce_form, &p, 1);
    tti_check_block_lane(c, &held, holder, count);
    if (c->rank != holder && tti_check_ok(c, "queue_create", tutti_queue_create(&queue, &c->error))) {
        tti_check_job_start(&behind, TTI_CHECK_CALLBACK);
        enqueue(c, queue, &held);
        enqueue(c, queue, &behind);
        tti_check_ok(c, "queue_destroy", tutti_queue_destroy(queue, &c->error));
    }
    tti_check_unblock_lane(c, &held, holder);
    if (c->rank == holder) {
        tti_check_job_start(&behind, TTI_CHECK_CALLBACK);
    }
    tti_check_expect_i64(c, "calls of the callback", tti_check_pending_callbacks(c, &behind.pending), 1);
    tti_check_expect_i64(c, "status of the callback", behind.pending.reported, TUTTI_OK);
    tti_check_job_finish(&behind, TUTTI_OK);
    tti_check_job_end(&behind, c);
    tti_check_blocked_end(c, &held);
    tti_check_group_works(c);
}

/* ---- starting, and waiting with a limit ---- */

struct started {
    struct tti_check_job *job;
    tutti_cancel_token *token; /* fired behind the start; NULL: none is */
};

static tutti_status start_job(tutti_group *group, const tutti_call *call, void *user, tutti_work **work)
{
    const struct started *s = user;
    tutti_call options = *call;
    options.lane = s->job->check.lane;
    const tutti_status status = tti_check_call(group, &s->job->operation, &options, work);
    return status == TUTTI_OK && s->token ? tutti_cancel_token_cancel(s->token, NULL, NULL) : status;
}

/* The wait stops with `wanted`, and the operation is under way. */
static void run_stopped(struct tti_check *c, struct tti_check_job *job, int64_t limit_ms, tutti_cancel_token *token,
                        tutti_status wanted)
{
    tti_check_pending_init(&job->check, &job->pending, TTI_CHECK_WAIT);
    struct started s = {.job = job, .token = token};
    const tutti_status status =
        tutti_run_with_limit(c->group, start_job, &s, limit_ms, token, &job->pending.work, &c->error);
    tti_check_status(c, "run_with_limit", status, wanted);
    tti_check_expect_i64(c, "what is spoilt", c->error.scope, TUTTI_SCOPE_CALL);
    tti_check_expect_i64(c, "there is a work", job->pending.work != NULL, 1);
}

/* The limit ends one wait and the token another one; both operations go on, and so does the group. */
static void limit_stops(struct tti_check *c, int64_t count)
{
    enum { JOBS = 2 };
    const int holder = c->size - 1;
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    struct tti_check_job held;
    struct tti_check_job jobs[JOBS];
    tutti_cancel_token *token = NULL;
    for (int i = 0; i < JOBS; i++) {
        tti_check_job_prepare(&jobs[i], c, &tti_check_all_reduce_form, &p, 1 + (uint64_t)i);
    }
    tti_check_block_lane(c, &held, holder, count);
    if (c->rank != holder) {
        run_stopped(c, &jobs[0], 1, NULL, TUTTI_BUSY);
        tti_check_ok(c, "cancel_token_create", tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &c->error));
        run_stopped(c, &jobs[1], TUTTI_FOREVER, token, TUTTI_CANCELLED);
        tti_check_ok(c, "cancel_token_destroy", tutti_cancel_token_destroy(token, &c->error));
    }
    tti_check_unblock_lane(c, &held, holder);
    for (int i = 0; i < JOBS; i++) {
        if (c->rank == holder) {
            tti_check_job_start(&jobs[i], TTI_CHECK_WAIT);
        }
        tti_check_job_finish(&jobs[i], TUTTI_OK);
        tti_check_job_end(&jobs[i], c);
    }
    tti_check_blocked_end(c, &held);
    tti_check_group_works(c);
}

/* ---- works of the application's own ---- */

/* One stands in a queue beside an operation; a cancel only asks for its end, and its status is not the group's. */
static void own_work(struct tti_check *c, int64_t count)
{
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    struct tti_check_job job;
    int64_t number = -7;
    int32_t cancelled = 7;
    tutti_queue *queue = NULL;
    tutti_work *own = NULL;
    tti_check_ok(c, "queue_create", tutti_queue_create(&queue, &c->error));
    tti_check_ok(c, "work_create", tutti_work_create(c->group, NULL, TUTTI_CALL(.error = &c->error), &own));
    tti_check_ok(c, "queue_enqueue", tutti_queue_enqueue(queue, own, &c->error));
    tti_check_job_prepare(&job, c, &tti_check_all_reduce_form, &p, 1);
    tti_check_job_start(&job, TTI_CHECK_WAIT);
    enqueue(c, queue, &job);
    tti_check_ok(c, "queue_wait_any", tutti_queue_wait_any(queue, TUTTI_FOREVER, &number, &c->error));
    tti_check_expect_i64(c, "the member that has ended", number, 1);
    tti_check_job_finish(&job, TUTTI_OK);
    tti_check_job_end(&job, c);
    tti_check_ok(c, "queue_cancel_all", tutti_queue_cancel_all(queue, &number));
    tti_check_ok(c, "work_cancelled", tutti_work_cancelled(own, &cancelled));
    tti_check_expect_i64(c, "the task is asked to end", cancelled, 1);
    tti_check_status(c, "queue_wait_all", tutti_queue_wait_all(queue, 1, &c->error), TUTTI_BUSY);
    tti_check_ok(c, "work_complete", tutti_work_complete(own, TUTTI_PEER_DEAD, "of the task", &c->error));
    tti_check_status(c, "queue_wait_all", tutti_queue_wait_all(queue, TUTTI_FOREVER, &c->error), TUTTI_PEER_DEAD);
    tti_check_expect_i64(c, "what is spoilt", c->error.scope, TUTTI_SCOPE_WORK);
    tti_check_ok(c, "queue_destroy", tutti_queue_destroy(queue, &c->error));
    tti_check_status(c, "the second work_complete", tutti_work_complete(own, TUTTI_OK, NULL, &c->error),
                     TUTTI_BAD_STATE);
    tti_check_group_works(c);
}

/* ---- the chapter ---- */

static void sized(struct tti_check *c, const char *name, void (*run)(struct tti_check *c, int64_t count))
{
    for (int i = 0; i < 2; i++) {
        tti_check_case(c, c->size > 1, run, i == 0 ? small_count : large_count, "%s/%s", name,
                       i == 0 ? "small" : "large");
    }
}

void tti_check_works_cases(struct tti_check *c)
{
    sized(c, "queue/destroy", queue_destroy);
    sized(c, "limit/stops-the-wait", limit_stops);
    sized(c, "own", own_work);
}
