/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Long sequences by chance with several operations under way at once: any collective, barriers and messages, on all
 * lanes, asynchronous and synchronous. All ranks start the same operations in the same order. Each rank alone decides
 * which operation it waits for, how and when, and which it cancels. Afterwards they compare: an operation was cancelled
 * on every rank or on none. It was cancelled if and only if a cancel had succeeded, and every rank names the lowest
 * rank of these.
 */
#include <stdlib.h>

#include "check/cases/cases.h"
#include "check/data/data.h"
#include "check/data/device_memory.h"
#include "check/operation/jobs.h"
#include "check/reference/expect.h"

enum { DEPTH = 12 };

/* What this rank has seen of one operation. */
struct seen {
    int64_t canceller; /* this rank, if its cancel succeeded; else the number of ranks: the minimum counts */
    bool cancelled;
    int32_t suspect;
};

struct soak {
    struct tti_check *c;
    bool cancels;
    int count; /* under way */
    struct tti_check_job *in_flight[DEPTH];
    struct seen *seen;
};

static uint64_t by_chance(const struct soak *s, uint64_t number)
{
    return tti_check_mix(tti_check_mix(s->c->key, number), 77 + (uint64_t)s->c->rank);
}

static void cancel(struct soak *s, struct tti_check_job *job)
{
    struct tti_check *c = &job->check;
    if (!job->pending.work) {
        return;
    }
    const tutti_status status = tutti_work_cancel(job->pending.work, &c->error);
    if (status == TUTTI_OK) {
        s->seen[job->number].canceller = c->rank;
    } else {
        tti_check_status(c, "work_cancel", status, TUTTI_TOO_LATE);
    }
}

static void finish_one(struct soak *s, int which)
{
    struct tti_check_job *job = s->in_flight[which];
    struct seen *seen = &s->seen[job->number];
    s->in_flight[which] = s->in_flight[--s->count];
    if (job->cancellable && by_chance(s, 4 * (uint64_t)job->number) % 4 == 0) {
        cancel(s, job); /* most have begun by now */
    }
    const tutti_status status = tti_check_job_finish(job, job->cancellable ? TUTTI_CANCELLED : TUTTI_OK);
    seen->cancelled = status == TUTTI_CANCELLED;
    seen->suspect = job->check.error.suspect;
    tti_check_job_end(job, s->c);
    free(job);
}

/* What runs as operation `number`, with its plan. */
static const struct tti_check_form *choose(const struct soak *s, uint64_t draw, int number, size_t max_bytes,
                                           struct tti_check_plan *plan, bool *cancellable)
{
    enum { MESSAGE = 1, OTHERS = 2, REGULAR = 11 /* at the head of the table */ };
    const size_t which = draw % (OTHERS + REGULAR);
    const bool regular = which >= OTHERS;
    const struct tti_check_collective *collective = &tti_check_collectives[regular ? which - OTHERS : 0];
    const unsigned traits = regular ? collective->traits : 0;
    *plan = tti_check_plan_random(s->c, traits, draw, max_bytes);
    if (which == MESSAGE) {
        plan->root = number; /* the tag */
        return &tti_check_ring_form;
    }
    *cancellable = s->cancels && (draw >> 40 & 1);
    return regular ? collective->form : &tti_check_barrier_form;
}

static void start_random(struct soak *s, int number, size_t max_bytes)
{
    const uint64_t draw = tti_check_mix(s->c->key, 1000 + (uint64_t)number);
    const uint64_t own = by_chance(s, 4 * (uint64_t)number + 1);
    struct tti_check_job *job = tti_check_memory(sizeof(*job));
    struct tti_check_plan plan;
    bool cancellable = false;
    const struct tti_check_form *form = choose(s, draw, number, max_bytes, &plan, &cancellable);
    tti_check_job_prepare(job, s->c, form, &plan, (uint64_t)number);
    tti_check_label(&job->check, "#%d %s", number, form->name);
    job->number = number;
    job->cancellable = cancellable;
    job->operation.flags = job->cancellable ? TUTTI_CANCELLABLE : 0;
    job->check.lane = (int)((draw >> 48) % TTI_CHECK_LANE_COUNT);
    s->seen[number].canceller = s->c->size;
    tti_check_job_start(job, tti_check_random_completion(&job->check, 0, 2));
    s->in_flight[s->count++] = job;
    if (job->cancellable && own % 4 == 0) {
        cancel(s, job);
    }
}

/* All ranks learn which ranks cancelled which operation. */
static void compare(struct soak *s, int operations)
{
    struct tti_check *c = s->c;
    int64_t *lowest = tti_check_memory((size_t)operations * sizeof(*lowest));
    for (int i = 0; i < operations; i++) {
        lowest[i] = s->seen[i].canceller;
    }
    struct tti_check_values words;
    tti_check_values_begin(c, &words, lowest, operations);
    const tutti_status status =
        tutti_all_reduce(c->group, &words.t, &words.t, TUTTI_MIN, TUTTI_CALL(.error = &c->error));
    tti_check_values_end(&words);
    if (tti_check_ok(c, "all_reduce", status)) {
        for (int i = 0; i < operations && !c->failed; i++) {
            const struct seen *seen = &s->seen[i];
            if (!tti_check_expect_i64(c, "cancelled, since a cancel succeeded", seen->cancelled, lowest[i] < c->size) ||
                (seen->cancelled &&
                 !tti_check_expect_i64(c, "the rank that is said to have cancelled", seen->suspect, lowest[i]))) {
                tti_check_fail(c, "it was operation #%d", i);
            }
        }
    }
    free(lowest);
}

static void sequence(struct tti_check *c, int operations, size_t max_bytes, bool cancels)
{
    struct soak s = {.c = c, .cancels = cancels};
    s.seen = calloc((size_t)operations, sizeof(*s.seen));
    if (!s.seen) {
        tti_check_fail(c, "no memory");
        return;
    }
    for (int i = 0; i < operations; i++) {
        start_random(&s, i, max_bytes);
        /* sometimes nothing, sometimes much is under way; how much, each rank decides alone */
        const uint64_t own = by_chance(&s, 4 * (uint64_t)i + 2);
        const int keep = own % 5 == 0 ? (int)((own >> 8) % DEPTH) : DEPTH - 1;
        while (s.count > keep) {
            finish_one(&s, (int)(by_chance(&s, 4 * (uint64_t)i + 3 + ((uint64_t)s.count << 32)) % (uint64_t)s.count));
        }
    }
    while (s.count > 0) {
        finish_one(&s, s.count - 1);
    }
    if (cancels) {
        compare(&s, operations);
    }
    free(s.seen);
}

void tti_check_async_soak_cases(struct tti_check *c)
{
    const size_t large = c->quick ? (size_t)100 << 10 : (size_t)500 << 10;
    for (int i = 0; i < (c->quick ? 1 : 2); i++) {
        TTI_CHECK_CASE(c, "small/%d", i) {
            sequence(c, c->quick ? 300 : 1000, 600, false);
        }
        TTI_CHECK_CASE(c, "mixed/%d", i) {
            sequence(c, c->quick ? 60 : 150, large, false);
        }
        TTI_CHECK_CASE(c, "small/cancels/%d", i) {
            tti_check_can_cancel(c) ? sequence(c, c->quick ? 300 : 1000, 600, true) : tti_check_skip(c);
        }
        TTI_CHECK_CASE(c, "mixed/cancels/%d", i) {
            tti_check_can_cancel(c) ? sequence(c, c->quick ? 60 : 150, large, true) : tti_check_skip(c);
        }
    }
}
