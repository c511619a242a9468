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
static tutti_status run_works(struct tti_persistent *p, tutti_error *error)
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

__attribute__((noinline)) static tutti_status run_works_alone(struct tti_persistent *p, tutti_error *error)
{
    const tutti_status status = run_works(p, error);
    tti_persistent_drop_alone(p);
    return status;
}

static struct tti_group *group_of(const struct tti_persistent *p)
{
    return p->cached_group.slot->object;
}

__attribute__((noinline)) static void fail_direct(struct tti_persistent *p, struct tti_persistent_operation *o,
                                                  tutti_status status)
{
    if (o->tally) {
        tti_flight_call_failed(o->tally, status);
    }
    tti_group_note_in_use(group_of(p), &o->op);
    tti_group_share_failure(group_of(p), p->call.lane);
    tti_call_describe(&p->cause, group_of(p), &o->op);
    if (tti_run_outranks(status, p->status)) {
        p->status = status;
        tti_persistent_report("persistent_run", p->count, (size_t)(o - p->operations), &p->cause, &p->outcome);
    }
}

__attribute__((noinline)) static tutti_status run_recorded(struct tti_persistent *p, struct tti_persistent_operation *o)
{
    return group_of(p)->flight ? tti_task_run_timed(group_of(p), &o->op, &p->cause)
                               : p->run(p->state, &o->op, &p->cause);
}

/* With the group held and the lane taken. */
static inline void run_direct(struct tti_persistent *p)
{
    p->status = TUTTI_OK;
    struct tti_persistent_operation *o = p->operations;
    struct tti_persistent_operation *const end = p->end;
    do {
        tutti_status status;
        if (__builtin_expect(o->tally != NULL, 1)) {
            tti_flight_call_begin(o->tally);
            status = p->run(p->state, &o->op, &p->cause);
            tti_flight_call_end(o->tally, o->op.sequence);
        } else {
            status = run_recorded(p, o);
        }
        if (__builtin_expect(status != TUTTI_OK, 0)) {
            fail_direct(p, o, status);
        }
    } while (++o < end);
}

/* Takes the lane behind its other operations. False: not before the deadline. */
__attribute__((noinline)) static bool enter_slow(struct tti_persistent *p)
{
    tutti_op *op = &p->operations[0].op;
    p->status = tti_lane_queue_enter(p->lane, op->timeout_ms, &op->begun_ns, &p->cause);
    if (p->status != TUTTI_OK) {
        tti_call_describe(&p->cause, group_of(p), op);
        tti_persistent_report("persistent_run", p->count, 0, &p->cause, &p->outcome);
    }
    return p->status == TUTTI_OK;
}

/* Reports the outcome of a run: with the group held. */
__attribute__((noinline)) static void report(const struct tti_persistent *p, tutti_error *error)
{
    if (p->status == TUTTI_OK) {
        tti_error_clear(error);
        tti_call_describe(error, group_of(p), &p->operations[p->count - 1].op);
    } else {
        *error = p->outcome;
    }
}

tutti_status tutti_persistent_run(tutti_persistent *persistent, tutti_error *error)
{
    struct tti_persistent *p = tti_persistent_hold_alone(persistent);
    if (!p) {
        return tti_persistent_refuse_alone(persistent, "persistent_run", error);
    }
    if (tti_persistent_is(p, ~0u) || tti_thread.open_scopes != 0 || !tti_cached_handle_retain(&p->cached_group)) {
        return run_works_alone(p, error);
    }
    if (tti_lane_queue_try_enter(p->lane) || enter_slow(p)) {
        run_direct(p);
        tti_lane_queue_leave(p->lane);
    }
    p->operations[0].op.begun_ns = 0;
    p->has_run = true;
    const tutti_status status = p->status;
    if (error) {
        report(p, error);
    }
    tti_cached_handle_release(&p->cached_group);
    tti_persistent_drop_alone(p);
    return status;
}
