/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in the call cache. An entry is filled when a call has missed twice with the same signature. A hit
 * compares the signature and the addresses, then runs the engine: no allocation, no lock, and four atomic operations,
 * two for the handle and two for the lane.
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
    struct tti_cached_call *entry = tti_cached_call_at(entries, group, signature->what);
    if (!tti_cached_call_matches(entry, group, signature) || !tti_cached_call_fits(entry, options) ||
        !tti_cached_handle_retain(&entry->cached_handle)) {
        return slow_path(group, signature, options);
    }
    if (!tti_lane_queue_try_enter(entry->lane)) {
        tti_cached_handle_release(&entry->cached_handle);
        return slow_path(group, signature, options);
    }
    tutti_error own;
    tutti_error *error = options && options->error ? options->error : &own;
    entry->op.timeout_ms = options && options->timeout_ms != 0 ? options->timeout_ms : entry->timeout_ms;
    tti_flight_call_begin(entry->tally);
    const tutti_status status = entry->run(entry->state, &entry->op, error);
    tti_flight_call_end(entry->tally, entry->op.sequence);
    tti_lane_queue_leave(entry->lane);
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        tti_flight_call_failed(entry->tally, status);
        tti_group_note_in_use(entry->cached_handle.slot->object, &entry->op);
        /* A group on a device caches its barriers, too, and has a second engine then. */
        tti_group_share_failure(entry->cached_handle.slot->object, entry->op.lane);
        tti_call_describe(error, entry->cached_handle.slot->object, &entry->op);
    } else if (error != &own) {
        tti_cached_call_succeeded(error, entry);
    }
    tti_cached_handle_release(&entry->cached_handle);
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
    const struct tti_cached_call *entry = state;
    return tti_task_run_timed(entry->timed_group, op, error);
}

/* A tensor without elements has no address, as a missing tensor has none: the two could be confused. */
static bool is_cacheable(const struct tti_task *t)
{
    return (t->op.count > 0 || t->op.kind == TUTTI_OP_BARRIER) && t->side_count == 0 &&
           tti_cached_options_are_plain(&t->call.options);
}

void tti_call_cache_store(const struct tti_task *t)
{
    const struct tti_signature *signature = t->signature;
    struct tti_group *g = t->call.group;
    struct tti_cached_call *entry = is_cacheable(t) ? tti_cached_call_to_fill(g, signature, &t->op) : NULL;
    if (!entry || !tti_cached_call_set_tensor(entry, 0, signature->output, t->op.dst) ||
        !tti_cached_call_set_tensor(entry, 1, signature->input, t->op.src)) {
        return;
    }
    tti_cached_call_fill(entry, g, signature);
    entry->lane = &g->lane_queues[t->op.lane];
    entry->run = g->backend->ops->run;
    entry->state = g->state;
    entry->in_place = in_place_of(&t->op, t->call.rank);
    entry->same = entry->in_place == 0 && entry->output.bytes == entry->input.bytes; /* and then of one dtype */
    entry->op = t->op;
    entry->op.begun_ns = 0;
    memset(entry->op.prepared, 0, sizeof(entry->op.prepared));
    if (!tti_cached_call_set_tally(entry, g)) {
        entry->timed_group = g;
        entry->run = run_timed;
        entry->state = entry;
    }
}
