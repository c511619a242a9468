/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for all waits for one member after the other. Without a limit this thread runs the operations itself. With
 * one, it polls for a while, then the lane's worker runs them (lane_runner.c). Waiting for any leaves the operations to
 * other threads and sleeps on an event counter: ends of works and new members.
 *
 * The sleeping protocol (store buffering, so both sides are seq_cst):
 *   waiter   reads `changes`; polls all members; raises `sleepers`; sleeps if `changes` is still the same
 *   changer  raises `changes`; reads `sleepers`; wakes all if there are any (note_change in queue.c)
 * Either the waiter sees the new count, or the changer sees the sleeper.
 */
#include "core/queue/queue_wait.h"

#include <stdbool.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/futex.h"
#include "core/async/work/stage.h"
#include "core/async/work/work.h"
#include "core/queue/queue.h"
#include "core/queue/queue_state.h"

/* Whether an open member belongs to a group that has this thread in a callback. With the lock. */
static bool open_in_callback(const struct tti_queue *q)
{
    for (size_t i = 0; i < q->count; i++) {
        if (tti_work_would_deadlock(q->members[i]->work)) {
            return true;
        }
    }
    return false;
}

static tutti_status would_deadlock(const char *function, tutti_error *error)
{
    return tti_error_set(error, TUTTI_WOULD_DEADLOCK,
                         "%s: called from a callback of a group that has an open operation in the queue; poll with "
                         "limit 0, or wait after the callback has returned",
                         function);
}

/* The first error in the order of the members, all of which have ended. With the lock. */
static tutti_status first_error(const struct tti_queue *q, tutti_error *error)
{
    for (size_t i = 0; i < q->count; i++) {
        const struct tti_work *w = q->members[i]->work;
        if (tti_work_status(w) != TUTTI_OK) {
            if (error) {
                *error = *tti_work_details(w);
            }
            return tti_work_status(w);
        }
    }
    return tti_error_clear(error);
}

static tutti_status still_open(struct tti_queue *q, int64_t limit_ms, tutti_error *error)
{
    int64_t open = 0;
    pthread_mutex_lock(&q->lock);
    size_t count = q->count;
    for (size_t i = 0; i < count; i++) {
        open += !tti_work_ended(q->members[i]->work);
    }
    pthread_mutex_unlock(&q->lock);
    tti_error_set(error, TUTTI_BUSY, "queue_wait_all: %lld of %zu operations have not ended after %lld ms",
                  (long long)open, count, (long long)limit_ms);
    if (error) {
        error->deadline_ms = limit_ms;
    }
    return TUTTI_BUSY;
}

/* The next open member, pinned, in *open; or NULL and the result of waiting: there is none, or one that must not be
 * waited for here. The first time every open member is checked, so that a wait that cannot succeed fails at once. After
 * that only the next one is. */
static tutti_status next_to_wait_for(struct tti_queue *q, int64_t serial, bool waits, struct tti_queue_member **open,
                                     tutti_error *error)
{
    const bool first = serial == 0;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&q->lock);
    struct tti_queue_member *m = tti_queue_next_open(q, serial);
    if (!m) {
        status = first_error(q, error);
    } else if (waits && (first ? open_in_callback(q) : tti_work_would_deadlock(m->work))) {
        m = NULL;
        status = would_deadlock("queue_wait_all", error);
    } else {
        tti_queue_pin(m);
    }
    pthread_mutex_unlock(&q->lock);
    *open = m;
    return status;
}

tutti_status tti_queue_wait_all(struct tti_queue *q, int64_t limit_ms, tutti_error *error)
{
    int64_t until_ns = tti_deadline_ns(tti_now_ns(), limit_ms);
    if (limit_ms == 0) {
        tti_queue_poll(q);
    }
    for (int64_t next = 0;;) {
        struct tti_queue_member *m;
        tutti_status status = next_to_wait_for(q, next, limit_ms != 0, &m, error);
        if (!m) {
            return status;
        }
        bool ended = limit_ms != 0 && tti_work_wait(m->work, until_ns);
        next = tti_queue_unpin(q, m); /* all members before it have ended, and new ones come behind */
        if (!ended) {
            return still_open(q, limit_ms, error);
        }
    }
}

/* Has every open member run without this thread's help. */
static void push_open(struct tti_queue *q)
{
    for (;;) {
        pthread_mutex_lock(&q->lock);
        struct tti_queue_member *m = tti_queue_next_open(q, q->next_push);
        q->next_push = m ? m->serial + 1 : q->next_serial;
        if (m) {
            tti_queue_pin(m);
        }
        pthread_mutex_unlock(&q->lock);
        if (!m) {
            return;
        }
        tti_work_push(m->work);
        tti_queue_unpin(q, m);
    }
}

static void sleep_until_change(struct tti_queue *q, uint32_t seen, int64_t until_ns)
{
    /* seq_cst, see the protocol */
    atomic_fetch_add_explicit(&q->sleepers, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&q->changes, memory_order_seq_cst) == seen) {
        tti_futex_sleep(&q->changes, seen, until_ns);
    }
    /* relaxed: too late costs a changer one needless wake */
    atomic_fetch_sub_explicit(&q->sleepers, 1, memory_order_relaxed);
}

struct view {
    int64_t ended; /* index of the first member that has ended, or -1 */
    bool empty;
    bool in_callback; /* see open_in_callback */
};

static struct view view_of(struct tti_queue *q)
{
    struct view view = {.ended = -1};
    pthread_mutex_lock(&q->lock);
    for (size_t i = 0; i < q->count && view.ended < 0; i++) {
        if (tti_work_ended(q->members[i]->work)) {
            view.ended = (int64_t)i;
        }
    }
    view.empty = q->count == 0;
    view.in_callback = view.ended < 0 && open_in_callback(q);
    pthread_mutex_unlock(&q->lock);
    return view;
}

tutti_status tti_queue_wait_any(struct tti_queue *q, int64_t limit_ms, int64_t *index, tutti_error *error)
{
    int64_t until_ns = tti_deadline_ns(tti_now_ns(), limit_ms);
    for (bool polled = false;; polled = true) {
        /* seq_cst, see the protocol; before the members are polled */
        uint32_t seen = atomic_load_explicit(&q->changes, memory_order_seq_cst);
        struct view view = view_of(q);
        bool passed = polled && until_ns != TTI_NEVER && tti_now_ns() >= until_ns;
        if (view.ended >= 0 || view.empty || passed) {
            *index = view.ended;
            return tti_error_clear(error);
        }
        if (limit_ms != 0 && view.in_callback) {
            return would_deadlock("queue_wait_any", error);
        }
        if (!polled) {
            tti_queue_poll(q);
        } else {
            push_open(q);
            sleep_until_change(q, seen, until_ns);
        }
    }
}
