/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, from the call to its end. The lane's stream waits for the event behind which the tensors are ready.
 * Then follow the library's kernels and the copies around them, and an event that marks the end. A call that fails
 * fails the group.
 */
#include "backends/nccl/collectives/run.h"

#include "backends/nccl/abort.h"
#include "backends/nccl/collectives/call.h"
#include "backends/nccl/collectives/collectives.h"
#include "backends/nccl/failure.h"
#include "base/clock.h"

#define REPORT_MS INT64_C(1000) /* a rank reports that it waits after a quarter of its time, or this long */

static tutti_status run_entered(struct tti_nccl_call *c)
{
    const struct tti_device *device = c->group->device;
    tutti_status status = TUTTI_OK;
    if (c->op->after) {
        status = device->stream_wait_event(c->lane->stream, c->op->after, c->error);
    }
    if (status == TUTTI_OK && (status = tti_nccl_queue(c)) == TUTTI_OK) {
        status = tti_nccl_await_stream(c);
    }
    if (status != TUTTI_OK) {
        tti_nccl_abort_call(c, status);
    }
    return status;
}

tutti_status tti_nccl_run(void *state, tutti_op *op, tutti_error *error)
{
    struct tti_nccl_group *g = state;
    struct tti_nccl_lane *lane = &g->lane[op->lane];
    struct tti_device_scope scope;
    const int64_t started_ns = op->begun_ns != 0 ? op->begun_ns : tti_now_ns();
    const bool is_short = op->timeout_ms >= 0 && op->timeout_ms / 4 < REPORT_MS;
    struct tti_nccl_call c = {.group = g,
                              .lane = lane,
                              .op = op,
                              .error = error,
                              .started_ns = started_ns,
                              .deadline_ns = tti_deadline_ns(started_ns, op->timeout_ms),
                              .report_ns = tti_now_ns() + (is_short ? op->timeout_ms / 4 : REPORT_MS) * 1000000};
    op->sequence = atomic_load_explicit(&lane->calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&lane->calls, op->sequence, memory_order_relaxed);
    tutti_status status = tti_nccl_check(g, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = g->device->enter(g->index, &scope, error);
    if (status != TUTTI_OK) { /* the other ranks are in the call already, so the group is out of step */
        tti_nccl_fail(g, error);
        return status;
    }
    atomic_store_explicit(&lane->algorithm, g->library->backend, memory_order_relaxed);
    status = run_entered(&c);
    g->device->leave(&scope);
    return status;
}
