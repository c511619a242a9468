/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives: a list of operations whose descriptors were made at init.
 *
 * run on a list that needs nothing but the group's engine (compact tensors on its device, no callback, token or flag)
 * takes the handle, the group and the lane, then runs the engine for each descriptor: six atomic operations for the
 * list, no check, no allocation. Every other list, and every start, makes a work for each operation, from the kept
 * descriptor if its tensors are compact, else from the kept tensors.
 *
 * start, run and release have the object alone, by its handle (TTI_HANDLE_ALONE). So `works` changes only there, and
 * wait and cancel read it without the lock. The lock guards what the first wait behind the end changes.
 */
#include <tutti/persistent.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/async/run.h"
#include "api/collectives/collectives.h"
#include "api/group/blocks.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process/fork.h"
#include "core/async/work/state.h"
#include "core/call/lane.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"

struct operation {
    struct tti_signature signature; /* its tensors are the kept ones; NULL: this rank has none */
    tutti_op op;                    /* checked; used again by each run */
    bool is_compact;                /* no stand-in for a tensor is needed */
    struct tti_flight_tally *tally; /* NULL: runs are recorded one by one */
    struct tti_kept_tensor input;
    struct tti_kept_tensor output;
};

struct tti_persistent {
    tutti_persistent *handle;
    tutti_group *group;
    struct tti_cached_handle cached_group;
    tutti_call call;            /* checked */
    struct tti_block_user user; /* of heap memory */
    bool is_direct;             /* run needs the engine only */
    size_t count;               /* of operations */
    tutti_work **works;         /* one for each operation */
    size_t started;             /* works of the last start */
    tutti_status refused;       /* of the operation that could not be started behind them, or OK */
    tutti_error refusal;
    pthread_mutex_t lock;
    bool is_running; /* started, and its works not released; changes under the lock, or alone */
    bool has_run;
    tutti_status status; /* of the last run */
    tutti_error outcome;
    struct operation operations[];
};

static struct tti_handle_table objects = {.kind = TTI_KIND_PERSISTENT, .name = "persistent operations"};

/* ---- reports ---------------------------------------------------------------------------------------------------- */

/* The cause, with its place in a list. */
static void report(const char *function, size_t count, size_t index, const tutti_error *cause, tutti_error *error)
{
    char place[40] = "";
    const struct tti_run run = {.function = function};
    if (count > 1) {
        snprintf(place, sizeof(place), "operations[%zu]: ", index);
    }
    tti_run_report(&run, place, cause, error);
}

static tutti_status not_there(const char *function, tutti_status why, tutti_error *error)
{
    return tti_error_set(error, why, "%s: the persistent operation %s", function,
                         why == TUTTI_INVALID_ARGUMENT ? "is NULL"
                         : why == TUTTI_FORKED         ? "was made before fork(); it belongs to the parent process"
                         : why == TUTTI_BUSY           ? "is in use: another thread is inside a call on it"
                                                       : "has been released already, or never was one");
}

/* The object, shared with other threads, or NULL with the status and a sentence. */
static struct tti_persistent *hold(tutti_persistent *handle, const char *function, tutti_error *error,
                                   tutti_status *status)
{
    struct tti_persistent *p = tti_handles_acquire(&objects, handle, status);
    if (p && tti_handles_excluded(&objects, handle)) {
        tti_handles_release(&objects, handle);
        p = NULL;
        *status = TUTTI_BUSY;
    }
    if (!p) {
        not_there(function, *status, error);
    }
    return p;
}

static void drop(struct tti_persistent *p)
{
    tti_handles_release(&objects, p->handle);
}

static inline void drop_alone(struct tti_persistent *p)
{
    tti_handles_release_alone(&objects, p->handle);
}

/* The same with the caller as its only user. */
static inline struct tti_persistent *hold_alone(tutti_persistent *handle, const char *function, tutti_error *error,
                                                tutti_status *status)
{
    const struct tti_cached_handle known = tti_handles_cache(&objects, handle);
    /* relaxed: see tti_fork_count */
    if (((uintptr_t)handle & 15) == TTI_KIND_PERSISTENT && tti_cached_handle_retain_alone(&known)) {
        if (known.slot->epoch == atomic_load_explicit(&tti_fork_count, memory_order_relaxed)) {
            return known.slot->object;
        }
        tti_handles_release_alone(&objects, handle);
    }
    struct tti_persistent *p = hold(handle, function, error, status);
    if (p) {
        drop(p);
        *status = not_there(function, TUTTI_BUSY, error);
    }
    return NULL;
}

/* ---- memory that is freed --------------------------------------------------------------------------------------- */

/* Tensors do not cross the end of a block. */
static bool begins_in(const DLTensor *t, const void *memory, size_t bytes)
{
    return t && (uintptr_t)t->data + t->byte_offset - (uintptr_t)memory < bytes;
}

static bool uses_block(const struct tti_block_user *user, const void *memory, size_t bytes)
{
    const struct tti_persistent *p =
        (const struct tti_persistent *)((const char *)user - offsetof(struct tti_persistent, user));
    for (size_t i = 0; i < p->count; i++) {
        const struct tti_signature *s = &p->operations[i].signature;
        if (begins_in(s->input, memory, bytes) || begins_in(s->output, memory, bytes)) {
            return true;
        }
    }
    return false;
}

static bool is_freed(const struct tti_persistent *p)
{
    return atomic_load_explicit(&p->user.is_freed, memory_order_relaxed);
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
    const bool is_rooted = o->kind == TUTTI_OP_REDUCE || o->kind == TUTTI_OP_BROADCAST || o->kind == TUTTI_OP_GATHER ||
                           o->kind == TUTTI_OP_SCATTER;
    return tti_signature_of(o->kind, reduces ? o->op : 0, o->dim, is_rooted ? o->root : 0,
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
    struct operation *made = &p->operations[p->count];
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
        p->is_direct = p->is_direct && needs_engine_only(k.task, k.callback);
        if (needs_engine_only(k.task, k.callback)) {
            made->op = k.task->op;
            made->tally = tti_task_take_tally(g, &made->op);
        }
        p->count++;
    }
    return tti_start_refuse(k.work, status);
}

static void destroy(struct tti_persistent *p)
{
    for (size_t i = 0; i < p->count; i++) {
        tti_flight_tally_give(p->operations[i].tally);
    }
    pthread_mutex_destroy(&p->lock);
    free(p->works);
    free(p);
}

static struct tti_persistent *allocate(size_t count)
{
    const size_t most = (SIZE_MAX - sizeof(struct tti_persistent)) / sizeof(struct operation);
    struct tti_persistent *p = count <= most ? calloc(1, sizeof(*p) + count * sizeof(p->operations[0])) : NULL;
    if (p) {
        p->works = calloc(count, sizeof(*p->works));
        if (!p->works) {
            free(p);
            return NULL;
        }
        pthread_mutex_init(&p->lock, NULL);
        p->is_direct = true;
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
            report(function, count, i, &cause, error);
            destroy(p);
            return status;
        }
    }
    void *handle = NULL;
    const tutti_status status = tti_handles_insert(&objects, p, &handle, error);
    if (status != TUTTI_OK) {
        destroy(p);
        return status;
    }
    tti_error_clear(&p->outcome);
    p->handle = handle; /* before another thread has it */
    p->user.uses = uses_block;
    tti_block_user_add(&p->user);
    *persistent = handle;
    return tti_error_clear(error);
}

/* ---- start ------------------------------------------------------------------------------------------------------ */

static tutti_status start_operation(struct tti_persistent *p, size_t i, tutti_error *error)
{
    struct operation *o = &p->operations[i];
    struct tti_checker k;
    tutti_call options = p->call;
    options.error = error;
    tutti_status status =
        tti_collective_begin_async(&k, p->group, tti_signature_kind(&o->signature),
                                   tti_collective_name(tti_signature_kind(&o->signature)), &options, &p->works[i]);
    if (status != TUTTI_OK) {
        return status;
    }
    if (o->is_compact) {
        k.task->op = o->op;
        k.task->op.waits_since = NULL;
        k.task->result = o->signature.output;
    } else {
        status = tti_collective_describe(&k, &o->signature);
    }
    return tti_collective_start(&k, status, &p->works[i]);
}

/* Alone with the object. */
static tutti_status start(struct tti_persistent *p, const char *function, tutti_error *error)
{
    tutti_error cause;
    if (p->is_running) {
        return tti_error_set(error, TUTTI_BAD_STATE,
                             "%s: it is running; wait for it with tutti_persistent_wait before it is started again",
                             function);
    }
    if (is_freed(p)) {
        return tti_error_set(error, TUTTI_BAD_STATE,
                             "%s: memory of one of its tensors has been freed by tutti_free; release it, and make one "
                             "with other tensors",
                             function);
    }
    p->refused = TUTTI_OK;
    for (p->started = 0; p->started < p->count; p->started++) {
        const tutti_status status = start_operation(p, p->started, &cause);
        if (status != TUTTI_OK && p->started == 0) {
            report(function, p->count, 0, &cause, error);
            return status;
        }
        if (status != TUTTI_OK) { /* its outcome, since those before it run */
            report(function, p->count, p->started, &cause, &p->refusal);
            p->refused = status;
            break;
        }
    }
    p->is_running = true;
    p->has_run = true;
    return tti_error_clear(error);
}

tutti_status tutti_persistent_start(tutti_persistent *persistent, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = hold_alone(persistent, "persistent_start", error, &status);
    if (!p) {
        return status;
    }
    status = start(p, "persistent_start", error);
    drop_alone(p);
    return status;
}

/* ---- wait ------------------------------------------------------------------------------------------------------- */

/* All works have ended. The first thread here takes their outcome and releases them. */
static tutti_status collect(struct tti_persistent *p, tutti_error *error)
{
    pthread_mutex_lock(&p->lock);
    if (p->is_running) {
        tutti_error cause;
        p->status = TUTTI_OK;
        tti_error_clear(&p->outcome);
        for (size_t i = 0; i < p->started; i++) {
            if (tti_run_outranks(tutti_work_wait(p->works[i], 0), p->status)) {
                tutti_work_error(p->works[i], &cause);
                p->status = cause.status;
                report("persistent_wait", p->count, i, &cause, &p->outcome);
            }
            tutti_work_release(p->works[i]);
        }
        if (tti_run_outranks(p->refused, p->status)) {
            p->status = p->refused;
            p->outcome = p->refusal;
        }
        p->is_running = false;
    }
    if (error) {
        *error = p->outcome;
    }
    const tutti_status status = p->status;
    if (status == TUTTI_OK && error && error->status != TUTTI_OK) {
        tti_error_clear(error); /* of an earlier run */
    }
    pthread_mutex_unlock(&p->lock);
    return status;
}

static bool is_running(struct tti_persistent *p)
{
    pthread_mutex_lock(&p->lock);
    const bool running = p->is_running;
    pthread_mutex_unlock(&p->lock);
    return running;
}

static tutti_status wait(struct tti_persistent *p, int64_t limit_ms, const char *function, tutti_error *error)
{
    if (limit_ms < -1) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "%s: limit_ms is %lld; it must be -1 (for ever), 0 or positive", function,
                             (long long)limit_ms);
    }
    if (!p->has_run) {
        return tti_error_set(error, TUTTI_BAD_STATE, "%s: it was never started", function);
    }
    const int64_t until = limit_ms > 0 ? tti_deadline_ns(tti_now_ns(), limit_ms) : 0;
    const bool running = is_running(p);
    for (size_t i = 0; running && i < p->started; i++) {
        const int64_t left = limit_ms > 0 ? (until - tti_now_ns() + 999999) / 1000000 : limit_ms;
        const tutti_status status = tutti_work_wait(p->works[i], limit_ms > 0 && left < 0 ? 0 : left);
        int32_t ended = 0;
        if (status == TUTTI_BAD_STATE && tutti_work_test(p->works[i], &ended) == TUTTI_BAD_STATE) {
            break; /* another waiting thread has released the works, which have all ended */
        }
        if ((status == TUTTI_BUSY || status == TUTTI_WOULD_DEADLOCK) &&
            tutti_work_test(p->works[i], &ended) == TUTTI_OK && !ended) {
            return tti_error_set(error, status, "%s: %s", function,
                                 status == TUTTI_BUSY ? "it has not ended" : "called from a callback of the group");
        }
    }
    return collect(p, error);
}

tutti_status tutti_persistent_wait(tutti_persistent *persistent, int64_t limit_ms, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = hold(persistent, "persistent_wait", error, &status);
    if (!p) {
        return status;
    }
    status = wait(p, limit_ms, "persistent_wait", error);
    drop(p);
    return status;
}

/* ---- run -------------------------------------------------------------------------------------------------------- */

/* By works. What a blocking call checks comes before the start. */
__attribute__((noinline)) static tutti_status run_works(struct tti_persistent *p, tutti_error *error)
{
    struct tti_call c;
    tutti_error cause;
    tutti_status status = tti_call_begin_plain(&c, p->group, tti_signature_kind(&p->operations[0].signature), &cause);
    if (status != TUTTI_OK) {
        report("persistent_run", 1, 0, &cause, error);
        return status;
    }
    tti_call_end(&c, TUTTI_OK);
    status = start(p, "persistent_run", error);
    return status == TUTTI_OK ? wait(p, TUTTI_FOREVER, "persistent_run", error) : status;
}

__attribute__((noinline)) static void fail_direct(struct tti_persistent *p, struct tti_group *g, size_t i,
                                                  tutti_status status, tutti_error *cause)
{
    struct operation *o = &p->operations[i];
    if (o->tally) {
        tti_flight_call_failed(o->tally, status);
    }
    tti_group_share_failure(g, p->call.lane);
    tti_call_describe(cause, g, &o->op);
    if (tti_run_outranks(status, p->status)) {
        p->status = status;
        report("persistent_run", p->count, i, cause, &p->outcome);
    }
}

/* With the group held and the lane taken. */
static inline tutti_status run_direct(struct tti_persistent *p, struct tti_group *g)
{
    tutti_error cause;
    p->status = TUTTI_OK;
    for (size_t i = 0; i < p->count; i++) {
        struct operation *o = &p->operations[i];
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
        report("persistent_run", p->count, 0, &cause, &p->outcome);
        p->status = status;
    }
    return status;
}

tutti_status tutti_persistent_run(tutti_persistent *persistent, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = hold_alone(persistent, "persistent_run", error, &status);
    if (!p) {
        return status;
    }
    if (!p->is_direct || p->is_running || is_freed(p) || tti_thread.open_scopes != 0 ||
        !tti_cached_handle_retain(&p->cached_group)) {
        status = run_works(p, error);
        drop_alone(p);
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
    drop_alone(p);
    return status;
}

/* ---- cancel and release ----------------------------------------------------------------------------------------- */

tutti_status tutti_persistent_cancel(tutti_persistent *persistent, tutti_error *error)
{
    static const char function[] = "persistent_cancel";
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = hold(persistent, function, error, &status);
    if (!p) {
        return status;
    }
    tutti_error cause;
    if (!p->has_run) {
        status = tti_error_set(error, TUTTI_BAD_STATE, "%s: it was never started", function);
    } else if (!is_running(p)) {
        status = tti_error_set(error, TUTTI_TOO_LATE, "%s: it has ended", function);
    } else {
        status = tti_error_clear(error);
        for (size_t i = 0; i < p->started; i++) {
            const tutti_status one = tutti_work_cancel(p->works[i], &cause);
            if (one != TUTTI_OK && status == TUTTI_OK) {
                status = one == TUTTI_BAD_STATE ? TUTTI_TOO_LATE : one; /* a wait has just released it */
                cause.status = status;
                report(function, p->count, i, &cause, error);
            }
        }
    }
    drop(p);
    return status;
}

tutti_status tutti_persistent_release(tutti_persistent *persistent, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = hold_alone(persistent, "persistent_release", error, &status);
    if (!p) {
        return status;
    }
    tti_handles_retain(&objects, p->handle); /* retire wants the caller as a user that does not exclude others */
    drop_alone(p);
    if (tti_handles_retire(&objects, p->handle) != TUTTI_OK) {
        drop(p);
        return not_there("persistent_release", TUTTI_BUSY, error);
    }
    for (size_t i = 0; p->is_running && i < p->started; i++) {
        tutti_work_release(p->works[i]);
    }
    tti_block_user_remove(&p->user);
    destroy(p);
    return tti_error_clear(error);
}
