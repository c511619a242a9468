/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Running a collective: the choice of the engine, packing and unpacking of strided tensors, the comparison of calls,
 * copies for an engine that takes another kind of memory, and the records of the flight recorder. Cost beyond the
 * engine: one copy of each strided tensor.
 */
#include "core/call/task.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/kept_memory.h"
#include "base/operation.h"
#include "core/call/compare.h"
#include "core/call/wire.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "core/memory/staging.h"
#include "core/memory/staging_memory.h"
#include "tensor/strided.h"

#define UNPACK_NS 1000000000 /* the least time for a copy to a tensor on the device */

void tti_task_reset(struct tti_task *t, const char *function)
{
    t->function = function;
    t->side_count = 0;
    t->is_staged = false;
    t->converts = false;
    t->result = NULL;
    t->signature = NULL;
    t->op.after = NULL;
    t->op.waits_since = NULL;
    t->flight = 0;
    t->tally = NULL;
}

void *tti_task_stand_in(struct tti_task *t, const DLTensor *tensor, const char *name, size_t bytes, unsigned what)
{
    struct tti_group *g = t->call.group;
    struct tti_side *side = &t->sides[t->side_count++];
    *side = (struct tti_side){.name = name,
                              .tensor = tensor,
                              .bytes = bytes,
                              .pack = (what & TTI_PACK) != 0,
                              .unpack = (what & TTI_UNPACK) != 0};
    side->memory = tti_group_on_device(g) ? tti_staging_take(g, bytes, true) : malloc(bytes);
    if (!side->memory) {
        t->op.failed = TUTTI_NO_MEMORY;
    }
    return side->memory;
}

/* Before the call runs: an engine without memory for itself sets op.failed, too, and writes a sentence of its own. */
static const struct tti_side *stand_in_without_memory(const struct tti_task *t)
{
    for (int32_t i = 0; i < t->side_count && t->op.failed == TUTTI_NO_MEMORY; i++) {
        if (!t->sides[i].memory) {
            return &t->sides[i];
        }
    }
    return NULL;
}

static tutti_status no_memory(struct tti_task *t, const struct tti_side *side)
{
    return tti_error_set(t->call.error, TUTTI_NO_MEMORY,
                         "%s: no memory to pack the strided tensor %s (%zu bytes); a compact one needs none",
                         t->function, side->name, side->bytes);
}

/* Finds the engine that runs an operation: the group's, or else the host's, which also takes the messages of a group on
 * a device; and whether the tensors must be copied for it. Returns how the engine runs it; NULL: no engine can. */
static const char *find_engine(const struct tti_group *g, tutti_op *op, bool tensors_on_host, bool *on_host_engine,
                               bool *is_staged)
{
    const bool there = tti_group_on_device(g) && !tensors_on_host;
    const bool message = op->kind == TUTTI_OP_SEND || op->kind == TUTTI_OP_RECV;
    *on_host_engine = false;
    *is_staged = g->stages_to_device;
    if (!tensors_on_host && (!there || (g->takes_device && !message))) {
        op->on_device = g->takes_device || g->stages_to_device;
        const char *how = g->backend->ops->supports(g->state, op);
        if (how) {
            return how;
        }
    }
    *on_host_engine = true;
    *is_staged = there;
    op->on_device = 0;
    return g->host_backend ? g->host_backend->ops->supports(g->host_state, op) : NULL;
}

static const tutti_backend *engine_of(const struct tti_task *t, void **state)
{
    const struct tti_group *g = t->call.group;
    *state = t->on_host_engine ? g->host_state : g->state;
    return t->on_host_engine ? g->host_backend : g->backend;
}

tutti_status tti_task_complete(struct tti_task *t)
{
    struct tti_call *c = &t->call;
    struct tti_group *g = c->group;
    tutti_op *op = &t->op;
    op->size = sizeof(*op);
    op->kind = c->operation;
    op->lane = c->options.lane;
    op->user_tag = c->options.tag;
    op->timeout_ms = c->options.timeout_ms;
    op->scale = c->options.scale;
    op->flags = c->options.flags & TUTTI_CANCELLABLE;
    if (!find_engine(g, op, c->on_host, &t->on_host_engine, &t->is_staged)) {
        return tti_error_set(c->error, TUTTI_UNSUPPORTED, "%s: backend %s cannot do this", t->function,
                             g->backend->name);
    }
    op->wire = c->options.wire;
    void *state;
    const tutti_backend *engine = engine_of(t, &state);
    t->converts = tti_wire_converts(engine, state, op);
    const tutti_status status = t->converts ? tti_wire_check_engine(engine, state, op, c->error) : TUTTI_OK;
    return status == TUTTI_OK && (c->options.flags & TUTTI_HAS_STREAM)
               ? tti_staging_mark(g, c->options.stream, &op->after, c->error)
               : status;
}

const char *tti_task_describe(const struct tti_group *g, tutti_operation kind, char *text, size_t capacity)
{
    tutti_op op = {
        .size = sizeof(op), .kind = kind, .dtype = TUTTI_F32, .redop = TUTTI_SUM, .timeout_ms = g->timeout_ms};
    bool on_host_engine;
    bool is_staged;
    const char *how = find_engine(g, &op, false, &on_host_engine, &is_staged);
    if (!how) {
        return "unsupported";
    }
    const bool other = on_host_engine && g->host_backend != g->backend;
    snprintf(text, capacity, "%s%s%s%s", how, other ? " on backend " : "", other ? g->host_backend->name : "",
             !is_staged       ? ""
             : on_host_engine ? ", through host memory"
                              : ", on copies on its device");
    return text;
}

/* Between a strided tensor and its stand-in. */
static tutti_status copy_side(struct tti_task *t, const struct tti_side *side, bool pack)
{
    struct tti_group *g = t->call.group;
    if (tti_group_on_device(g)) {
        int64_t deadline = tti_operation_deadline_ns(&t->op);
        const int64_t least = tti_now_ns() + UNPACK_NS;
        if (!pack && deadline < least) {
            deadline = least; /* a call that has ended well may have ended late */
        }
        const tutti_status status =
            pack ? tti_staging_pack(g, side->memory, side->tensor, t->op.after, deadline, t->call.error)
                 : tti_staging_unpack(g, side->tensor, side->memory, t->op.after, deadline, t->call.error);
        return tti_staging_waited(g, t->op.lane, status, t->call.error);
    }
    if (pack) {
        tti_tensor_pack(side->memory, side->tensor);
    } else {
        tti_tensor_unpack(side->tensor, side->memory);
    }
    return TUTTI_OK;
}

/* On an engine that takes the tensors of a device but has no streams: it runs when the tensors are ready, with the
 * device current. */
static tutti_status run_on_device(struct tti_task *t)
{
    struct tti_group *g = t->call.group;
    struct tti_device_scope scope;
    bool late = false;
    tutti_status status = g->device_ops->enter(g->device.device_id, &scope, t->call.error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (t->op.after && t->op.failed == TUTTI_OK) {
        status = tti_device_await_or_note(g->device_ops, g->device.device_id, &t->op.after, NULL,
                                          tti_operation_deadline_ns(&t->op), t->call.error);
        late = status == TUTTI_TIMEOUT;
    }
    if (status == TUTTI_OK) {
        status = g->backend->ops->run(g->state, &t->op, t->call.error);
    }
    g->device_ops->leave(&scope);
    return late ? tti_staging_waited(g, t->op.lane, status, t->call.error) : status;
}

struct tti_flight_op tti_task_flight_op(const tutti_op *op)
{
    return tti_flight_op_of(op, op->count * tutti_dtype_size(op->dtype));
}

tutti_status tti_task_run_timed(const struct tti_group *g, tutti_op *op, tutti_error *error)
{
    const struct tti_flight_op what = tti_task_flight_op(op);
    const uint64_t number = tti_flight_begin(g->flight, &what, 0, 0);
    const tutti_status status = g->backend->ops->run(g->state, op, error);
    tti_flight_end(g->flight, number, &what, op->sequence, status);
    return status;
}

struct tti_flight_tally *tti_task_take_tally(const struct tti_group *g, tutti_op *op)
{
    const struct tti_flight_op what = tti_task_flight_op(op);
    struct tti_flight_tally *tally =
        g->flight && !tti_flight_is_timed(what.bytes) ? tti_flight_tally_take(g->flight, &what, op->p2p_tag) : NULL;
    op->waits_since = tally ? &tally->since_ns : NULL;
    return tally;
}

static void record_begin(struct tti_task *t)
{
    struct tti_flight_group *f = t->call.group->flight;
    if (t->tally) {
        tti_task_begin_tallied(t);
    } else if (f && t->flight == 0) {
        const struct tti_flight_op what = tti_task_flight_op(&t->op);
        t->flight = tti_flight_begin(f, &what, 0, t->op.begun_ns);
        t->op.waits_since = tti_flight_waits_since(t->flight);
    }
}

static void end_tallied(const struct tti_task *t)
{
    tti_flight_call_end(t->tally, t->op.sequence);
    tti_flight_set_since(t->tally, 0);
}

static void record_end(struct tti_task *t, tutti_status status)
{
    if (t->tally) {
        end_tallied(t);
        if (status != TUTTI_OK) {
            tti_flight_call_failed(t->tally, status);
        }
    } else if (t->flight != 0) {
        const struct tti_flight_op what = tti_task_flight_op(&t->op);
        tti_flight_end(t->call.group->flight, t->flight, &what, t->op.sequence, status);
        t->op.waits_since = NULL;
    }
}

void tti_task_record_start(struct tti_task *t)
{
    record_begin(t);
    if (t->flight != 0) {
        tti_flight_arrived(t->flight, t->op.sequence);
    }
}

tutti_status tti_task_finish(struct tti_task *t)
{
    struct tti_group *g = t->call.group;
    const tutti_status status = g->backend->ops->finish(g->state, &t->op, t->call.error);
    t->call.sequence = t->op.sequence;
    tti_group_note_in_use(g, &t->op);
    if (t->tally && status == TUTTI_OK) {
        end_tallied(t);
        return TUTTI_OK;
    }
    record_end(t, status);
    if (status != TUTTI_OK) {
        tti_group_share_failure(g, t->op.lane);
    }
    return status;
}

static tutti_status run(struct tti_task *t)
{
    struct tti_call *c = &t->call;
    void *state;
    const tutti_backend *engine = engine_of(t, &state);
    record_begin(t);
    tutti_status status = tti_compares(c->group, &t->op) ? tti_compare(c->group, &t->op, c->error) : TUTTI_OK;
    if (status != TUTTI_OK) {
        /* nothing has been run */
    } else if (t->op.failed == TUTTI_CANCELLED && c->group->size == 1) {
        status = tti_comparison_cancelled(&t->op, 0, c->error);
    } else if (t->is_staged) {
        status = tti_staging_run(c->group, engine, state, &t->op, c->error);
    } else if (t->converts) {
        status = tti_wire_run(c->group, engine, state, &t->op, c->error);
    } else if (t->op.on_device && !(engine->capabilities & TUTTI_CAP_NO_HOST)) {
        status = run_on_device(t);
    } else {
        status = engine->ops->run(state, &t->op, c->error);
    }
    c->sequence = t->op.sequence;
    record_end(t, status);
    if (status != TUTTI_OK) {
        tti_group_note_in_use(c->group, &t->op);
        tti_group_share_failure(c->group, t->op.lane);
    }
    return status;
}

/* Whether the other ranks learn of a call that this rank cannot take part in. */
static bool can_report(const struct tti_task *t)
{
    void *state;
    const tutti_backend *engine = engine_of(t, &state);
    return tti_compares(t->call.group, &t->op) || (tti_engine_capabilities(engine, state) & TUTTI_CAP_CHECKS_CALLS);
}

static void fail_group(struct tti_task *t)
{
    t->call.error->scope = TUTTI_SCOPE_GROUP;
    t->call.error->suspect = t->call.group->rank;
    tti_group_abort(t->call.group, t->op.lane, t->call.error);
}

/* A tensor could not be packed, or there is no memory to convert it: the stand-in holds no valid data. The other ranks
 * must not get it: the call fails on all of them, or, on an engine that cannot report it, the group fails. */
static tutti_status give_up(struct tti_task *t, tutti_status status)
{
    if (can_report(t)) {
        const tutti_error own = *t->call.error;
        t->op.failed = status;
        run(t);
        *t->call.error = own;
    } else {
        fail_group(t);
    }
    return status;
}

/* The engine of a tensor on a device has failed, and will report why. Nothing is copied before: the copy, with its
 * memory, might wait for work of the device that does not end. */
static bool engine_has_failed(const struct tti_task *t)
{
    void *state;
    tutti_error cause;
    if (!tti_group_on_device(t->call.group) || t->op.failed != TUTTI_OK) {
        return false;
    }
    const tutti_backend *engine = engine_of(t, &state);
    return tti_engine_failure(engine, state, &cause) != TUTTI_OK;
}

tutti_status tti_task_perform(struct tti_task *t)
{
    tutti_status status = TUTTI_OK;
    if (engine_has_failed(t)) {
        t->op.failed = TUTTI_REVOKED;
    }
    const struct tti_side *lacking = stand_in_without_memory(t);
    if (lacking && !can_report(t)) {
        status = no_memory(t, lacking);
        if (t->call.group_size > 1) { /* a rank alone has nobody who would wait */
            fail_group(t);
        }
        return status;
    }
    for (int32_t i = 0; i < t->side_count && t->op.failed == TUTTI_OK && status == TUTTI_OK; i++) {
        if (t->sides[i].pack) {
            status = copy_side(t, &t->sides[i], true);
        }
    }
    if (t->converts && status == TUTTI_OK && t->op.failed == TUTTI_OK) {
        status = tti_wire_reserve(t->call.group, &t->op, t->call.error);
    }
    if (status != TUTTI_OK) {
        return give_up(t, status);
    }
    status = run(t);
    if (status == TUTTI_NO_MEMORY && lacking) {
        return no_memory(t, lacking);
    }
    for (int32_t i = 0; i < t->side_count && status == TUTTI_OK; i++) {
        if (t->sides[i].unpack) {
            status = copy_side(t, &t->sides[i], false);
        }
    }
    return status;
}

void tti_task_drop(struct tti_task *t)
{
    struct tti_group *g = t->call.group;
    for (int32_t i = 0; i < t->side_count; i++) {
        if (tti_group_on_device(g)) {
            tti_staging_give(g, t->sides[i].memory, t->op.in_use);
        } else {
            tti_memory_free_or_keep(t->sides[i].memory, t->op.in_use);
        }
    }
    t->side_count = 0;
    if (t->op.after) {
        tti_staging_unmark(g->device, t->op.after);
        t->op.after = NULL;
    }
}
