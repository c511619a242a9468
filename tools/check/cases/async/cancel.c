/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Cancelling, where the group promises it; elsewhere cancels and tokens must be refused. Operations are known to wait
 * in the queue because the lane is blocked (block_lane.c), so every outcome is known beforehand. The rank that blocks
 * the lane cancels nothing. Cancels that race with the operation are in the soak.
 */
#include <stdlib.h>
#include <string.h>

#include "check/cases/cases.h"
#include "check/cases/collectives/forms.h"
#include "check/operation/block_lane.h"
#include "check/reference/expect.h"
#include "common/wire.h"

/* ---- what needs the flag ---- */

static bool needs_flag(const struct tti_check *c, unsigned traits)
{
    return (traits & TTI_CHECK_ROOTED) || !(c->capabilities & TUTTI_CAP_CANCEL);
}

static uint32_t flags_for(const struct tti_check *c, unsigned traits)
{
    return needs_flag(c, traits) ? TUTTI_CANCELLABLE : 0;
}

/* ---- operations in the queue ---- */

/* One rank cancels, or all but the holder, which is the first or the last. */
struct cancel_setup {
    int holder;
    bool all;
};

static int only_canceller(const struct tti_check *c, const struct cancel_setup *s)
{
    return s->holder == 0 ? c->size - 1 : 0;
}

static int lowest_canceller(const struct tti_check *c, const struct cancel_setup *s)
{
    return s->all ? (s->holder == 0 ? 1 : 0) : only_canceller(c, s);
}

static bool cancels(const struct tti_check *c, const struct cancel_setup *s)
{
    return c->rank != s->holder && (s->all || c->rank == only_canceller(c, s));
}

static void cancel(struct tti_check *c, struct tti_check_pending *f)
{
    int32_t cancelled = 7;
    tti_check_ok(c, "work_cancel", tutti_work_cancel(f->work, &c->error));
    tti_check_ok(c, "the second work_cancel", tutti_work_cancel(f->work, &c->error));
    tti_check_ok(c, "work_cancelled", tutti_work_cancelled(f->work, &cancelled));
    tti_check_expect_i64(c, "it will end cancelled", cancelled, 1);
}

/* Every rank's operation has ended cancelled, names the rank that cancelled, and has written nothing. */
static void expect_cancelled(struct tti_check_job *job, int lowest)
{
    struct tti_check *c = &job->check;
    const tutti_status status = tti_check_job_finish(job, TUTTI_CANCELLED);
    if (tti_check_status(c, "a cancelled operation", status, TUTTI_CANCELLED)) {
        tti_check_expect_i64(c, "the rank that is said to have cancelled", c->error.suspect, lowest);
        tti_check_expect_i64(c, "rank in the error", c->error.rank, c->rank);
        const bool is_source = job->operation.kind == TTI_CHECK_BROADCAST && c->rank == job->plan.root;
        if (!is_source && job->output.memory) {
            tti_check_tensor_untouched(c, &job->output, 0, job->output.count);
        }
    }
}

/* Starts the job behind an operation of `count` elements that blocks the lane, and cancels it there; lets the lane
 * go. */
static void cancel_behind(struct tti_check *c, struct tti_check_job *job, const struct cancel_setup *s, int64_t count,
                          enum tti_check_completion completion, struct tti_check_job *held)
{
    tti_check_block_lane(c, held, s->holder, count);
    if (c->rank != s->holder) {
        tti_check_job_start(job, completion);
    }
    if (cancels(c, s)) {
        cancel(c, &job->pending);
    }
    tti_check_unblock_lane(c, held, s->holder);
    if (c->rank == s->holder) {
        tti_check_job_start(job, completion);
    }
}

static void queued(struct tti_check *c, const struct tti_check_form *form, const struct tti_check_plan *p,
                   uint32_t flags, const struct cancel_setup *s)
{
    struct tti_check_job held;
    struct tti_check_job job;
    tti_check_job_prepare(&job, c, form, p, 1);
    job.operation.flags = flags;
    const unsigned synchronous = c->rank == s->holder ? 4 : 0;
    cancel_behind(c, &job, s, p->shape[0] > 0 ? p->shape[0] : 1, tti_check_random_completion(c, 2, synchronous), &held);
    expect_cancelled(&job, lowest_canceller(c, s));
    tti_check_job_end(&job, c);
    tti_check_blocked_end(c, &held);
    tti_check_group_works(c);
}

/* Several wait at once; some are cancelled by one rank, some by all, the others give their results. */
static void some_of_many(struct tti_check *c, int64_t count)
{
    enum { JOBS = 9 };
    const struct cancel_setup cancel_setups[2] = {{.holder = c->size - 1}, {.holder = c->size - 1, .all = true}};
    const int holder = c->size - 1;
    struct tti_check_job held;
    struct tti_check_job jobs[JOBS];
    tti_check_block_lane(c, &held, holder, count);
    for (int i = 0; i < JOBS; i++) {
        const struct tti_check_collective *collective = &tti_check_collectives[i]; /* the first ones are regular */
        const struct tti_check_plan p = tti_check_plan_for(collective, count);
        tti_check_job_prepare(&jobs[i], c, collective->form, &p, 10 + (uint64_t)i);
        jobs[i].operation.flags = flags_for(c, collective->traits);
    }
    for (int i = 0; c->rank != holder && i < JOBS; i++) {
        tti_check_job_start(&jobs[i], tti_check_random_completion(c, 20 + (uint64_t)i, 0));
    }
    for (int i = JOBS - 1; c->rank != holder && i >= 0; i--) {
        if (i % 3 != 0 && cancels(c, &cancel_setups[i % 3 - 1])) {
            cancel(c, &jobs[i].pending);
        }
    }
    tti_check_unblock_lane(c, &held, holder);
    for (int i = 0; c->rank == holder && i < JOBS; i++) {
        tti_check_job_start(&jobs[i], tti_check_random_completion(c, 20 + (uint64_t)i, 0));
    }
    for (int i = 0; i < JOBS; i++) {
        if (i % 3 == 0) {
            tti_check_job_finish(&jobs[i], TUTTI_OK);
        } else {
            expect_cancelled(&jobs[i], lowest_canceller(c, &cancel_setups[i % 3 - 1]));
        }
        tti_check_job_end(&jobs[i], c);
    }
    tti_check_blocked_end(c, &held);
    tti_check_group_works(c);
}

/* A handle that is given back behind its cancel: no rank waits for the operation, but the lane stays in step. */
static void cancel_and_release(struct tti_check *c, int64_t count)
{
    const struct cancel_setup s = {.holder = 0};
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    struct tti_check_job held;
    struct tti_check_job job;
    tti_check_job_prepare(&job, c, &tti_check_all_reduce_form, &p, 1);
    job.operation.flags = flags_for(c, 0);
    cancel_behind(c, &job, &s, count, TTI_CHECK_CALLBACK, &held);
    tti_check_pending_release(c, &job.pending);
    tti_check_expect_i64(c, "calls of the callback", tti_check_pending_callbacks(c, &job.pending), 1);
    tti_check_expect_i64(c, "status of the callback", job.pending.reported, TUTTI_CANCELLED);
    tti_check_job_end(&job, c);
    tti_check_blocked_end(c, &held);
    tti_check_group_works(c);
}

/* ---- what cannot be cancelled ---- */

static void too_late(struct tti_check *c, int64_t count)
{
    struct tti_check_job job;
    int32_t cancelled = 7;
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    tti_check_job_prepare(&job, c, &tti_check_all_reduce_form, &p, 1);
    job.operation.flags = flags_for(c, 0);
    tti_check_job_start(&job, TTI_CHECK_WAIT);
    tti_check_ok(c, "the wait", tutti_work_wait(job.pending.work, TUTTI_FOREVER));
    tti_check_status(c, "work_cancel behind the end", tutti_work_cancel(job.pending.work, &c->error), TUTTI_TOO_LATE);
    tti_check_ok(c, "work_cancelled", tutti_work_cancelled(job.pending.work, &cancelled));
    tti_check_expect_i64(c, "it counts as cancelled", cancelled, 0);
    tti_check_job_finish(&job, TUTTI_OK);
    tti_check_job_end(&job, c);
}

/* A start whose token could do nothing is refused, and no other rank is notified. */
static void refused_with_token(struct tti_check *c, const struct tti_check_form *form, const struct tti_check_plan *p,
                               uint32_t flags)
{
    struct tti_check_job job;
    tutti_cancel_token *token = NULL;
    if (!tti_check_ok(c, "cancel_token_create", tutti_cancel_token_create(NULL, TUTTI_FOREVER, &token, &c->error))) {
        return;
    }
    tti_check_job_prepare(&job, c, form, p, 2);
    job.operation.flags = flags;
    job.operation.token = token;
    tti_check_job_start(&job, TTI_CHECK_CALLBACK);
    tti_check_status(c, "a start with a token that can do nothing", job.pending.started, TUTTI_UNSUPPORTED);
    tti_check_expect_i64(c, "calls of the callback", job.pending.called, 0);
    tti_check_job_end(&job, c);
    tti_check_ok(c, "cancel_token_destroy", tutti_cancel_token_destroy(token, &c->error));
}

/* An operation that needs the flag and lacks it: a cancel and a token are refused, and it ends as if there had been
 * none. */
static void unflagged(struct tti_check *c, const struct tti_check_form *form, const struct tti_check_plan *p,
                      uint32_t flags)
{
    const struct cancel_setup s = {.holder = c->size - 1};
    struct tti_check_job held;
    struct tti_check_job job;
    refused_with_token(c, form, p, flags);
    tti_check_job_prepare(&job, c, form, p, 1);
    job.operation.flags = flags;
    tti_check_block_lane(c, &held, s.holder, p->shape[0]);
    if (c->rank != s.holder) {
        tti_check_job_start(&job, TTI_CHECK_WAIT);
        tti_check_status(c, "work_cancel of what cannot be cancelled", tutti_work_cancel(job.pending.work, &c->error),
                         TUTTI_UNSUPPORTED);
    }
    tti_check_unblock_lane(c, &held, s.holder);
    if (c->rank == s.holder) {
        tti_check_job_start(&job, TTI_CHECK_WAIT);
    }
    tti_check_job_finish(&job, TUTTI_OK);
    tti_check_job_end(&job, c);
    tti_check_blocked_end(c, &held);
}

/* With the flag, and without a cancel. */
static void flagged(struct tti_check *c, const struct tti_check_form *form, const struct tti_check_plan *p)
{
    for (int i = 0; i < 2; i++) {
        struct tti_check_job job;
        tti_check_job_prepare(&job, c, form, p, (uint64_t)i);
        job.operation.flags = TUTTI_CANCELLABLE;
        tti_check_job_start(&job, i == 0 ? TTI_CHECK_SYNC : tti_check_random_completion(c, 1, 0));
        tti_check_job_finish(&job, TUTTI_OK);
        tti_check_job_end(&job, c);
    }
}

/* ---- tokens ---- */

static void token(struct tti_check *c, int64_t count)
{
    enum { JOBS = 3 };
    const struct cancel_setup s = {.holder = c->size - 1};
    const struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, count);
    struct tti_check_job held;
    struct tti_check_job jobs[JOBS];
    struct tti_check_job late;
    tutti_cancel_token *shared = NULL;
    int64_t began = 7;
    if (!tti_check_ok(c, "cancel_token_create", tutti_cancel_token_create(NULL, TUTTI_FOREVER, &shared, &c->error))) {
        return;
    }
    tti_check_block_lane(c, &held, s.holder, count);
    for (int i = 0; i < JOBS; i++) {
        tti_check_job_prepare(&jobs[i], c, &tti_check_all_reduce_form, &p, (uint64_t)i);
        jobs[i].operation.token = shared;
        jobs[i].operation.flags = flags_for(c, 0);
    }
    for (int i = 0; c->rank != s.holder && i < JOBS; i++) {
        tti_check_job_start(&jobs[i], tti_check_random_completion(c, (uint64_t)i, 0));
    }
    if (cancels(c, &s)) {
        tti_check_ok(c, "cancel_token_cancel", tutti_cancel_token_cancel(shared, &began, &c->error));
        tti_check_expect_i64(c, "operations that were too late to cancel", began, 0);
        tti_check_job_prepare(&late, c, &tti_check_all_reduce_form, &p, JOBS);
        late.operation.token = shared;
        late.operation.flags = flags_for(c, 0);
        tti_check_job_start(&late, TTI_CHECK_CALLBACK);
        tti_check_status(c, "a start with a fired token", late.pending.started, TUTTI_CANCELLED);
        tti_check_expect_i64(c, "calls of the callback", late.pending.called, 0);
        tti_check_job_end(&late, c);
    }
    tti_check_unblock_lane(c, &held, s.holder);
    for (int i = 0; i < JOBS; i++) {
        if (c->rank == s.holder) {
            tti_check_job_start(&jobs[i], tti_check_random_completion(c, (uint64_t)i, 0));
        }
    }
    for (int i = JOBS - 1; i >= 0; i--) {
        expect_cancelled(&jobs[i], lowest_canceller(c, &s));
        tti_check_job_end(&jobs[i], c);
    }
    tti_check_ok(c, "cancel_token_destroy", tutti_cancel_token_destroy(shared, &c->error));
    tti_check_blocked_end(c, &held);
    tti_check_group_works(c);
}

/* ---- the chapter ---- */

bool tti_check_can_cancel(const struct tti_check *c)
{
    return c->size > 1 && (c->capabilities & (TUTTI_CAP_CANCEL | TUTTI_CAP_CANCEL_FLAGGED));
}

static void for_collective(struct tti_check *c, const struct tti_check_collective *collective, int64_t count)
{
    const bool can = c->size > 1 && (c->capabilities & TUTTI_CAP_CANCEL_FLAGGED);
    const bool refuses = c->size > 1 && needs_flag(c, collective->traits);
    const int roots = collective->traits & TTI_CHECK_ROOTED ? c->size : 1;
    struct tti_check_plan p = tti_check_plan_for(collective, count);
    for (int i = 0; i < 4; i++) {
        const struct cancel_setup s = {.holder = i % 2 == 0 ? c->size - 1 : 0, .all = i >= 2};
        p.root = (i + 1) % c->size;
        TTI_CHECK_CASE(c, "queued/%s/%lld/%s-%s", collective->name, (long long)count, s.all ? "all" : "one",
                       i % 2 == 0 ? "first" : "last") {
            tti_check_can_cancel(c) ? queued(c, collective->form, &p, flags_for(c, collective->traits), &s)
                                    : tti_check_skip(c);
        }
    }
    for (p.root = 0; p.root < roots; p.root++) {
        TTI_CHECK_CASE(c, "unflagged/%s/%lld/root%d", collective->name, (long long)count, p.root) {
            refuses ? unflagged(c, collective->form, &p, can ? 0 : TUTTI_CANCELLABLE) : tti_check_skip(c);
        }
        TTI_CHECK_CASE(c, "flagged/%s/%lld/root%d", collective->name, (long long)count, p.root) {
            tti_check_can_cancel(c) ? flagged(c, collective->form, &p) : tti_check_skip(c);
        }
    }
}

void tti_check_cancel_cases(struct tti_check *c)
{
    static const int64_t counts[] = {3, 5000, 40003};
    for (size_t k = 0; k < tti_check_collectives_count; k++) {
        if (tti_check_collectives[k].form) {
            for (size_t i = 0; i < (c->quick ? 2u : 3u); i++) {
                for_collective(c, &tti_check_collectives[k], counts[i]);
            }
        }
    }
    TTI_CHECK_CASE(c, "queued/barrier") {
        const struct tti_check_plan p = {.ndim = 1, .dtype = TUTTI_U8};
        const struct cancel_setup last = {.holder = c->size - 1};
        tti_check_can_cancel(c) ? queued(c, &tti_check_barrier_form, &p, flags_for(c, 0), &last) : tti_check_skip(c);
    }
    for (size_t i = 0; i < 2 * sizeof(counts) / sizeof(counts[0]); i++) {
        const tutti_wire wire = i % 2 ? TUTTI_WIRE_FP8 : TUTTI_WIRE_BF16;
        TTI_CHECK_CASE(c, "queued/all_reduce-%s/%lld", tti_tool_wire_name(wire), (long long)counts[i / 2]) {
            struct tti_check_plan p = tti_check_plan_1d(TUTTI_F32, TUTTI_SUM, counts[i / 2]);
            p.wire = wire;
            if (tti_check_has_wire(c) && tti_check_can_cancel(c)) {
                queued(c, &tti_check_all_reduce_form, &p, flags_for(c, 0), &(struct cancel_setup){.holder = 0});
            } else {
                tti_check_skip(c);
            }
        }
    }
    tti_check_small_and_large(c, tti_check_can_cancel(c), some_of_many, "some-of-many");
    tti_check_small_and_large(c, tti_check_can_cancel(c), cancel_and_release, "released");
    tti_check_small_and_large(c, tti_check_can_cancel(c), too_late, "too-late");
    tti_check_small_and_large(c, tti_check_can_cancel(c), token, "token");
    tti_check_message_cancel_cases(c);
}
