/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running a list of persistent collectives. A list that needs nothing but the group's engine (compact tensors on its
 * device, no callback, token or flag) takes the handle, the group and the lane, then runs the engine for each
 * descriptor: six atomic operations for the list, no check, no allocation. Every other list is started and waited for.
 */
#include "api/async/run.h"
#include "api/collectives/collectives.h"
#include "api/collectives/persistent_state.h"
#include "base/error.h"
#include "core/call/lane.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"

/* By works. What a blocking call checks comes before the start. */
__attribute__((noinline)) static tutti_status run_works(struct tti_persistent *p, tutti_error *error)
{
    struct tti_call c;
    tutti_error cause;
    tutti_status status = tti_call_begin_plain(&c, p->group, tti_signature_kind(&p->operations[0].signature), &cause);
    if (status != TUTTI_OK) {
        tti_persistent_report("persistent_run", 1, 0, &cause, error);
        return status;
    }
    tti_call_end(&c, TUTTI_OK);
    status = tti_persistent_start_all(p, "persistent_run", error);
    return status == TUTTI_OK ? tti_persistent_wait_all(p, TUTTI_FOREVER, "persistent_run", error) : status;
}

__attribute__((noinline)) static void fail_direct(struct tti_persistent *p, struct tti_group *g, size_t i,
                                                  tutti_status status, tutti_error *cause)
{
    struct tti_persistent_operation *o = &p->operations[i];
    if (o->tally) {
        tti_flight_call_failed(o->tally, status);
    }
    tti_group_share_failure(g, p->call.lane);
    tti_call_describe(cause, g, &o->op);
    if (tti_run_outranks(status, p->status)) {
        p->status = status;
        tti_persistent_report("persistent_run", p->count, i, cause, &p->outcome);
    }
}

/* With the group held and the lane taken. */
static inline tutti_status run_direct(struct tti_persistent *p, struct tti_group *g)
{
    tutti_error cause;
    p->status = TUTTI_OK;
    for (size_t i = 0; i < p->count; i++) {
        struct tti_persistent_operation *o = &p->operations[i];
        tutti_status status;
        if (__builtin_expect(o->tally != NULL, 1)) {
            tti_flight_call_begin(o->tally);
            status = g->backend->ops->run(g->state, &o->op, &cause);
            tti_flight_call_end(o->tally, o->op.sequence);
        } else {
            status = g->flight ? tti_task_run_timed(g, &o->op, &cause) : g->backend->ops->run(g->state, &o->op, &cause);
        }
        if (__builtin_expect(status != TUTTI_OK, 0)) {
            fail_direct(p, g, i, status, &cause);
        }
    }
    return p->status;
}

/* Behind other operations of the lane. */
__attribute__((noinline)) static tutti_status enter_slow(struct tti_persistent *p, struct tti_group *g)
{
    tutti_error cause;
    tutti_op *op = &p->operations[0].op;
    const tutti_status status = tti_lane_enter(&g->lane_queues[p->call.lane], op->timeout_ms, &op->begun_ns, &cause);
    if (status != TUTTI_OK) {
        tti_call_describe(&cause, g, op);
        tti_persistent_report("persistent_run", p->count, 0, &cause, &p->outcome);
        p->status = status;
    }
    return status;
}

tutti_status tutti_persistent_run(tutti_persistent *persistent, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = tti_persistent_hold_alone(persistent, "persistent_run", error, &status);
    if (!p) {
        return status;
    }
    if (!p->is_direct || p->is_running || tti_persistent_is_freed(p) || tti_thread.open_scopes != 0 ||
        !tti_cached_handle_retain(&p->cached_group)) {
        status = run_works(p, error);
        tti_persistent_drop_alone(p);
        return status;
    }
    struct tti_group *g = p->cached_group.slot->object;
    struct tti_lane_queue *lane = &g->lane_queues[p->call.lane];
    if (tti_lane_try_enter(lane) || (status = enter_slow(p, g)) == TUTTI_OK) {
        status = run_direct(p, g);
        tti_lane_leave(lane);
        p->operations[0].op.begun_ns = 0;
    }
    p->has_run = true;
    if (__builtin_expect(status == TUTTI_OK && error, 0)) {
        tti_error_clear(error);
        tti_call_describe(error, g, &p->operations[p->count - 1].op);
    } else if (error) {
        *error = p->outcome;
    }
    tti_cached_handle_release(&p->cached_group);
    tti_persistent_drop_alone(p);
    return status;
}
