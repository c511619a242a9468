/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The owner of a lane hands it over when it leaves: to a thread that waits, or to a work, which it opens; else it
 * becomes idle. All changes of the queue are under its lock; an idle lane is taken and left without it. The timer marks
 * works that are overdue in the queue.
 */
#include "core/call/lane.h"

#include <assert.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/wait/futex.h"
#include "base/wait/yielding.h"
#include "core/async/work/stage.h"
#include "core/call/compare.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"

#define BUSY    TTI_LANE_BUSY
#define WAITING ((uintptr_t)2)
#define WORKER  ((uintptr_t)4) /* of an open work: only the worker may run it */
#define OUTSIDE ((uintptr_t)8) /* of an open work: a thread that is in a callback may not run it, but for the worker */
#define BITS    ((uintptr_t)15)

#define YIELDS   16         /* before the thread sleeps: the call in front is usually short */
#define GRACE_NS 1000000000 /* see mark_overdue */

static_assert(_Alignof(struct tti_work) > BITS, "the low bits of a work's address are free");

static struct tti_work *open_work(uintptr_t state)
{
    return (struct tti_work *)(state & ~BITS);
}

/* ---- handing over ----------------------------------------------------------------------------------------------- */

static void append(struct tti_lane_queue *q, struct tti_lane_waiter *waiter)
{
    waiter->next = NULL;
    waiter->overdue_ns = 0;
    *q->end = waiter;
    q->end = &waiter->next;
}

static struct tti_lane_waiter *pop(struct tti_lane_queue *q)
{
    struct tti_lane_waiter *waiter = q->first;
    if (waiter) {
        q->first = waiter->next;
        q->end = q->first ? q->end : &q->first;
    }
    return waiter;
}

static bool withdraw(struct tti_lane_queue *q, const struct tti_lane_waiter *waiter)
{
    for (struct tti_lane_waiter **link = &q->first; *link; link = &(*link)->next) {
        if (*link == waiter) {
            *link = waiter->next;
            q->end = waiter->next ? q->end : link;
            return true;
        }
    }
    return false;
}

static uintptr_t address_of(struct tti_work *w)
{
    return (uintptr_t)w | (w->worker_only ? WORKER : 0) | (w->task.call.options.callback ? OUTSIDE : 0);
}

static void leave_slow(struct tti_lane_queue *q, bool on_worker)
{
    pthread_mutex_lock(&q->lock);
    struct tti_lane_waiter *waiter = pop(q);
    uintptr_t more = q->first ? WAITING : 0;
    bool notify = false;
    /* Only threads with the lock change the state while it is BUSY | WAITING. Release: pairs with the acquire of the
     * claim, or of the thread that is granted the lane; the lane is as this thread leaves it. */
    if (!waiter) {
        atomic_store_explicit(&q->state, 0, memory_order_release);
    } else if (waiter->work) {
        atomic_store_explicit(&q->state, address_of(waiter->work) | more, memory_order_release);
        notify = !on_worker;
    } else {
        atomic_store_explicit(&q->state, BUSY | more, memory_order_release);
        atomic_store_explicit(&waiter->granted, 1, memory_order_release);
        syscall(SYS_futex, &waiter->granted, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    pthread_mutex_unlock(&q->lock);
    if (notify) {
        tti_lane_queue_push(q);
    }
}

static void leave(struct tti_lane_queue *q, bool on_worker)
{
    if (!tti_lane_queue_try_leave(q)) {
        leave_slow(q, on_worker);
    }
}

void tti_lane_queue_leave_waited(struct tti_lane_queue *q)
{
    leave_slow(q, false);
}

/* With the lock held and the waiter at the end of the queue: true if the lane was idle and is this thread's now. *open:
 * a work lies open in front of it, and the caller must push the lane. Not behind another waiter: that one has pushed
 * it, or will run the open work itself. */
static bool take_or_queue(struct tti_lane_queue *q, struct tti_lane_waiter *waiter, bool *open)
{
    uintptr_t state = atomic_load_explicit(&q->state, memory_order_relaxed);
    for (;;) {
        uintptr_t next = state == 0 ? BUSY : state | WAITING;
        if (atomic_compare_exchange_weak_explicit(&q->state, &state, next, memory_order_acquire,
                                                  memory_order_relaxed)) {
            break;
        }
    }
    if (state == 0) {
        withdraw(q, waiter);
        return true;
    }
    *open = !(state & (BUSY | WAITING));
    return false;
}

/* ---- running works ---------------------------------------------------------------------------------------------- */

/* Once the timer can find the work in its place. Without a timer, the thread that runs the lane still checks
 * deadlines. */
static void watch_deadline(struct tti_lane_queue *q, int64_t deadline)
{
    if (deadline != TTI_NEVER) {
        tti_timer_set_earlier(&q->timer, deadline, NULL);
    }
}

/* put_open for a lane that has waiters. */
__attribute__((noinline)) static void put_open_waited(struct tti_lane_queue *q, uintptr_t address)
{
    pthread_mutex_lock(&q->lock);
    atomic_store_explicit(&q->state, address | WAITING, memory_order_release);
    pthread_mutex_unlock(&q->lock);
    tti_lane_queue_push(q); /* the lane has waiters behind it */
}

/* Opens the work that this thread holds, BUSY. The work may have ended before this returns. A thread that is about to
 * sleep until its end, or has pushed the lane, sets a flag, then checks once more for an open work (or the worker
 * does). This opens the work, then reads the flags. All of it is seq_cst (store buffering), so one of them sees the
 * other. */
static void put_open(struct tti_lane_queue *q, struct tti_work *w)
{
    uintptr_t address = address_of(w);
    uintptr_t busy = BUSY;
    int64_t deadline = atomic_load_explicit(&w->deadline_ns, memory_order_relaxed);
    if (atomic_compare_exchange_strong_explicit(&q->state, &busy, address, memory_order_seq_cst,
                                                memory_order_relaxed)) {
        if (atomic_load_explicit(&w->state, memory_order_seq_cst) & (TTI_FLAG_SLEEPER | TTI_FLAG_PUSHED)) {
            tti_lane_queue_push(q);
        }
    } else {
        put_open_waited(q, address);
    }
    watch_deadline(q, deadline);
}

/* Claims the open work; NULL if there is none, or none for this thread. */
static inline struct tti_work *claim(struct tti_lane_queue *q, const struct tti_work *only, bool on_worker)
{
    uintptr_t state = atomic_load_explicit(&q->state, memory_order_seq_cst); /* see put_open */
    for (;;) {
        if ((state & BUSY) || !open_work(state) || (only && open_work(state) != only) ||
            (!on_worker && ((state & WORKER) || ((state & OUTSIDE) && tti_in_any_callback())))) {
            return NULL;
        }
        /* acquire: pairs with the release of the thread that opened the work */
        if (atomic_compare_exchange_weak_explicit(&q->state, &state, BUSY | (state & WAITING), memory_order_acquire,
                                                  memory_order_relaxed)) {
            return open_work(state);
        }
    }
}

static void end_work(struct tti_lane_queue *q, struct tti_work *w, tutti_status status, bool on_worker)
{
    tti_work_conclude(w, status); /* before the lane is left: callbacks come in the order of the lane */
    leave(q, on_worker);
    tti_work_publish(w);
}

/* Whether this rank itself has failed the group because its lane is busy: *error then says all that the cause does. */
static bool is_own_delay(struct tti_lane_queue *q, const tutti_error *cause)
{
    pthread_mutex_lock(&q->lock);
    const bool gave_up = q->gave_up;
    pthread_mutex_unlock(&q->lock);
    return gave_up && cause->suspect == q->group->rank;
}

/* The cause of the failed group names the suspect. */
static void add_cause(struct tti_lane_queue *q, tutti_error *error)
{
    tutti_error cause;
    if (tti_group_failure(q->group, &cause) == TUTTI_OK) {
        return;
    }
    if (strncmp(cause.message, error->message, strlen(error->message)) == 0) {
        /* the group was aborted with *error, and the engine has added the ranks that are late */
        snprintf(error->message, sizeof(error->message), "%s", cause.message);
    } else if (!is_own_delay(q, &cause)) {
        const tutti_error own = *error;
        snprintf(error->message, sizeof(error->message), "%.180s (%.240s)", own.message, cause.message);
    }
    error->suspect = cause.suspect;
    error->scope = TUTTI_SCOPE_GROUP;
}

/* The work was overdue when the lane reached it, and the group has failed for that reason. */
static tutti_status overdue(struct tti_lane_queue *q, struct tti_work *w)
{
    struct tti_call *c = &w->task.call;
    int64_t elapsed = (tti_now_ns() - w->task.op.begun_ns) / 1000000;
    tti_error_set(c->error, TUTTI_TIMEOUT, "%s waited %lld ms for lane %d of rank %d", w->task.function,
                  (long long)elapsed, q->index, q->group->rank);
    c->error->elapsed_ms = elapsed;
    add_cause(q, c->error);
    return TUTTI_TIMEOUT;
}

static tutti_status perform(struct tti_lane_queue *q, struct tti_work *w, bool on_worker)
{
    struct tti_task *t = &w->task;
    /* acquire: pairs with the release of the thread that cancelled the work or gave it back */
    uint32_t state = atomic_load_explicit(&w->state, memory_order_acquire);
    t->op.background = on_worker;
    if (tti_stage(state) == TTI_STAGE_ARRIVED) {
        tti_work_change_stage(w, TTI_STAGE_ARRIVED, TTI_STAGE_RUNNING, 0);
        return tti_task_finish(t);
    }
    if (!tti_work_change_stage(w, TTI_STAGE_QUEUED, TTI_STAGE_RUNNING, TTI_FLAG_CANCEL)) {
        tti_work_change_stage(w, TTI_STAGE_QUEUED, TTI_STAGE_RUNNING, 0);
        t->op.failed = TUTTI_CANCELLED;
    }
    tutti_status status =
        tti_task_perform(t); /* an overdue one, too: if all ranks have arrived, this rank stays in step */
    return status == TUTTI_REVOKED && (state & TTI_FLAG_OVERDUE) ? overdue(q, w) : status;
}

/* Whether the lane has reached this work, or passed it. */
static bool has_begun(const struct tti_work *w)
{
    uint32_t stage = tti_stage(atomic_load_explicit(&w->state, memory_order_acquire));
    return stage != TTI_STAGE_QUEUED && stage != TTI_STAGE_ARRIVED;
}

static bool run_open(struct tti_lane_queue *q, const struct tti_work *awaited, int64_t until_ns, bool on_worker)
{
    struct tti_work *w = claim(q, NULL, on_worker);
    if (!w) {
        return false;
    }
    /* `beyond`: w comes after it, and may depend on the waiting thread */
    const bool beyond = awaited && w != awaited && has_begun(awaited);
    if (beyond || atomic_load_explicit(&w->deadline_ns, memory_order_relaxed) > until_ns) {
        put_open(q, w);
        tti_lane_queue_push(q);
        return false;
    }
    end_work(q, w, perform(q, w, on_worker), on_worker);
    return true;
}

bool tti_lane_queue_run_open(struct tti_lane_queue *q, const struct tti_work *awaited)
{
    return !has_begun(awaited) && run_open(q, awaited, TTI_NEVER, false);
}

bool tti_lane_queue_try_finish(struct tti_lane_queue *q, struct tti_work *work)
{
    if (tti_stage(atomic_load_explicit(&work->state, memory_order_relaxed)) != TTI_STAGE_ARRIVED) {
        return false; /* running, or for the worker, which must not find it claimed */
    }
    struct tti_work *w = claim(q, work, false);
    if (!w) {
        return false;
    }
    if (q->group->backend->ops->poll(q->group->state, &w->task.op)) {
        end_work(q, w, perform(q, w, false), false);
        return true;
    }
    put_open(q, w);
    return false;
}

static void serve(struct tti_worker *worker)
{
    struct tti_lane_queue *q = (struct tti_lane_queue *)((char *)worker - offsetof(struct tti_lane_queue, worker));
    while (run_open(q, NULL, TTI_NEVER, true)) {
    }
}

/* Whether an operation that has arrived can end without reading from other ranks: that costs a cache line from another
 * CPU, and a start must not wait for it. Sets of bits, since every start asks. */
static bool needs_no_peer(const struct tti_group *g, const tutti_op *op)
{
    const uint32_t from_root = 1u << TUTTI_OP_BROADCAST | 1u << TUTTI_OP_SCATTER;
    const uint32_t to_root = 1u << TUTTI_OP_REDUCE | 1u << TUTTI_OP_GATHER;
    const uint32_t kind = 1u << op->kind;
    return kind & (from_root | to_root) ? (g->rank == op->root) == ((kind & from_root) != 0) : g->size == 1;
}

/* Whether the backend may begin the operation now and end it later, if it is small. */
static bool goes_in_two_steps(const struct tti_group *g, const struct tti_task *t)
{
    return g->backend->ops->start && !t->is_staged && !t->on_host_engine && t->side_count == 0 &&
           t->op.failed == TUTTI_OK && t->op.wire == TUTTI_WIRE_FULL && !tti_compares(g, &t->op);
}

/* The lane is this thread's, and the work is in `stage`, MADE or QUEUED: starts it, and ends it if that needs no
 * waiting. */
static void begin(struct tti_lane_queue *q, struct tti_work *w, uint32_t stage)
{
    struct tti_task *t = &w->task;
    bool arrived = false;
    if (!goes_in_two_steps(q->group, t) || !tti_work_change_stage(w, stage, TTI_STAGE_RUNNING, TTI_FLAG_CANCEL)) {
        tti_work_change_stage(w, TTI_STAGE_MADE, TTI_STAGE_QUEUED, 0);
    } else {
        arrived = tti_task_start(q->group, t);
        tti_work_change_stage(w, TTI_STAGE_RUNNING, arrived ? TTI_STAGE_ARRIVED : TTI_STAGE_QUEUED, 0);
        if (arrived && !w->worker_only && needs_no_peer(q->group, &t->op)) {
            end_work(q, w, perform(q, w, false), false);
            return;
        }
    }
    if (!arrived || tti_work_has_callbacks(w)) { /* a callback must run even if no thread waits */
        /* relaxed: no other thread has the work yet. Each thread that opens it notifies the worker. */
        atomic_fetch_or_explicit(&w->state, TTI_FLAG_PUSHED, memory_order_relaxed);
    }
    put_open(q, w);
}

void tti_lane_queue_submit(struct tti_lane_queue *q, struct tti_work *w)
{
    int64_t deadline = tti_deadline_ns(w->task.op.begun_ns, w->task.op.timeout_ms);
    atomic_store_explicit(&w->deadline_ns, deadline, memory_order_relaxed);
    uintptr_t idle = 0;
    if (atomic_compare_exchange_strong_explicit(&q->state, &idle, BUSY, memory_order_acquire, memory_order_relaxed)) {
        begin(q, w, TTI_STAGE_MADE);
        return;
    }
    tti_work_change_stage(w, TTI_STAGE_MADE, TTI_STAGE_QUEUED, 0);
    if (open_work(idle) && !(idle & (BUSY | WAITING))) {
        /* The work before may have arrived on all ranks: then the worker is not needed. With others behind it, the
         * worker has been notified. */
        tti_lane_queue_try_finish(q, open_work(idle));
    }
    bool open = false;
    pthread_mutex_lock(&q->lock);
    append(q, &w->lane_waiter);
    bool mine = take_or_queue(q, &w->lane_waiter, &open);
    pthread_mutex_unlock(&q->lock);
    if (mine) {
        begin(q, w, TTI_STAGE_QUEUED);
        return;
    }
    watch_deadline(q, deadline);
    if (open) {
        tti_lane_queue_push(q); /* the work before may be open and have arrived, with no thread that ends it */
    }
}

/* No other thread has the work before it is open, so its state needs no exchange. */
void tti_lane_queue_submit_again(struct tti_lane_queue *q, struct tti_work *w)
{
    struct tti_task *t = &w->task;
    const struct tti_group *g = q->group;
    if (w->worker_only || !g->backend->ops->start || t->op.wire != TUTTI_WIRE_FULL || !tti_lane_queue_try_enter(q)) {
        atomic_store_explicit(&w->state, TTI_STAGE_MADE, memory_order_relaxed);
        tti_lane_queue_submit(q, w);
        return;
    }
    const int64_t deadline = tti_deadline_ns(t->op.begun_ns, t->op.timeout_ms);
    /* relaxed, all: put_open publishes them */
    atomic_store_explicit(&w->deadline_ns, deadline, memory_order_relaxed);
    if (!tti_task_start(g, t)) {
        atomic_store_explicit(&w->state, TTI_STAGE_QUEUED | TTI_FLAG_PUSHED, memory_order_relaxed);
        put_open(q, w);
        return;
    }
    atomic_store_explicit(&w->state, TTI_STAGE_ARRIVED, memory_order_relaxed);
    if (needs_no_peer(g, &t->op)) {
        end_work(q, w, perform(q, w, false), false);
        return;
    }
    uintptr_t busy = BUSY;
    /* As put_open, for a work that no thread sleeps for or has pushed. */
    if (!atomic_compare_exchange_strong_explicit(&q->state, &busy, (uintptr_t)w, memory_order_release,
                                                 memory_order_relaxed)) {
        put_open_waited(q, (uintptr_t)w);
    }
    watch_deadline(q, deadline);
}

/* ---- synchronous calls ------------------------------------------------------------------------------------------ */

static tutti_status give_up(struct tti_lane_queue *q, int64_t begun_ns, int64_t timeout_ms, tutti_error *error)
{
    struct tti_group *g = q->group;
    int64_t elapsed = (tti_now_ns() - begun_ns) / 1000000;
    tti_error_set(error, TUTTI_TIMEOUT, "waited %lld ms for lane %d, behind other operations of rank %d",
                  (long long)elapsed, q->index, g->rank);
    error->elapsed_ms = elapsed;
    error->deadline_ms = timeout_ms;
    tti_group_abort(g, q->index, error);
    add_cause(q, error);
    return TUTTI_TIMEOUT;
}

static tutti_status enter_slow(struct tti_lane_queue *q, int64_t timeout_ms, int64_t *begun_ns, tutti_error *error)
{
    struct tti_lane_waiter waiter = {.work = NULL};
    *begun_ns = *begun_ns != 0 ? *begun_ns : tti_now_ns();
    int64_t until = tti_deadline_ns(*begun_ns, timeout_ms);
    bool open = false;
    pthread_mutex_lock(&q->lock);
    append(q, &waiter);
    bool mine = take_or_queue(q, &waiter, &open);
    pthread_mutex_unlock(&q->lock);
    if (mine) {
        return TUTTI_OK;
    }
    struct tti_yields yields = {.now_ns = tti_now_ns()};
    bool pays = tti_yield_pays();
    for (unsigned i = 0;; i++) {
        /* acquire: pairs with leave_slow */
        if (atomic_load_explicit(&waiter.granted, memory_order_acquire)) {
            return TUTTI_OK;
        }
        if (pays && i < YIELDS) {
            pays = tti_yield(&yields);
        } else if (until != TTI_NEVER && tti_now_ns() >= until && q->group->backend->ops->abort) {
            pthread_mutex_lock(&q->lock);
            bool withdrawn = withdraw(q, &waiter);
            pthread_mutex_unlock(&q->lock);
            if (!withdrawn) {
                return TUTTI_OK;
            }
            tti_lane_queue_push(q); /* a work behind this call has left that to it: see take_or_queue */
            return give_up(q, *begun_ns, timeout_ms, error);
        } else if (!run_open(q, NULL, until, false)) {
            tti_futex_sleep(&waiter.granted, 0, q->group->backend->ops->abort ? until : TTI_NEVER);
        }
    }
}

tutti_status tti_lane_queue_enter(struct tti_lane_queue *q, int64_t timeout_ms, int64_t *begun_ns, tutti_error *error)
{
    return tti_lane_queue_try_enter(q) ? TUTTI_OK : enter_slow(q, timeout_ms, begun_ns, error);
}

/* ---- deadlines of works that no thread runs --------------------------------------------------------------------- */

/* Marks the overdue works of the queue, and finds the next time at which there is something to do. The lane ends them
 * in its order. The operation in front usually has the same deadline. The backend ends it and names the missing rank.
 * Not every backend can name it at an abort from here. So that comes GRACE_NS later, once, if a work is still there.
 * GRACE_NS is longer than a thread waits for a CPU on a machine with many threads for each. Returns when the oldest
 * such work began; TTI_NEVER: nothing is to be aborted. */
static int64_t mark_overdue(struct tti_lane_queue *q, int64_t now, int64_t *next)
{
    int64_t oldest = TTI_NEVER;
    pthread_mutex_lock(&q->lock);
    for (struct tti_lane_waiter *waiter = q->first; waiter; waiter = waiter->next) {
        struct tti_work *w = waiter->work;
        const int64_t due = w ? atomic_load_explicit(&w->deadline_ns, memory_order_relaxed) : TTI_NEVER;
        int64_t until = due;
        if (w && due <= now) {
            atomic_fetch_or_explicit(&w->state, TTI_FLAG_OVERDUE, memory_order_relaxed);
            waiter->overdue_ns = waiter->overdue_ns != 0 ? waiter->overdue_ns : now;
            until = waiter->overdue_ns + GRACE_NS;
            if (until <= now && !q->gave_up && w->task.op.begun_ns < oldest) {
                oldest = w->task.op.begun_ns;
            }
        }
        /* A timer for a time that has passed would run without end, and no other timer of the process would. */
        *next = until > now && until < *next ? until : *next;
    }
    uintptr_t state = atomic_load_explicit(&q->state, memory_order_acquire);
    if (!(state & BUSY) && open_work(state)) {
        int64_t due = atomic_load_explicit(&open_work(state)->deadline_ns, memory_order_relaxed);
        if (due <= now) {
            atomic_fetch_or_explicit(&open_work(state)->state, TTI_FLAG_PUSHED,
                                     memory_order_seq_cst); /* see put_open */
            /* It has arrived, but no thread waits for it: the worker runs it, and the backend finds that it is late. */
            tti_lane_queue_push(q);
        } else if (due < *next) {
            *next = due;
        }
    }
    q->gave_up = q->gave_up || oldest != TTI_NEVER;
    pthread_mutex_unlock(&q->lock);
    return oldest;
}

static void notify(struct tti_timer *timer)
{
    struct tti_lane_queue *q = (struct tti_lane_queue *)((char *)timer - offsetof(struct tti_lane_queue, timer));
    struct tti_group *g = q->group;
    const int64_t now = tti_now_ns();
    int64_t next = TTI_NEVER;
    const int64_t oldest = mark_overdue(q, now, &next);
    if (oldest != TTI_NEVER && g->backend->ops->abort) {
        tutti_error error;
        tti_error_set(&error, TUTTI_TIMEOUT,
                      "the deadline of an operation passed while it waited for lane %d of rank %d", q->index, g->rank);
        error.elapsed_ms = (now - oldest) / 1000000;
        tti_group_abort(g, q->index, &error);
    }
    if (next != TTI_NEVER) {
        tti_timer_set_earlier(timer, next, NULL);
    }
}

/* ---- life ------------------------------------------------------------------------------------------------------- */

void tti_lane_queue_init(struct tti_lane_queue *q, struct tti_group *group, int32_t index)
{
    atomic_init(&q->state, 0);
    pthread_mutex_init(&q->lock, NULL);
    q->first = NULL;
    q->end = &q->first;
    q->group = group;
    q->index = index;
    q->timer = (struct tti_timer){.notify = notify};
    q->gave_up = false;
    tti_worker_init(&q->worker, serve);
}

void tti_lane_queue_close(struct tti_lane_queue *q)
{
    tti_timer_stop(&q->timer);
    tti_worker_stop(&q->worker);
    pthread_mutex_destroy(&q->lock);
}
