/* SPDX-License-Identifier: BSD-3-Clause */
/* The states of a work: waiting, cancelling, ending. Who runs it is decided in lane.c and messages.c. */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/async/events.h"
#include "core/async/work_state.h"
#include "core/group/group.h"

#define POLLS  400 /* looks at an operation that has arrived, before the lane's thread is woken for it */
#define YIELDS 16

bool tti_work_move(struct tti_work *w, uint32_t from, uint32_t to, uint32_t unless)
{
    uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    do {
        if (tti_stage(state) != from || (state & unless)) {
            return false;
        }
        /* acq_rel: what the thread before did to the work is visible to the one that claims it */
    } while (!atomic_compare_exchange_weak_explicit(&w->state, &state, (state & ~(uint32_t)TTI_STAGE_MASK) | to,
                                                    memory_order_acq_rel, memory_order_relaxed));
    return true;
}

struct tti_group *tti_work_group(const struct tti_work *w)
{
    return w->task.call.group;
}

const tutti_call *tti_work_options(const struct tti_work *w)
{
    return &w->task.call.options;
}

tutti_group *tti_work_owner(const struct tti_work *w)
{
    return tti_work_group_handle(w);
}

bool tti_work_ended(const struct tti_work *w)
{
    /* acquire: pairs with the release in tti_work_publish; status and error are there */
    uint32_t stage = tti_stage(atomic_load_explicit(&w->state, memory_order_acquire));
    return stage == TTI_STAGE_ENDED || (stage == TTI_STAGE_FINISHED && tti_in_callback_of(w));
}

tutti_status tti_work_status(const struct tti_work *w)
{
    return w->status;
}

const tutti_error *tti_work_details(const struct tti_work *w)
{
    return &w->task.call.own_error;
}

tutti_status tti_work_get_outcome(const struct tti_work *w, tutti_error *error)
{
    if (error) {
        *error = *tti_work_details(w);
    }
    return w->status;
}

bool tti_work_would_deadlock(const struct tti_work *w)
{
    return !tti_work_ended(w) && (tti_in_callback(tti_work_group(w)) || tti_callbacks_have_deferred(&w->deferred));
}

tutti_status tti_work_view(const struct tti_work *w, DLTensor *tensor, tutti_error *error)
{
    const char *name = tutti_operation_name(w->task.call.operation);
    if (!tti_work_ended(w)) {
        return tti_error_set(error, TUTTI_BAD_STATE, "work_result: the %s has not ended; wait for it first", name);
    }
    if (w->status != TUTTI_OK) {
        return tti_work_get_outcome(w, error);
    }
    if (!w->has_result) {
        return tti_error_set(error, TUTTI_NOT_FOUND, "work_result: this %s has no output tensor on rank %d", name,
                             w->task.call.rank);
    }
    *tensor = w->kept[2].tensor;
    return tti_error_clear(error);
}

/* ---- ending -------------------------------------------------------------------------------------------------------- */

static void notify_callbacks(struct tti_work *w, tutti_status status)
{
    struct tti_call *c = &w->task.call;
    struct tti_callback_frame frame;
    tti_callbacks_begin(&frame, c->group, w);
    if (c->options.callback) {
        c->options.callback(status, c->error, c->options.user);
    }
    tutti_event event = {.size = sizeof(event),
                         .status = status,
                         .operation = c->operation,
                         .lane = c->options.lane,
                         .operation_id = c->options.operation_id,
                         .work = tti_work_handle(w),
                         .error = c->error};
    tti_events_notify(c->group, &event, (c->options.flags & TUTTI_HANDLERS_ON_OK) != 0);
    tti_callbacks_end(&frame, c->group);
}

void tti_work_conclude(struct tti_work *w, tutti_status status)
{
    struct tti_call *c = &w->task.call;
    if (status == TUTTI_OK) {
        tti_error_clear(c->error);
    }
    tti_call_complete_error(c);
    if (status != TUTTI_OK && c->error->scope == TUTTI_SCOPE_CALL) {
        c->error->scope = TUTTI_SCOPE_WORK;
    }
    if (status != TUTTI_OK && status != TUTTI_CANCELLED && (c->options.flags & TUTTI_ENQUEUE) && !c->options.callback) {
        tti_group_abort(c->group, c->options.lane, c->error); /* a stream goes on behind it, and nobody else is told */
    }
    tti_task_drop(&w->task);
    tti_token_unlink(&w->token);
    w->status = status;
    /* release: pairs with the acquire in tti_work_ended */
    uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&w->state, &state,
                                                  (state & ~(uint32_t)TTI_STAGE_MASK) | TTI_STAGE_FINISHED,
                                                  memory_order_release, memory_order_relaxed)) {
    }
    if (w->worker_only) {
        notify_callbacks(w, status);
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

void tti_work_wake(struct tti_work *w)
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
    tti_group_release(tti_work_group(w)); /* whoever sees the end may destroy the group at once */
    uint32_t state = atomic_load_explicit(&w->state, memory_order_relaxed);
    /* seq_cst: pairs with tti_work_sleep, tti_work_watch and tutti_work_eventfd: either they see the end, or this sees
     * their flag */
    while (!atomic_compare_exchange_weak_explicit(
        &w->state, &state, (state & ~(uint32_t)(TTI_STAGE_MASK | TTI_FLAG_SLEEPER)) | TTI_STAGE_ENDED,
        memory_order_seq_cst, memory_order_relaxed)) {
    }
    if (state & TTI_FLAG_SLEEPER) {
        tti_work_wake(w);
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
        tti_work_wake(w); /* one of them may claim it now */
    }
    return state;
}

/* ---- waiting ------------------------------------------------------------------------------------------------------- */

void tti_work_sleep(struct tti_work *w, uint32_t seen, int64_t until_ns)
{
    if (!(seen & TTI_FLAG_SLEEPER)) { /* seq_cst: pairs with tti_work_publish and with put_open in lane.c */
        atomic_compare_exchange_strong_explicit(&w->state, &seen, seen | TTI_FLAG_SLEEPER, memory_order_seq_cst,
                                                memory_order_relaxed);
        return; /* the caller looks once more */
    }
    struct timespec limit = {.tv_sec = until_ns / 1000000000, .tv_nsec = until_ns % 1000000000};
    /* with FUTEX_WAIT_BITSET the time is absolute and CLOCK_MONOTONIC */
    syscall(SYS_futex, &w->state, FUTEX_WAIT_BITSET_PRIVATE, seen, until_ns == TTI_NEVER ? NULL : &limit, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static void push(struct tti_work *w, struct tti_lane_queue *q)
{
    /* seq_cst: pairs with put_open in lane.c; whoever holds the work just now will ring again */
    atomic_fetch_or_explicit(&w->state, TTI_FLAG_PUSHED, memory_order_seq_cst);
    tti_lane_push(q);
}

/* A waiter with a limit must not run the operation itself. It looks for a while, then has the lane's thread run it. */
static bool poll_for_a_while(struct tti_lane_queue *q, struct tti_work *w)
{
    for (int i = 0; i < POLLS + YIELDS; i++) {
        if (tti_work_ended(w) || tti_lane_try_finish(q, w)) {
            return true;
        }
        if (tti_stage(atomic_load_explicit(&w->state, memory_order_relaxed)) != TTI_STAGE_ARRIVED) {
            break;
        }
        if (i >= POLLS) {
            sched_yield();
        }
    }
    push(w, q);
    return false;
}

static bool wait_in_lane(struct tti_work *w, struct tti_lane_queue *q, int64_t until_ns)
{
    if (until_ns != TTI_NEVER && poll_for_a_while(q, w)) {
        return true;
    }
    for (;;) {
        uint32_t state = atomic_load_explicit(&w->state, memory_order_seq_cst);
        if (tti_work_ended(w)) {
            return true;
        }
        if (until_ns == TTI_NEVER && tti_lane_run_open(q, w)) {
            continue;
        }
        if (until_ns != TTI_NEVER && tti_now_ns() >= until_ns) {
            return false;
        }
        tti_work_sleep(w, state, until_ns);
    }
}

static bool wait_asleep(struct tti_work *w, int64_t until_ns)
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

bool tti_work_wait(struct tti_work *w, int64_t until_ns)
{
    if (tti_work_ended(w)) {
        return true;
    }
    if (w->is_user_work) {
        return wait_asleep(w, until_ns);
    }
    tutti_status why;
    struct tti_group *g =
        tti_group_acquire(tti_work_group_handle(w), &why); /* the lane must not go while this thread looks at it */
    if (!g) { /* no group is destroyed before its operations have ended; the end may be about to be published */
        return wait_asleep(w, TTI_NEVER);
    }
    bool ended = w->is_messages ? tti_messages_wait(&g->messages, w, until_ns)
                                : wait_in_lane(w, &g->lane_queues[w->task.call.options.lane], until_ns);
    tti_group_release(g);
    return ended;
}

bool tti_work_poll(struct tti_work *w)
{
    if (tti_work_ended(w) || w->is_user_work) {
        return tti_work_ended(w);
    }
    tutti_status why;
    struct tti_group *g = tti_in_callback(tti_work_group(w)) ? NULL : tti_group_acquire(tti_work_group_handle(w), &why);
    if (!g) {
        return tti_work_ended(w);
    }
    bool ended = w->is_messages ? tti_messages_try_finish(&g->messages, w)
                                : tti_lane_try_finish(&g->lane_queues[w->task.call.options.lane], w);
    tti_group_release(g);
    return ended || tti_work_ended(w);
}

void tti_work_push(struct tti_work *w)
{
    tutti_status why;
    struct tti_group *g =
        tti_work_ended(w) || w->is_user_work ? NULL : tti_group_acquire(tti_work_group_handle(w), &why);
    if (g && w->is_messages) {
        tti_messages_push(&g->messages, w);
    } else if (g) {
        push(w, &g->lane_queues[w->task.call.options.lane]);
    }
    if (g) {
        tti_group_release(g);
    }
}

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

bool tti_work_claim_for_queue(struct tti_work *w)
{
    return !(atomic_fetch_or_explicit(&w->state, TTI_FLAG_ENQUEUED, memory_order_relaxed) & TTI_FLAG_ENQUEUED);
}

/* ---- eventfd ------------------------------------------------------------------------------------------------------- */

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
    if (status == TUTTI_OK) {
        tti_work_push(w);
    }
    return status;
}

void tti_work_close_descriptor(struct tti_work *w)
{
    if (w->descriptor >= 0) {
        close(w->descriptor);
        w->descriptor = -1;
    }
}

/* ---- cancelling ---------------------------------------------------------------------------------------------------- */

static bool is_rooted(tutti_operation kind)
{
    return kind == TUTTI_OP_REDUCE || kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_GATHER || kind == TUTTI_OP_SCATTER;
}

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
        /* release: pairs with the acquire of who claims it */
    } while (!atomic_compare_exchange_weak_explicit(&w->state, &state, state | TTI_FLAG_CANCEL, memory_order_release,
                                                    memory_order_relaxed));
    return true;
}

static bool is_cancellable(const struct tti_work *w)
{
    const struct tti_call *c = &w->task.call;
    if (w->is_messages || w->is_user_work) {
        return true;
    }
    return c->options.flags & TUTTI_CANCELLABLE ? (w->capabilities & TUTTI_CAP_CANCEL_FLAGGED) != 0
                                                : (w->capabilities & TUTTI_CAP_CANCEL) && !is_rooted(c->operation);
}

tutti_status tti_work_check_cancellable(const struct tti_work *w, const char *function, tutti_error *error)
{
    if (is_cancellable(w)) {
        return TUTTI_OK;
    }
    const char *name = tutti_operation_name(w->task.call.operation);
    if (w->capabilities & TUTTI_CAP_CANCEL_FLAGGED) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "%s: in this group a %s can be cancelled only if every rank sets TUTTI_CANCELLABLE in the "
                             "flags of its call",
                             function, name);
    }
    return tti_error_set(error, TUTTI_UNSUPPORTED,
                         "%s: a %s cannot be cancelled in this group: its backend knows nothing of cancelling, and no "
                         "engine for host memory can tell the other ranks",
                         function, name);
}

/* A token has fired: see tti_token_link. */
bool tti_work_fired(struct tti_token_link *link)
{
    struct tti_work *w = (struct tti_work *)((char *)link - offsetof(struct tti_work, token));
    if (w->is_messages) {
        return !tti_messages_cancel(&tti_work_group(w)->messages, w);
    }
    return !tti_work_mark_cancelled(w);
}

tutti_status tti_work_cancel(struct tti_work *w, tutti_error *error)
{
    tutti_status status = tti_work_check_cancellable(w, "work_cancel", error);
    if (status != TUTTI_OK) {
        return status;
    }
    bool done;
    if (w->is_messages) {
        tutti_status why;
        struct tti_group *g = tti_group_acquire(tti_work_group_handle(w), &why);
        done = g ? tti_messages_cancel(&g->messages, w) : w->status == TUTTI_CANCELLED;
        if (g) {
            tti_group_release(g);
        }
    } else {
        done = tti_work_mark_cancelled(w);
    }
    return done ? tti_error_clear(error)
                : tti_error_set(error, TUTTI_TOO_LATE, "work_cancel: the %s has begun or ended on rank %d",
                                tutti_operation_name(w->task.call.operation), w->task.call.rank);
}

bool tti_work_is_cancelled(const struct tti_work *w)
{
    if (tti_work_ended(w)) {
        return w->status == TUTTI_CANCELLED;
    }
    return (atomic_load_explicit(&w->state, memory_order_relaxed) & TTI_FLAG_CANCEL) != 0;
}
