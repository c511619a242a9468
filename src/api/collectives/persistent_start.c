/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Persistent collectives as works. The first start makes a work for each operation, from the kept descriptor if its
 * tensors are compact, else from the kept tensors. Later starts use the work of a direct operation again, without a
 * check or an allocation. Other operations get new works. The first thread that waits behind the end of all takes their
 * outcome.
 */
#include "api/async/run.h"
#include "api/collectives/collectives.h"
#include "api/collectives/frame.h"
#include "api/collectives/persistent_state.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/async/start.h"
#include "core/async/work/pool.h"
#include "core/async/work/stage.h"
#include "core/async/work/work.h"
#include "core/group/group_table.h"

/* ---- start ------------------------------------------------------------------------------------------------------ */

/* By a work of its own. That of a direct operation is kept. */
static tutti_status start_first(struct tti_persistent *p, size_t i, tutti_error *error)
{
    struct tti_persistent_operation *o = &p->operations[i];
    struct tti_checker k;
    tutti_call options = p->call;
    options.error = error;
    tutti_work *before = p->works[i];
    tutti_status status =
        tti_collective_begin_async(&k, p->group, tti_signature_kind(&o->signature),
                                   tti_collective_name(tti_signature_kind(&o->signature)), &options, &p->works[i]);
    if (status != TUTTI_OK) {
        return status;
    }
    if (o->is_compact) {
        k.task->op = o->op;
        k.task->result = o->signature.output;
    } else {
        status = tti_collective_describe(&k, &o->signature);
    }
    k.task->tally = o->tally;
    k.work->is_kept = o->is_direct;
    k.work->is_owned = true;
    status = tti_collective_start(&k, status, &p->works[i]);
    if (status == TUTTI_OK && o->is_direct) {
        if (o->kept) {
            tti_work_release(before, true);
        }
        o->kept = k.work;
    }
    return status;
}

static tutti_status start_operation(struct tti_persistent *p, size_t i, struct tti_group *held, tutti_error *error)
{
    if (held && p->operations[i].kept) {
        tti_handles_retain(&tti_groups, p->group); /* the operation's */
        tti_start_again(p->operations[i].kept, held, tti_now_ns());
        return TUTTI_OK;
    }
    return start_first(p, i, error);
}

/* With the group held, or NULL. */
static tutti_status start_list(struct tti_persistent *p, struct tti_group *held, const char *function,
                               tutti_error *error)
{
    bool all_kept = true;
    p->all_kept = false;
    p->refused = TUTTI_OK;
    for (p->started = 0; p->started < p->count; p->started++) {
        const tutti_status status = start_operation(p, p->started, held, &p->cause);
        if (status != TUTTI_OK && p->started == 0) {
            tti_persistent_report(function, p->count, 0, &p->cause, error);
            return status;
        }
        if (status != TUTTI_OK) { /* its outcome, since those before it run */
            tti_persistent_report(function, p->count, p->started, &p->cause, &p->refusal);
            p->refused = status;
            break;
        }
        all_kept = all_kept && p->operations[p->started].kept;
    }
    p->all_kept = all_kept && p->refused == TUTTI_OK;
    p->status = TUTTI_OK;
    tti_persistent_mark(p, TTI_PERSISTENT_RUNNING);
    p->has_run = true;
    return tti_error_clear(error);
}

/* By the kept works alone. False: nothing has happened, and start_slow finds out why. */
static inline bool start_kept(struct tti_persistent *p)
{
    /* a user of the group for each operation, and the caller */
    if (!p->all_kept || tti_persistent_is(p, TTI_PERSISTENT_RUNNING | TTI_PERSISTENT_FREED) ||
        tti_thread.open_scopes != 0 || !tti_cached_handle_retain_for(&p->cached_group, (uint32_t)p->count + 1)) {
        return false;
    }
    struct tti_group *g = p->cached_group.slot->object;
    const int64_t now = tti_now_ns();
    p->status = TUTTI_OK;
    struct tti_persistent_operation *o = p->operations;
    do {
        tti_start_again(o->kept, g, now);
    } while (++o < p->end);
    tti_persistent_mark(p, TTI_PERSISTENT_RUNNING);
    tti_cached_handle_release(&p->cached_group);
    return true;
}

__attribute__((noinline)) static tutti_status start_slow(struct tti_persistent *p, const char *function,
                                                         tutti_error *error)
{
    if (tti_persistent_is(p, TTI_PERSISTENT_RUNNING)) {
        return tti_error_set(error, TUTTI_BAD_STATE,
                             "%s: it is running; wait for it with tutti_persistent_wait before it is started again",
                             function);
    }
    if (tti_persistent_is(p, TTI_PERSISTENT_FREED)) {
        return tti_error_set(error, TUTTI_BAD_STATE,
                             "%s: memory of one of its tensors has been freed by tutti_free; release it, and make one "
                             "with other tensors",
                             function);
    }
    /* In a batch or a callback, and without the group, each start finds out whether it may. */
    if (tti_thread.open_scopes != 0 || !tti_cached_handle_retain(&p->cached_group)) {
        return start_list(p, NULL, function, error);
    }
    const tutti_status status = start_list(p, p->cached_group.slot->object, function, error);
    tti_cached_handle_release(&p->cached_group);
    return status;
}

tutti_status tti_persistent_start_all(struct tti_persistent *p, const char *function, tutti_error *error)
{
    return start_kept(p) ? tti_error_clear(error) : start_slow(p, function, error);
}

__attribute__((noinline)) static tutti_status start_slow_alone(struct tti_persistent *p, tutti_error *error)
{
    const tutti_status status = start_slow(p, "persistent_start", error);
    tti_persistent_drop_alone(p);
    return status;
}

tutti_status tutti_persistent_start(tutti_persistent *persistent, tutti_error *error)
{
    struct tti_persistent *p = tti_persistent_hold_alone(persistent);
    if (!p) {
        return tti_persistent_refuse_alone(persistent, "persistent_start", error);
    }
    if (!start_kept(p)) {
        return start_slow_alone(p, error);
    }
    tti_persistent_drop_alone(p);
    return error ? tti_error_clear(error) : TUTTI_OK;
}

/* ---- wait ------------------------------------------------------------------------------------------------------- */

/* All works have ended. The first thread here takes the outcome of the works and releases them. */
static tutti_status collect(struct tti_persistent *p, tutti_error *error)
{
    pthread_mutex_lock(&p->lock);
    if (tti_persistent_is(p, TTI_PERSISTENT_RUNNING)) {
        tutti_error cause;
        p->status = TUTTI_OK;
        tti_error_clear(&p->outcome);
        for (size_t i = 0; i < p->started; i++) {
            const struct tti_work *kept = p->operations[i].kept;
            const tutti_status status = kept ? tti_work_status(kept) : tutti_work_wait(p->works[i], 0);
            if (tti_run_outranks(status, p->status)) {
                tutti_work_error(p->works[i], &cause);
                p->status = cause.status;
                tti_persistent_report("persistent_wait", p->count, i, &cause, &p->outcome);
            }
            if (!kept) {
                tti_work_release(p->works[i], true);
            }
        }
        if (tti_run_outranks(p->refused, p->status)) {
            p->status = p->refused;
            p->outcome = p->refusal;
        }
        tti_persistent_unmark(p, TTI_PERSISTENT_RUNNING);
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

/* Waits for kept works without a limit. False: that is not all there is to do, or they are not OK. */
static inline bool await_kept(struct tti_persistent *p)
{
    /* Without the group, which the operations keep until their end, there is nothing to run. */
    if (!p->all_kept || !tti_persistent_is(p, TTI_PERSISTENT_RUNNING) || tti_thread.open_scopes != 0 ||
        !tti_cached_handle_retain(&p->cached_group)) {
        return false;
    }
    bool ok = true;
    struct tti_persistent_operation *o = p->operations;
    do {
        ok = o->kept->runner->wait(o->kept, TTI_NEVER) && tti_work_status(o->kept) == TUTTI_OK && ok;
    } while (++o < p->end);
    tti_cached_handle_release(&p->cached_group);
    if (ok) {
        tti_persistent_unmark(p, TTI_PERSISTENT_RUNNING);
    }
    return ok;
}

/* Waits for one operation. OK: it has ended for every thread, so that another thread may start it again. BUSY at the
 * limit. WOULD_DEADLOCK in a callback of the group, also in that of its own end, where tutti_work_wait returns at once.
 * BAD_STATE: another waiting thread has released the works, which have all ended. */
static tutti_status await(const struct tti_persistent *p, size_t i, int64_t limit_ms)
{
    tutti_status status = TUTTI_OK;
    struct tti_work *w = tti_work_acquire(p->works[i], &status);
    if (!w) {
        return status;
    }
    status = tti_work_wait_limited(w, limit_ms);
    if (tti_work_published(w)) {
        status = TUTTI_OK;
    } else if (status != TUTTI_BUSY) {
        status = TUTTI_WOULD_DEADLOCK;
    }
    tti_work_drop(w);
    return status;
}

__attribute__((noinline)) static tutti_status wait_slow(struct tti_persistent *p, int64_t limit_ms,
                                                        const char *function, tutti_error *error)
{
    tutti_status status = tti_check_limit(function, limit_ms, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!p->has_run) {
        return tti_error_set(error, TUTTI_BAD_STATE, "%s: it was never started", function);
    }
    const int64_t until = tti_deadline_ns(tti_now_ns(), limit_ms);
    const bool running = tti_persistent_is(p, TTI_PERSISTENT_RUNNING); /* a snapshot: collect looks again */
    for (size_t i = 0; running && i < p->started; i++) {
        status = await(p, i, tti_remaining_ms(until));
        if (status == TUTTI_BUSY || status == TUTTI_WOULD_DEADLOCK) {
            return tti_error_set(error, status, "%s: %s", function,
                                 status == TUTTI_BUSY ? "it has not ended" : "called from a callback of the group");
        }
        if (status != TUTTI_OK) {
            break;
        }
    }
    return collect(p, error);
}

tutti_status tti_persistent_wait_all(struct tti_persistent *p, int64_t limit_ms, const char *function,
                                     tutti_error *error)
{
    return limit_ms == TUTTI_FOREVER && await_kept(p) ? tti_error_clear(error)
                                                      : wait_slow(p, limit_ms, function, error);
}

tutti_status tutti_persistent_wait(tutti_persistent *persistent, int64_t limit_ms, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = tti_persistent_hold(persistent, "persistent_wait", error, &status);
    if (!p) {
        return status;
    }
    if (limit_ms != TUTTI_FOREVER || !await_kept(p)) {
        status = wait_slow(p, limit_ms, "persistent_wait", error);
    } else if (error) {
        tti_error_clear(error);
    }
    tti_persistent_drop(p);
    return status;
}

/* ---- cancel ----------------------------------------------------------------------------------------------------- */

tutti_status tutti_persistent_cancel(tutti_persistent *persistent, tutti_error *error)
{
    static const char function[] = "persistent_cancel";
    tutti_status status = TUTTI_OK;
    struct tti_persistent *p = tti_persistent_hold(persistent, function, error, &status);
    if (!p) {
        return status;
    }
    tutti_error cause;
    if (!p->has_run) {
        status = tti_error_set(error, TUTTI_BAD_STATE, "%s: it was never started", function);
    } else if (!tti_persistent_is(p, TTI_PERSISTENT_RUNNING)) {
        status = tti_error_set(error, TUTTI_TOO_LATE, "%s: it has ended", function);
    } else {
        status = tti_error_clear(error);
        for (size_t i = 0; i < p->started; i++) {
            const tutti_status one = tutti_work_cancel(p->works[i], &cause);
            if (one != TUTTI_OK && status == TUTTI_OK) {
                status = one == TUTTI_BAD_STATE ? TUTTI_TOO_LATE : one; /* a wait has just released it */
                cause.status = status;
                tti_persistent_report(function, p->count, i, &cause, error);
            }
        }
    }
    tti_persistent_drop(p);
    return status;
}
