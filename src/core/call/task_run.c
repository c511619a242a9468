/* SPDX-License-Identifier: BSD-3-Clause */
/* A synchronous collective runs at once, on the thread that called it. See task.h, lane.h, cache/call_cache.h. */
#include "core/call/task_run.h"

#include "core/call/cache/call_cache.h"
#include "core/call/lane.h"
#include "core/call/task.h"
#include "core/group/group_state.h"

tutti_status tti_task_run(struct tti_task *t)
{
    struct tti_lane_queue *lane = &t->call.group->lane_queues[t->call.options.lane];
    tutti_status status = tti_task_complete(t);
    if (status != TUTTI_OK) {
        t->call.options.callback = NULL; /* nothing has started */
    } else if ((status = tti_lane_queue_enter(lane, t->op.timeout_ms, &t->op.begun_ns, t->call.error)) == TUTTI_OK) {
        status = tti_task_perform(t);
        tti_lane_queue_leave(lane);
    }
    if (status == TUTTI_OK && t->signature && !t->is_staged && !t->on_host_engine && !t->call.group->compares_all) {
        tti_call_cache_store(t);
    }
    tti_task_drop(t);
    return tti_call_end(&t->call, status);
}
