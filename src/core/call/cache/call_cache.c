/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in the call cache. An entry is filled when a call has missed twice with the same signature. A hit compares
 * the signature and the addresses, then runs the engine: no allocation, no lock, and four atomic operations, two for the
 * handle and two for the lane.
 */
#include "core/call/cache/call_cache.h"

#include "core/call/cache/entry.h"
#include "core/call/lane.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"

tutti_status tti_call_cache_run(tutti_group *group, const struct tti_signature *signature, const tutti_call *options,
                                tti_slow_path_function *slow_path)
{
    const struct tti_thread *thread = &tti_thread;
    struct tti_cached_call *entries = thread->cached_calls; /* TTI_CACHED_CALLS of them, or NULL */
    if (!entries || thread->open_scopes != 0) {
        return slow_path(group, signature, options);
    }
    struct tti_cached_call *r = tti_cached_call_at(entries, group, signature->what);
    if (!tti_cached_call_matches(r, group, signature) || !tti_cached_call_fits(r, options) ||
        !tti_cached_handle_retain(&r->cached_handle)) {
        return slow_path(group, signature, options);
    }
    if (!tti_lane_try_enter(r->lane)) {
        tti_cached_handle_release(&r->cached_handle);
        return slow_path(group, signature, options);
    }
    tutti_error own;
    tutti_error *error = options && options->error ? options->error : &own;
    r->op.timeout_ms = options && options->timeout_ms != 0 ? options->timeout_ms : r->timeout_ms;
    tti_flight_call_begin(r->tally);
    const tutti_status status = r->run(r->state, &r->op, error);
    tti_flight_call_end(r->tally, r->op.sequence);
    tti_lane_leave(r->lane);
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        tti_flight_call_failed(r->tally, status);
        /* A group on a device caches its barriers, too, and has a second engine then. */
        tti_group_share_failure(r->cached_handle.slot->object, r->op.lane);
        tti_call_describe(error, r->cached_handle.slot->object, &r->op);
    } else if (error != &own) {
        tti_cached_call_succeeded(error, r);
    }
    tti_cached_handle_release(&r->cached_handle);
    return status;
}

/* Where the own part begins in the joined tensor, if its rows lie one behind the other. */
static ptrdiff_t own_part(const tutti_parts *parts, int32_t rank)
{
    return parts->outer == 1 && !parts->counts ? (ptrdiff_t)parts->each * (ptrdiff_t)parts->unit * rank
                                               : TTI_NEVER_IN_PLACE;
}

static ptrdiff_t in_place_of(const tutti_op *op, int32_t rank)
{
    ptrdiff_t own;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return 0;
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
        return own_part(&op->recv_parts, rank);
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_REDUCE_SCATTER:
        own = own_part(&op->send_parts, rank);
        return own == TTI_NEVER_IN_PLACE ? own : -own;
    default:
        return TTI_NEVER_IN_PLACE;
    }
}

/* Larger calls are recorded with their times. */
static tutti_status run_timed(void *state, tutti_op *op, tutti_error *error)
{
    const struct tti_cached_call *r = state;
    return tti_task_run_timed(r->timed_group, op, error);
}

/* A tensor without elements has no address, as a missing tensor has none: the two could be confused. */
static bool is_cacheable(const struct tti_task *t)
{
    const tutti_call *o = &t->call.options;
    return (t->op.count > 0 || t->op.kind == TUTTI_OP_BARRIER) && t->side_count == 0 && (o->flags | o->tag) == 0 &&
           o->scale == 1 && o->wire == TUTTI_WIRE_FULL;
}

void tti_call_cache_store(const struct tti_task *t)
{
    const struct tti_signature *s = t->signature;
    struct tti_group *g = t->call.group;
    struct tti_cached_call *r = is_cacheable(t) ? tti_cached_call_to_fill(g, s, &t->op) : NULL;
    if (!r || !tti_cached_call_set_tensor(r, 0, s->output, t->op.dst) ||
        !tti_cached_call_set_tensor(r, 1, s->input, t->op.src)) {
        return;
    }
    tti_cached_call_fill(r, g, s);
    r->lane = &g->lane_queues[t->op.lane];
    r->run = g->backend->ops->run;
    r->state = g->state;
    r->in_place = in_place_of(&t->op, t->call.rank);
    r->same = r->in_place == 0 && r->output.bytes == r->input.bytes; /* and then of one dtype */
    r->op = t->op;
    r->op.begun_ns = 0;
    memset(r->op.prepared, 0, sizeof(r->op.prepared));
    if (!tti_cached_call_set_tally(r, g)) {
        r->timed_group = g;
        r->run = run_timed;
        r->state = r;
    }
}
