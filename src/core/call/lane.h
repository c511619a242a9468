/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Lanes: the operations of a lane run one at a time, in the order of their calls. A thread that leaves a lane with
 * waiters hands it to the first one, so no call overtakes another.
 *
 * An open work is run by the lane's worker thread after a push, or earlier by a thread that waits for anything behind
 * it. A small operation has arrived already when it is opened (the backend's `start`). Then the worker stays asleep
 * until something else needs the lane: see tti_lane_queue_submit.
 */
#ifndef TTI_CORE_CALL_LANE_H
#define TTI_CORE_CALL_LANE_H

#include <stdbool.h>
#include <tutti/status.h>

#include "core/call/lane_state.h"

void tti_lane_queue_init(struct tti_lane_queue *q, struct tti_group *group, int32_t index);

/* Ends the worker and the timer. Nothing is pending any more. */
void tti_lane_queue_close(struct tti_lane_queue *q);

/* For a synchronous call: returns when the lane is this thread's. The deadline counts from *begun_ns on, or, if that is
 * 0, from now on; then it is set if the thread had to wait. TIMEOUT at the deadline: the group has failed. */
tutti_status tti_lane_queue_enter(struct tti_lane_queue *q, int64_t timeout_ms, int64_t *begun_ns, tutti_error *error);
void tti_lane_queue_leave_waited(struct tti_lane_queue *q);

/* Takes an idle lane. */
static inline bool tti_lane_queue_try_enter(struct tti_lane_queue *q)
{
    uintptr_t idle = 0;
    /* acquire: pairs with the release in tti_lane_queue_leave; the lane is as its last owner left it */
    return __builtin_expect(atomic_compare_exchange_strong_explicit(&q->state, &idle, TTI_LANE_BUSY,
                                                                    memory_order_acquire, memory_order_relaxed),
                            1);
}

/* Whether no operation is in the lane, at this moment. */
static inline bool tti_lane_queue_is_idle(struct tti_lane_queue *q)
{
    return atomic_load_explicit(&q->state, memory_order_relaxed) == 0;
}

/* False: the lane has waiters. */
static inline bool tti_lane_queue_try_leave(struct tti_lane_queue *q)
{
    uintptr_t busy = TTI_LANE_BUSY;
    /* release: pairs with the acquire of the thread that takes the idle lane */
    return __builtin_expect(
        atomic_compare_exchange_strong_explicit(&q->state, &busy, 0, memory_order_release, memory_order_relaxed), 1);
}

static inline void tti_lane_queue_leave(struct tti_lane_queue *q)
{
    if (!tti_lane_queue_try_leave(q)) {
        tti_lane_queue_leave_waited(q);
    }
}

/* Gives the work its place in the lane. From now on the work belongs to the thread that runs it. */
void tti_lane_queue_submit(struct tti_lane_queue *q, struct tti_work *work);

/* The same for a work that is started again (tti_start_again): no other thread has it. */
void tti_lane_queue_submit_again(struct tti_lane_queue *q, struct tti_work *work);

/* Claims the open work if it is `awaited` or comes before it, runs it to its end and leaves the lane. False: there is
 * no such work. Works with callbacks are left to the worker. */
bool tti_lane_queue_run_open(struct tti_lane_queue *q, const struct tti_work *awaited);

/* Ends the open work if it is `work` and needs no waiting; true if it has ended. */
bool tti_lane_queue_try_finish(struct tti_lane_queue *q, struct tti_work *work);

/* Makes the worker run the open work. */
static inline void tti_lane_queue_push(struct tti_lane_queue *q)
{
    tti_worker_notify(&q->worker);
}

#endif
