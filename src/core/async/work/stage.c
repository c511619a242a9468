/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a work changes its stage, and how it ends. The thread that moves a work to RUNNING has claimed it: that thread
 * concludes and publishes it, or gives it back. The end is published once: status and error are written, then the
 * state, then sleepers, the eventfd and the watches are notified.
 */
#include "core/async/work/stage.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/futex.h"
#include "core/async/deferred_ends.h"
#include "core/async/events.h"
#include "core/async/token.h"
#include "core/async/work/pool.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "core/group/group_table.h"

bool tti_work_mark_cancelled(struct tti_work *w)
{
    uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    do {
        if (state & TTI_FLAG_CANCEL) {
            return true;
        }
        if (tti_stage(state) != TTI_STAGE_MADE && tti_stage(state) != TTI_STAGE_QUEUED) {
            return false;
        }
        /* release: pairs with the acquire of the thread that claims the work */
    } while (!atomic_compare_exchange_weak_explicit(&w->state, &state, state | TTI_FLAG_CANCEL, memory_order_release,
                                                    memory_order_relaxed));
    return true;
}

bool tti_work_has_callbacks(const struct tti_work *w)
{
    return w->worker_only || w->task.call.options.callback;
}

bool tti_work_may_run(const struct tti_work *w)
{
    return !w->worker_only && !(w->task.call.options.callback && tti_in_any_callback());
}

/* ---- ending ----------------------------------------------------------------------------------------------------- */

static void notify_callbacks(struct tti_work *w, tutti_status status)
{
    struct tti_call *c = &w->task.call;
    struct tti_callback_frame frame;
    tti_callbacks_begin(&frame, c->group, w);
    if (c->options.callback) {
        c->options.callback(status, c->error, c->options.user);
    }
    if (w->newest_events > 0) {
        tutti_event event = {.size = sizeof(event),
                             .status = status,
                             .operation = c->operation,
                             .lane = c->options.lane,
                             .operation_id = c->options.operation_id,
                             .work = tti_work_handle(w),
                             .error = c->error};
        tti_events_notify(c->group, &event, w->newest_events, (c->options.flags & TUTTI_HANDLERS_ON_OK) != 0);
    }
    tti_callbacks_end(&frame, c->group);
}

void tti_work_conclude_slow(struct tti_work *w, tutti_status status)
{
    struct tti_call *c = &w->task.call;
    w->status = status;
    if (status == TUTTI_OK) {
        tti_error_clear(c->error);
    }
    tti_call_complete_error(c);
    if (status != TUTTI_OK && c->error->scope == TUTTI_SCOPE_CALL) {
        c->error->scope = TUTTI_SCOPE_WORK;
    }
    if (status != TUTTI_OK && status != TUTTI_CANCELLED && (c->options.flags & TUTTI_ENQUEUE) && !c->options.callback) {
        /* The stream goes on, and neither call nor callback reports the error. */
        tti_group_abort(c->group, c->options.lane, c->error);
    }
    tti_task_drop(&w->task);
    tti_token_unlink(&w->token);
    if (tti_work_has_callbacks(w)) {
        tti_work_change_stage(w, TTI_STAGE_RUNNING, TTI_STAGE_FINISHED,
                              0); /* pairs with the acquire in tti_work_ended */
        notify_callbacks(w, status);
        if (w->runner) { /* the thread may own a lane, or be the one that serves messages */
            tti_callbacks_hand_over_deferred();
        }
    }
}

static void notify_watches(struct tti_work *w)
{
    pthread_mutex_lock(&w->watch_lock);
    while (w->watches) {
        struct tti_watch *watch = w->watches;
        w->watches = watch->next;
        w->notifying = watch;
        pthread_mutex_unlock(&w->watch_lock);
        watch->ended(watch);
        pthread_mutex_lock(&w->watch_lock);
        w->notifying = NULL;
    }
    pthread_mutex_unlock(&w->watch_lock);
}

static void wake(struct tti_work *w)
{
    syscall(SYS_futex, &w->state, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

static void signal_descriptor(struct tti_work *w)
{
    uint64_t one = 1;
    ssize_t written = write(w->descriptor, &one, sizeof(one));
    (void)written; /* fails only when it is signalled already */
}

void tti_work_publish(struct tti_work *w)
{
    tti_group_release(w->task.call.group); /* a thread that sees the end may destroy the group at once */
    uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    /* seq_cst: pairs with tti_work_sleep, tti_work_watch and tutti_work_eventfd: either they see the end, or this sees
     * their flag */
    while (!atomic_compare_exchange_weak_explicit(
        &w->state, &state, (state & ~(uint32_t)(TTI_STAGE_MASK | TTI_FLAG_SLEEPER)) | TTI_STAGE_ENDED,
        memory_order_seq_cst, memory_order_relaxed)) {
    }
    if (state & TTI_FLAG_SLEEPER) {
        wake(w);
    }
    if (state & TTI_FLAG_EVENTFD) {
        signal_descriptor(w);
    }
    if (state & TTI_FLAG_WATCHED) {
        notify_watches(w);
    }
    tti_work_drop(w);
}

uint32_t tti_work_give_back(struct tti_work *w, uint32_t stage)
{
    uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&w->state, &state,
                                                  (state & ~(uint32_t)(TTI_STAGE_MASK | TTI_FLAG_SLEEPER)) | stage,
                                                  memory_order_acq_rel, memory_order_relaxed)) {
    }
    if (state & TTI_FLAG_SLEEPER) {
        wake(w); /* one of the sleepers may claim it now */
    }
    return state;
}

/* ---- works that the application completes ----------------------------------------------------------------------- */

/* Such a work is open, in stage QUEUED, until one thread moves it to RUNNING and ends it. Callbacks take the lock of
 * their group. So a thread inside a callback does not run another one: it defers the end until its outermost callback
 * has returned. See tti_callbacks_run_deferred for the thread that runs it then. */

static struct tti_work *work_of(struct tti_deferred *deferred)
{
    return (struct tti_work *)((char *)deferred - offsetof(struct tti_work, deferred));
}

static void end(struct tti_deferred *deferred)
{
    struct tti_work *w = work_of(deferred);
    tti_work_conclude(w, w->task.call.error->status);
    tti_work_publish(w);
}

static void hand_over(struct tti_deferred *deferred)
{
    tti_deferred_ends_add(&work_of(deferred)->task.call.group->deferred_ends, deferred);
}

tutti_status tti_work_complete(struct tti_work *w, tutti_status status, const char *message)
{
    struct tti_call *c = &w->task.call;
    if (w->runner || !tti_work_change_stage(w, TTI_STAGE_QUEUED, TTI_STAGE_RUNNING, 0)) {
        return TUTTI_BAD_STATE;
    }
    tti_error_set(c->error, status, "%s", message ? message : tutti_status_string(status));
    w->deferred = (struct tti_deferred){.run = end, .hand_over = hand_over};
    if (tti_work_has_callbacks(w) && tti_in_any_callback()) {
        tti_callbacks_defer(&w->deferred);
    } else {
        end(&w->deferred);
        tti_callbacks_run_deferred(); /* of its own callback */
    }
    return TUTTI_OK;
}

/* ---- sleeping --------------------------------------------------------------------------------------------------- */

void tti_work_sleep(struct tti_work *w, uint32_t seen, int64_t until_ns)
{
    if (!(seen & TTI_FLAG_SLEEPER)) { /* seq_cst: pairs with tti_work_publish and with put_open in lane.c */
        atomic_compare_exchange_strong_explicit(&w->state, &seen, seen | TTI_FLAG_SLEEPER, memory_order_seq_cst,
                                                memory_order_relaxed);
        return; /* the caller checks once more */
    }
    tti_futex_sleep(&w->state, seen, until_ns);
}

bool tti_work_wait_asleep(struct tti_work *w, int64_t until_ns)
{
    for (;;) {
        uint32_t state = atomic_load_explicit(&w->state, memory_order_seq_cst);
        if (tti_work_ended(w)) {
            return true;
        }
        if (until_ns != TTI_NEVER && tti_now_ns() >= until_ns) {
            return false;
        }
        tti_work_sleep(w, state, until_ns);
    }
}

/* ---- watches ---------------------------------------------------------------------------------------------------- */

bool tti_work_watch(struct tti_work *w, struct tti_watch *watch)
{
    pthread_mutex_lock(&w->watch_lock);
    watch->next = w->watches;
    w->watches = watch;
    /* seq_cst: pairs with the exchange in tti_work_publish */
    uint32_t state = atomic_fetch_or_explicit(&w->state, TTI_FLAG_WATCHED, memory_order_seq_cst);
    bool in_time = tti_stage(state) != TTI_STAGE_ENDED;
    if (!in_time) {
        w->watches = watch->next;
    }
    pthread_mutex_unlock(&w->watch_lock);
    return in_time;
}

void tti_work_unwatch(struct tti_work *w, struct tti_watch *watch)
{
    pthread_mutex_lock(&w->watch_lock);
    for (struct tti_watch **link = &w->watches; *link; link = &(*link)->next) {
        if (*link == watch) {
            *link = watch->next;
            break;
        }
    }
    while (w->notifying == watch) { /* short: watches do not block */
        pthread_mutex_unlock(&w->watch_lock);
        sched_yield();
        pthread_mutex_lock(&w->watch_lock);
    }
    pthread_mutex_unlock(&w->watch_lock);
}

/* ---- eventfd ---------------------------------------------------------------------------------------------------- */

tutti_status tti_work_open_descriptor(struct tti_work *w, int *fd, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&w->watch_lock);
    if (w->descriptor < 0) {
        w->descriptor = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (w->descriptor < 0) {
            status = tti_error_system(error, errno, "work_eventfd: no descriptor for the end of an operation");
        } else {
            /* seq_cst: pairs with the exchange in tti_work_publish */
            uint32_t state = atomic_fetch_or_explicit(&w->state, TTI_FLAG_EVENTFD, memory_order_seq_cst);
            if (tti_stage(state) == TTI_STAGE_ENDED) {
                signal_descriptor(w);
            }
        }
    }
    if (status == TUTTI_OK) {
        *fd = w->descriptor;
        tti_error_clear(error);
    }
    pthread_mutex_unlock(&w->watch_lock);
    return status;
}
