/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posted works form a list in the order of posting. A thread claims a work (POSTED -> RUNNING), tests or attends its
 * messages in the engine, and ends the work or gives it back. The worker claims the works one after the other; threads
 * that wait claim their own. The timer notifies the worker of deadlines, and of small messages that have not ended
 * after HELP_NS. Since the worker may be in a callback, the timer also tests messages whose deadline has passed, so
 * that the group fails in time. It runs no callbacks and leaves the end to the worker.
 */
#include "core/messages/messages.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/async/work/stage.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "core/messages/batch.h"
#include "core/messages/probe.h"

#define SMALL   128u    /* bytes: larger messages need the worker to progress while no thread waits */
#define HELP_NS 1000000 /* smaller ones need it if they have not ended by then: a ring of the engine may be full */

static const tutti_backend_ops *ops_of(const struct tti_messages *m)
{
    return m->group->host_backend->ops;
}

/* Makes the worker try all works. A work that another thread has claimed must have the flag PUSHED before. */
static void notify_worker(struct tti_messages *m)
{
    tti_worker_notify(&m->worker);
    ops_of(m)->wake_p2p(m->group->host_state); /* the worker may be waiting in attend_p2p */
}

static struct tti_messages *messages_of(const struct tti_work *w)
{
    return &w->task.call.group->messages;
}

static void push(struct tti_work *w)
{
    /* seq_cst: pairs with give_back; a thread that holds the work notifies the worker when it gives the work back */
    atomic_fetch_or_explicit(&w->state, TTI_FLAG_PUSHED, memory_order_seq_cst);
    notify_worker(messages_of(w));
}

static bool is_probe(const struct tti_work *w)
{
    return w->first && w->first->op.kind == TUTTI_OP_PROBE;
}

static void unlink_work(struct tti_messages *m, struct tti_work *w)
{
    pthread_mutex_lock(&m->lock);
    w->is_posted = false;
    m->scanned = m->scanned == w ? w->previous_posted : m->scanned;
    m->checked = m->checked == w ? w->previous_posted : m->checked;
    *(w->previous_posted ? &w->previous_posted->next_posted : &m->posted) = w->next_posted;
    *(w->next_posted ? &w->next_posted->previous_posted : &m->newest) = w->previous_posted;
    pthread_mutex_unlock(&m->lock);
}

/* The messages have ended, and this thread has claimed the work. */
static void finish(struct tti_messages *m, struct tti_work *w)
{
    struct tti_call *c = &w->task.call;
    tutti_status status = TUTTI_OK;
    unlink_work(m, w);
    if (w->posted) {
        status = ops_of(m)->end_p2p(m->group->host_state, w->posted, c->error);
        w->posted = NULL;
        if (is_probe(w)) { /* after unlink_work: a cancel in time is visible */
            const uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
            const bool late = (state & TTI_FLAG_OVERDUE) && !(state & TTI_FLAG_CANCEL);
            status = tti_probe_conclude(c, w->first, status, late);
        } else if (status != TUTTI_OK) {
            tti_group_share_failure(m->group, c->options.lane);
        }
        tti_transfers_record_end(c, w->first, status);
    }
    status = tti_transfers_conclude(c, w->first, status);
    tti_batch_free(w->batch);
    w->batch = NULL;
    tti_work_conclude(w, status);
    tti_work_publish(w);
}

/* With the work claimed. The deadline of a probe ends it on this rank alone, so the backend has no deadline for it. */
static bool withdraw_late(struct tti_messages *m, struct tti_work *w)
{
    if (!is_probe(w) || tti_now_ns() < atomic_load_explicit(&w->deadline_ns, memory_order_relaxed) ||
        !ops_of(m)->cancel_p2p(m->group->host_state, w->posted)) {
        return false;
    }
    atomic_fetch_or_explicit(&w->state, TTI_FLAG_OVERDUE, memory_order_relaxed);
    return ops_of(m)->test_p2p(m->group->host_state, w->posted);
}

static bool has_ended(struct tti_messages *m, struct tti_work *w)
{
    return !w->posted || ops_of(m)->test_p2p(m->group->host_state, w->posted) || withdraw_late(m, w);
}

static void give_back(struct tti_messages *m, struct tti_work *w)
{
    if (tti_work_give_back(w, TTI_STAGE_POSTED) & TTI_FLAG_PUSHED) {
        tti_worker_notify(&m->worker); /* the worker may have skipped the work while this thread held it */
    }
}

static bool claim(struct tti_work *w)
{
    return tti_work_change_stage(w, TTI_STAGE_POSTED, TTI_STAGE_RUNNING, 0);
}

static bool try_claimed(struct tti_messages *m, struct tti_work *w)
{
    if (has_ended(m, w)) {
        finish(m, w);
        return true;
    }
    give_back(m, w);
    return false;
}

static bool try_finish(struct tti_work *w)
{
    return tti_work_may_run(w) && claim(w) && try_claimed(messages_of(w), w);
}

/* Waits with the work claimed. False at until_ns, with the work given back. */
static bool wait_claimed(struct tti_messages *m, struct tti_work *w, int64_t until_ns)
{
    while (!has_ended(m, w)) {
        if (until_ns != TTI_NEVER && tti_now_ns() >= until_ns) {
            give_back(m, w);
            return false;
        }
        const int64_t due = is_probe(w) ? atomic_load_explicit(&w->deadline_ns, memory_order_relaxed) : TTI_NEVER;
        ops_of(m)->attend_p2p(m->group->host_state, w->posted, due < until_ns ? due : until_ns);
    }
    finish(m, w);
    return true;
}

static bool wait_for(struct tti_work *w, int64_t until_ns)
{
    struct tti_messages *m = messages_of(w);
    for (;;) {
        uint32_t state = atomic_load_explicit(&w->state, memory_order_seq_cst);
        if (tti_work_ended(w)) {
            return true;
        }
        if (tti_work_may_run(w) && claim(w)) {
            if (wait_claimed(m, w, until_ns)) {
                return true;
            }
            tti_worker_notify(&m->worker); /* the worker may have left the work to this thread */
        } else {
            tti_work_sleep(w, state, until_ns);
        }
        if (until_ns != TTI_NEVER && tti_now_ns() >= until_ns) {
            return tti_work_ended(w);
        }
    }
}

/* ---- posting ---------------------------------------------------------------------------------------------------- */

static tutti_status post(struct tti_messages *m, struct tti_work *w, size_t *bytes, tutti_error *error)
{
    struct tti_call *c = &w->task.call;
    const int64_t timeout_ms = is_probe(w) ? -1 : c->options.timeout_ms;
    tutti_op *few[4];
    tutti_op **all = few;
    size_t count = 0;
    for (struct tti_transfer *t = w->first; t; t = t->next) {
        count += t->partner == NULL;
    }
    if (count == 0) {
        return TUTTI_OK;
    }
    if (count > sizeof(few) / sizeof(few[0]) && !(all = malloc(count * sizeof(*all)))) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "%s: no memory for a batch of %zu messages", w->task.function,
                             count);
    }
    count = 0;
    for (struct tti_transfer *t = w->first; t; t = t->next) {
        if (!t->partner) {
            tutti_op *op = &t->op;
            op->size = sizeof(*op);
            op->lane = c->options.lane;
            op->user_tag = c->options.tag;
            op->timeout_ms = timeout_ms;
            op->begun_ns = w->task.op.begun_ns;
            op->status = TTI_NOT_RUN;
            all[count++] = op;
            *bytes += op->allocate ? SIZE_MAX / 2 : op->count * tutti_dtype_size(op->dtype);
        }
    }
    tti_transfers_record_begin(c, w->first);
    tutti_status status = ops_of(m)->post_p2p(m->group->host_state, all, count, timeout_ms, &w->posted, error);
    if (status != TUTTI_OK) {
        tti_transfers_record_end(c, w->first, status);
    }
    c->sequence = all[0]->sequence;
    if (all != few) {
        free(all);
    }
    return status;
}

static void link_work(struct tti_messages *m, struct tti_work *w)
{
    pthread_mutex_lock(&m->lock);
    w->is_posted = true;
    w->next_posted = NULL;
    w->previous_posted = m->newest;
    *(m->newest ? &m->newest->next_posted : &m->posted) = w;
    m->newest = w;
    w->was_posted = true;
    pthread_mutex_unlock(&m->lock);
}

tutti_status tti_messages_post(struct tti_messages *m, struct tti_work *w, tutti_error *error)
{
    size_t bytes = 0;
    pthread_mutex_lock(&w->post_lock); /* not that of all messages: backend fault sleeps here */
    const tutti_status status =
        w->is_prevented ? tti_error_set(error, TUTTI_CANCELLED, "%s: the token of the call has fired", w->task.function)
                        : post(m, w, &bytes, error);
    if (status != TUTTI_OK) {
        pthread_mutex_unlock(&w->post_lock);
        return status;
    }
    bool worker_only = w->worker_only;
    int64_t begun = w->task.op.begun_ns;
    int64_t deadline = tti_deadline_ns(w->task.op.begun_ns, w->task.call.options.timeout_ms);
    atomic_store_explicit(&w->deadline_ns, deadline, memory_order_relaxed);
    bool help = worker_only || bytes > SMALL; /* before another thread may end it */
    tti_work_change_stage(w, TTI_STAGE_MADE, TTI_STAGE_RUNNING, 0);
    if (help) {
        atomic_fetch_or_explicit(&w->state, TTI_FLAG_PUSHED, memory_order_relaxed);
    }
    link_work(m, w);
    pthread_mutex_unlock(&w->post_lock);
    if (worker_only) {
        give_back(m, w);
        notify_worker(m);
    } else if (try_claimed(m, w)) {
        return TUTTI_OK;
    } else if (help && ops_of(m)->wake_p2p) {
        /* a worker that attends the messages before this one does not know it */
        ops_of(m)->wake_p2p(m->group->host_state);
    }
    int64_t due = help || deadline < begun + HELP_NS ? deadline : begun + HELP_NS;
    if (due != TTI_NEVER) { /* after the timer can find the work */
        tti_timer_set_earlier(&m->timer, due, NULL);
    }
    return TUTTI_OK;
}

/* ---- cancelling ------------------------------------------------------------------------------------------------- */

/* Withdraws the messages of the work; false if one of them has begun. */
static bool cancel(struct tti_work *w)
{
    struct tti_messages *m = messages_of(w);
    pthread_mutex_lock(&w->post_lock);
    pthread_mutex_lock(&m->lock); /* works in the list are not freed meanwhile */
    bool withdrawn = (atomic_load_explicit(&w->state, memory_order_relaxed) & TTI_FLAG_CANCEL) != 0;
    bool now = !withdrawn && w->is_posted && w->posted && ops_of(m)->cancel_p2p(m->group->host_state, w->posted);
    const bool early = !w->was_posted;
    w->is_prevented = early;
    if (now) {
        atomic_fetch_or_explicit(&w->state, TTI_FLAG_CANCEL, memory_order_relaxed);
        push(w); /* it ends even if no thread waits for it */
    }
    pthread_mutex_unlock(&m->lock);
    pthread_mutex_unlock(&w->post_lock);
    return withdrawn || now || early;
}

const struct tti_work_runner tti_messages_runner = {
    .wait = wait_for, .try_finish = try_finish, .push = push, .cancel = cancel};

/* ---- the worker ------------------------------------------------------------------------------------------------- */

static bool is_due(const struct tti_work *w, int64_t due_by_ns)
{
    return atomic_load_explicit(&w->deadline_ns, memory_order_relaxed) <= due_by_ns;
}

/* Claims the oldest work that is not claimed and has a deadline up to due_by_ns, from the first one or else behind
 * *scanned, which becomes it; NULL if there is none. One at a time: a callback may need any of the others. */
static struct tti_work *claim_next(struct tti_messages *m, struct tti_work **scanned, bool from_first,
                                   int64_t due_by_ns)
{
    pthread_mutex_lock(&m->lock);
    *scanned = from_first ? NULL : *scanned;
    struct tti_work *w = *scanned ? (*scanned)->next_posted : m->posted;
    while (w && !(is_due(w, due_by_ns) && claim(w))) {
        *scanned = w;
        w = w->next_posted;
    }
    *scanned = w ? w : *scanned;
    pthread_mutex_unlock(&m->lock);
    return w;
}

static void serve(struct tti_worker *worker)
{
    struct tti_messages *m = (struct tti_messages *)((char *)worker - offsetof(struct tti_messages, worker));
    for (;;) {
        int64_t until = TTI_NEVER;
        bool left = false;
        struct tti_work *w;
        for (bool first = true; (w = claim_next(m, &m->scanned, first, TTI_NEVER)) != NULL; first = false) {
            int64_t due = atomic_load_explicit(&w->deadline_ns, memory_order_relaxed);
            if (!try_claimed(m, w)) {
                until = due < until ? due : until;
                left = true;
            }
        }
        if (!left) {
            return;
        }
        ops_of(m)->attend_p2p(m->group->host_state, NULL, until);
    }
}

/* ---- the timer -------------------------------------------------------------------------------------------------- */

/* Tests the works whose deadline has passed: the backend fails the group. */
static void test_overdue(struct tti_messages *m, int64_t now)
{
    struct tti_work *w;
    for (bool first = true; (w = claim_next(m, &m->checked, first, now)) != NULL; first = false) {
        if (has_ended(m, w)) {
            tti_group_share_failure(m->group, w->task.call.options.lane);
        }
        give_back(m, w);
    }
}

/* Whether the worker must try this work now; if not, *next becomes at most the time when it must. If another thread has
 * the work at its deadline, that thread may have tested it just before: *next is soon, to find out. */
static bool needs_help(struct tti_work *w, int64_t now, int64_t *next)
{
    const uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    int64_t due = atomic_load_explicit(&w->deadline_ns, memory_order_relaxed);
    int64_t help_due = w->task.op.begun_ns + HELP_NS;
    if (due <= now && tti_stage(state) == TTI_STAGE_RUNNING) {
        *next = now + HELP_NS < *next ? now + HELP_NS : *next;
    }
    due = !(state & TTI_FLAG_PUSHED) && help_due < due ? help_due : due;
    *next = due > now && due < *next ? due : *next;
    return due <= now;
}

static void notify(struct tti_timer *timer)
{
    struct tti_messages *m = (struct tti_messages *)((char *)timer - offsetof(struct tti_messages, timer));
    int64_t now = tti_now_ns();
    int64_t next = TTI_NEVER;
    bool any = false;
    test_overdue(m, now);
    pthread_mutex_lock(&m->lock);
    for (struct tti_work *w = m->posted; w; w = w->next_posted) {
        if (needs_help(w, now, &next)) {
            int64_t due = atomic_load_explicit(&w->deadline_ns, memory_order_relaxed);
            next = due > now && due < next ? due : next;
            atomic_fetch_or_explicit(&w->state, TTI_FLAG_PUSHED, memory_order_seq_cst); /* as in push */
            any = true;
        }
    }
    pthread_mutex_unlock(&m->lock);
    if (any) {
        notify_worker(m);
    }
    if (next != TTI_NEVER) {
        tti_timer_set_earlier(timer, next, NULL);
    }
}

void tti_messages_init(struct tti_messages *m, struct tti_group *group)
{
    m->group = group;
    m->posted = NULL;
    m->newest = NULL;
    m->scanned = NULL;
    m->checked = NULL;
    m->timer = (struct tti_timer){.notify = notify};
    pthread_mutex_init(&m->lock, NULL);
    tti_worker_init(&m->worker, serve);
}

void tti_messages_close(struct tti_messages *m)
{
    tti_timer_stop(&m->timer);
    tti_worker_stop(&m->worker);
    pthread_mutex_destroy(&m->lock);
}
