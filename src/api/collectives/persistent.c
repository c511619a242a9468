/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The object of persistent collectives and its life. init checks each operation as its asynchronous form does, and
 * keeps its descriptor; release waits for no rank.
 */
#include "api/collectives/persistent_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/async/run.h"
#include "api/collectives/collectives.h"
#include "api/collectives/frame.h"
#include "base/error.h"
#include "base/operation.h"
#include "core/async/work/work.h"
#include "core/group/group_table.h"

struct tti_handle_table tti_persistents = {.kind = TTI_KIND_PERSISTENT, .name = "persistent operations"};

/* ---- who holds it ----------------------------------------------------------------------------------------------- */

void tti_persistent_report(const char *function, size_t count, size_t index, const tutti_error *cause,
                           tutti_error *error)
{
    char place[40] = "";
    const struct tti_run run = {.function = function};
    if (count > 1) {
        snprintf(place, sizeof(place), "operations[%zu]: ", index);
    }
    tti_run_report(&run, place, cause, error);
}

/* Reports why there is no object, and returns that. */
static tutti_status report_not_there(const char *function, tutti_status why, tutti_error *error)
{
    if (why == TUTTI_BUSY) {
        return tti_error_set(error, why,
                             "%s: the persistent operation is in use: another thread is inside a call on it", function);
    }
    return tti_handle_error(error, why, function, "persistent operation", TTI_KIND_PERSISTENT);
}

struct tti_persistent *tti_persistent_hold(tutti_persistent *handle, const char *function, tutti_error *error,
                                           tutti_status *status)
{
    struct tti_persistent *p = tti_handles_acquire(&tti_persistents, handle, status);
    if (p && tti_handles_excluded(&tti_persistents, handle)) {
        tti_handles_release(&tti_persistents, handle);
        p = NULL;
        *status = TUTTI_BUSY;
    }
    if (!p) {
        report_not_there(function, *status, error);
    }
    return p;
}

tutti_status tti_persistent_refuse_alone(tutti_persistent *handle, const char *function, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = tti_persistent_hold(handle, function, error, &status);
    if (p) {
        tti_persistent_drop(p);
        status = report_not_there(function, TUTTI_BUSY, error);
    }
    return status;
}

/* ---- memory that is freed --------------------------------------------------------------------------------------- */

/* Tensors do not cross the end of a block. */
static bool begins_in(const DLTensor *t, const void *memory, size_t bytes)
{
    return t && (uintptr_t)t->data + t->byte_offset - (uintptr_t)memory < bytes;
}

static void mark_freed(struct tti_block_user *user, const void *memory, size_t bytes)
{
    struct tti_persistent *p = (struct tti_persistent *)((char *)user - offsetof(struct tti_persistent, user));
    for (size_t i = 0; i < p->count; i++) {
        const struct tti_signature *s = &p->operations[i].signature;
        if (begins_in(s->input, memory, bytes) || begins_in(s->output, memory, bytes)) {
            tti_persistent_mark(p, TTI_PERSISTENT_FREED);
        }
    }
}

/* ---- init ------------------------------------------------------------------------------------------------------- */

static bool uses_input(const tutti_persistent_op *o, int32_t rank)
{
    return o->kind != TUTTI_OP_BROADCAST && o->kind != TUTTI_OP_BARRIER &&
           (o->kind != TUTTI_OP_SCATTER || rank == o->root);
}

static bool uses_output(const tutti_persistent_op *o, int32_t rank)
{
    const bool on_root_only = o->kind == TUTTI_OP_REDUCE || o->kind == TUTTI_OP_GATHER;
    return o->kind != TUTTI_OP_BARRIER && (!on_root_only || rank == o->root);
}

/* Which arguments the function of the operation has: the others are 0, as in its call. */
static struct tti_signature signature_of(const tutti_persistent_op *o, int32_t rank)
{
    const bool reduces =
        o->kind == TUTTI_OP_ALL_REDUCE || o->kind == TUTTI_OP_REDUCE || o->kind == TUTTI_OP_REDUCE_SCATTER;
    return tti_signature_of(o->kind, reduces ? o->op : 0, o->dim, tti_operation_is_rooted(o->kind) ? o->root : 0,
                            uses_input(o, rank) ? o->input : NULL, uses_output(o, rank) ? o->output : NULL);
}

/* Whether run may call the engine without a work. */
static bool needs_engine_only(const struct tti_task *t, tutti_callback callback)
{
    const tutti_call *o = &t->call.options;
    return t->side_count == 0 && !t->is_staged && !t->converts && !t->on_host_engine && !t->op.on_device &&
           !t->call.group->compares_all && !callback && !o->token && o->flags == 0 && o->operation_id == 0;
}

/* Checks one operation as its asynchronous form does, and keeps it. */
static tutti_status add(struct tti_persistent *p, const tutti_persistent_op *o, const tutti_call *call)
{
    const char *name = tti_collective_name(o->kind);
    struct tti_persistent_operation *made = &p->operations[p->count];
    struct tti_checker k;
    tutti_work *unused = NULL;
    if (!name) {
        return tti_error_set(call->error, TUTTI_UNSUPPORTED,
                             "kind %d (%s) has no persistent form; tutti/persistent.h lists those that have", o->kind,
                             tutti_operation_name(o->kind));
    }
    tutti_status status = tti_collective_begin_async(&k, p->group, o->kind, name, call, &unused);
    if (status != TUTTI_OK) {
        return status;
    }
    struct tti_group *g = k.c->group;
    const struct tti_signature s = signature_of(o, k.c->rank);
    status = tti_collective_describe(&k, &s);
    if (status == TUTTI_OK) {
        made->op = k.task->op;
        made->is_compact = k.task->side_count == 0;
        status = tti_task_complete(k.task);
    }
    if (status == TUTTI_OK) {
        made->signature = s;
        if (s.input) {
            tti_keep_tensor(&made->input, s.input);
            made->signature.input = &made->input.tensor;
        }
        if (s.output) {
            tti_keep_tensor(&made->output, s.output);
            made->signature.output = &made->output.tensor;
        }
        p->call = k.c->options;
        p->call.error = NULL;
        p->call.callback = k.callback;
        p->cached_group = tti_handles_cache(&tti_groups, p->group);
        p->lane = &g->lane_queues[p->call.lane];
        p->run = g->backend->ops->run;
        p->state = g->state;
        made->is_direct = needs_engine_only(k.task, k.callback);
        if (made->is_direct) {
            made->op = k.task->op;
            made->tally = tti_task_take_tally(g, &made->op);
        } else {
            tti_persistent_mark(p, TTI_PERSISTENT_BY_WORKS);
        }
        p->end = &p->operations[++p->count];
    }
    return tti_start_refuse(k.work, status);
}

/* The works of the last start may run on, and use the tally. */
static void destroy(struct tti_persistent *p)
{
    const size_t running = tti_persistent_is(p, TTI_PERSISTENT_RUNNING) ? p->started : 0;
    for (size_t i = 0; i < p->count; i++) {
        struct tti_persistent_operation *o = &p->operations[i];
        if (o->kept) {
            o->kept->tally = o->tally;
        } else {
            tti_flight_tally_give(o->tally);
        }
        if (o->kept || i < running) {
            tti_work_release(p->works[i], true);
        }
    }
    pthread_mutex_destroy(&p->lock);
    free(p->works);
    free(p);
}

static struct tti_persistent *allocate(size_t count)
{
    const size_t most = (SIZE_MAX - sizeof(struct tti_persistent)) / sizeof(struct tti_persistent_operation);
    struct tti_persistent *p = count <= most ? calloc(1, sizeof(*p) + count * sizeof(p->operations[0])) : NULL;
    if (p) {
        p->works = calloc(count, sizeof(*p->works));
        if (!p->works) {
            free(p);
            return NULL;
        }
        pthread_mutex_init(&p->lock, NULL);
    }
    return p;
}

tutti_status tutti_persistent_init(tutti_group *group, const tutti_persistent_op *operations, size_t count,
                                   const tutti_call *call, tutti_persistent **persistent)
{
    static const char function[] = "persistent_init";
    tutti_error own;
    tutti_call options = {.size = sizeof(options)};
    if (call && !tti_call_options_copy(&options, call)) {
        return tti_call_options_refuse(call, function, &own);
    }
    tutti_error *error = options.error ? options.error : &own;
    if (!operations || count == 0 || !persistent) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: %s", function,
                             !persistent   ? "persistent is NULL; it must point to where the handle goes"
                             : !operations ? "operations is NULL"
                                           : "count is 0; give at least one operation");
    }
    struct tti_persistent *p = allocate(count);
    if (!p) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "%s: no memory for %zu operations", function, count);
    }
    p->group = group;
    tutti_error cause;
    options.error = &cause;
    for (size_t i = 0; i < count; i++) {
        const tutti_status status = add(p, &operations[i], &options);
        if (status != TUTTI_OK) {
            tti_persistent_report(function, count, i, &cause, error);
            destroy(p);
            return status;
        }
    }
    void *handle = NULL;
    const tutti_status status = tti_handles_insert(&tti_persistents, p, &handle, error);
    if (status != TUTTI_OK) {
        destroy(p);
        return status;
    }
    tti_error_clear(&p->outcome);
    p->handle = handle; /* before another thread has it */
    p->users = &tti_handle_slot_of(&tti_persistents, handle)->word;
    p->user.freed = mark_freed;
    tti_block_user_add(&p->user);
    *persistent = handle;
    return tti_error_clear(error);
}

/* ---- release ---------------------------------------------------------------------------------------------------- */

tutti_status tutti_persistent_release(tutti_persistent *persistent, tutti_error *error)
{
    struct tti_persistent *p = tti_persistent_hold_alone(persistent);
    if (!p) {
        return tti_persistent_refuse_alone(persistent, "persistent_release", error);
    }
    tti_handles_retain(&tti_persistents,
                       p->handle); /* retire wants the caller as a user that does not exclude others */
    tti_persistent_drop_alone(p);
    if (tti_handles_retire(&tti_persistents, p->handle) != TUTTI_OK) {
        tti_persistent_drop(p);
        return report_not_there("persistent_release", TUTTI_BUSY, error);
    }
    tti_block_user_remove(&p->user);
    destroy(p);
    return tti_error_clear(error);
}
