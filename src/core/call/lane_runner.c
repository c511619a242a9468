/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a work of a lane. A waiter without a limit runs the operations in front of the work, and the work,
 * itself. A waiter with a limit must not: an operation takes as long as the other ranks do. It polls for a while, then
 * the lane's worker runs the work and the waiter sleeps.
 */
#include "core/call/lane_runner.h"

#include "base/clock.h"
#include "base/wait/yielding.h"
#include "core/async/work/stage.h"
#include "core/call/lane.h"
#include "core/group/group_state.h"

#define POLLS  400 /* of an operation that has arrived, before the lane's worker is woken for it */
#define YIELDS 16

static struct tti_lane_queue *lane_of(const struct tti_work *w)
{
    return &w->task.call.group->lane_queues[w->task.call.options.lane];
}

static bool try_finish(struct tti_work *w)
{
    return tti_lane_queue_try_finish(lane_of(w), w);
}

static void push(struct tti_work *w)
{
    /* seq_cst: pairs with put_open in lane.c; a thread that holds the work now pushes the lane when it opens the
     * work */
    atomic_fetch_or_explicit(&w->state, TTI_FLAG_PUSHED, memory_order_seq_cst);
    tti_lane_queue_push(lane_of(w));
}

static bool poll_for_a_while(struct tti_work *w)
{
    struct tti_yields yields = {.now_ns = 0};
    for (int i = 0; i < POLLS + YIELDS; i++) {
        if (tti_work_ended(w) || try_finish(w)) {
            return true;
        }
        if (tti_stage(atomic_load_explicit(&w->state, memory_order_relaxed)) != TTI_STAGE_ARRIVED) {
            break;
        }
        if (i == POLLS) {
            if (!tti_yield_pays()) {
                break;
            }
            yields.now_ns = tti_now_ns();
        }
        if (i >= POLLS && !tti_yield(&yields)) {
            break;
        }
    }
    push(w);
    return false;
}

static bool wait_for(struct tti_work *w, int64_t until_ns)
{
    if (until_ns != TTI_NEVER) {
        return poll_for_a_while(w) || tti_work_wait_asleep(w, until_ns);
    }
    for (;;) {
        uint32_t state = atomic_load_explicit(&w->state, memory_order_seq_cst);
        if (tti_work_ended(w)) {
            return true;
        }
        if (!tti_lane_queue_run_open(lane_of(w), w)) {
            tti_work_sleep(w, state, until_ns);
        }
    }
}

const struct tti_work_runner tti_lane_runner = {.wait = wait_for, .try_finish = try_finish, .push = push};
