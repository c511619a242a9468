/* SPDX-License-Identifier: BSD-3-Clause */
/* What is built upon works: queues. */
#include "check/ways.h"

static const int64_t small_count = 5;
static const int64_t large_count = 100003;

/* ---- queues ---- */

static void enqueue(struct tti_check *c, tutti_queue *queue, struct tti_check_job *job)
{
    if (tti_check_ok(c, "queue_enqueue", tutti_queue_enqueue(queue, job->flight.work, &c->error))) {
        job->flight.work = NULL; /* the queue's */
    }
}

/* A queue is destroyed that holds an operation under way and one that waits for its turn: on every rank both end well. */
static void queue_destroy(struct tti_check *c, int64_t count)
{
    const int holder = c->size - 1;
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    struct tti_check_job held;
    struct tti_check_job behind;
    tutti_queue *queue = NULL;
    tti_check_job_prepare(&behind, c, &tti_check_all_reduce_form, &p, 1);
    tti_check_hold(c, &held, holder, count);
    if (c->rank != holder && tti_check_ok(c, "queue_create", tutti_queue_create(&queue, &c->error))) {
        tti_check_job_start(&behind, TTI_CHECK_CALLBACK);
        enqueue(c, queue, &held);
        enqueue(c, queue, &behind);
        tti_check_ok(c, "queue_destroy", tutti_queue_destroy(queue, &c->error));
    }
    tti_check_let_go(c, &held, holder);
    if (c->rank == holder) {
        tti_check_job_start(&behind, TTI_CHECK_CALLBACK);
    }
    tti_check_expect_i64(c, "calls of the callback", tti_check_flight_called(c, &behind.flight), 1);
    tti_check_expect_i64(c, "status that the callback was told", behind.flight.told, TUTTI_OK);
    tti_check_job_finish(&behind, TUTTI_OK);
    tti_check_job_end(&behind, c);
    tti_check_held_end(c, &held);
    tti_check_group_works(c);
}

/* ---- the chapter ---- */

static void sized(struct tti_check *c, const char *name, void (*run)(struct tti_check *c, int64_t count))
{
    for (int i = 0; i < 2; i++) {
        if (tti_check_begin(c, "%s/%s", name, i == 0 ? "small" : "large")) {
            c->size > 1 ? run(c, i == 0 ? small_count : large_count) : tti_check_skip(c);
            tti_check_end(c);
        }
    }
}

void tti_check_works_more(struct tti_check *c)
{
    sized(c, "queue/destroy", queue_destroy);
}
