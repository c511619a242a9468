/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes: who may run the next operation of a lane, in the order of the calls.
 *
 * One word says it all in the common case, so that a synchronous call on an idle lane costs two compare-and-swaps and no
 * lock:
 *     0                      idle
 *     BUSY                   a thread is running an operation
 *     address of a work      the next operation is this one, open: whoever claims it (address -> BUSY) runs it
 * plus the bit WAITING when the queue behind is not empty. The queue, under a lock, holds turns: threads with a
 * synchronous call, and works. Who leaves a lane with WAITING hands it to the first turn, so nobody overtakes.
 *
 * An open work is run by the lane's worker thread once that has been rung for, or earlier by a thread that waits for
 * anything behind it. A small operation has arrived already when it is opened (the backend's `start`): then the worker
 * is left asleep until something else needs the lane, see tti_lane_submit.
 */
#ifndef TTI_CORE_LANE_H
#define TTI_CORE_LANE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <tutti/status.h>

#include "core/async/timer.h"
#include "core/async/worker.h"

struct tti_group;
struct tti_work;

/* A place in the queue of a lane. */
struct tti_lane_waiter {
    struct tti_lane_waiter *next;
    struct tti_work *work;    /* NULL: a thread, which sleeps on granted */
    _Atomic uint32_t granted; /* release by who hands the lane over, acquire by the thread */
};

struct tti_lane_queue {
    _Atomic uintptr_t state;
    unsigned char pad[120]; /* of its own cache lines: lanes do not disturb one another */
    pthread_mutex_t lock;   /* the queue */
    struct tti_lane_waiter *first;
    struct tti_lane_waiter **end;
    struct tti_group *group;
    int32_t index;
    struct tti_worker worker;
    struct tti_timer timer; /* deadlines of works that nobody runs */
};

#define TTI_LANE_BUSY ((uintptr_t)1)

void tti_lane_init(struct tti_lane_queue *q, struct tti_group *group, int32_t index);

/* Nothing is pending any more: ends the worker and the timer. */
void tti_lane_close(struct tti_lane_queue *q);

/* For a synchronous call: returns when the lane is this thread's. *begun_ns is set if it had to wait. TIMEOUT at the deadline: the
 * group has failed. */
tutti_status tti_lane_enter(struct tti_lane_queue *q, int64_t timeout_ms, int64_t *begun_ns, tutti_error *error);
void tti_lane_leave_waited(struct tti_lane_queue *q);

/* Takes an idle lane. */
static inline bool tti_lane_try_enter(struct tti_lane_queue *q)
{
    uintptr_t idle = 0;
    /* acquire: pairs with the release in tti_lane_leave; the lane is as its last owner left it */
    return __builtin_expect(atomic_compare_exchange_strong_explicit(&q->state, &idle, TTI_LANE_BUSY,
                                                                    memory_order_acquire, memory_order_relaxed),
                            1);
}

/* False: somebody waits for it. */
static inline bool tti_lane_try_leave(struct tti_lane_queue *q)
{
    uintptr_t busy = TTI_LANE_BUSY;
    /* release: pairs with the acquire of whoever takes the idle lane */
    return __builtin_expect(
        atomic_compare_exchange_strong_explicit(&q->state, &busy, 0, memory_order_release, memory_order_relaxed), 1);
}

static inline void tti_lane_leave(struct tti_lane_queue *q)
{
    if (!tti_lane_try_leave(q)) {
        tti_lane_leave_waited(q);
    }
}

/* Gives the work its place in the lane. From now on it belongs to whoever runs it. */
void tti_lane_submit(struct tti_lane_queue *q, struct tti_work *work);

/* Claims the open work, if that is `awaited` or comes before it, runs it to its end and leaves the lane; false if there
 * is none to claim. Works with callbacks are left to the worker. */
bool tti_lane_run_open(struct tti_lane_queue *q, const struct tti_work *awaited);

/* Ends the open work if that is `work` and needs no waiting; true if it has. */
bool tti_lane_try_finish(struct tti_lane_queue *q, struct tti_work *work);

/* Makes the worker run what is open. */
static inline void tti_lane_push(struct tti_lane_queue *q)
{
    tti_worker_notify(&q->worker);
}

#endif
