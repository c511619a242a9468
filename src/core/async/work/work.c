/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A work as the rest of the core uses it: wait, poll, push, cancel. The runner of the work (lane_runner.c,
 * core/messages/messages.c) does these for works that are under way; a work without a runner is the application's to
 * complete.
 */
#include "core/async/work/work.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/operation.h"
#include "core/async/token.h"
#include "core/async/work/pool.h"
#include "core/async/work/stage.h"
#include "core/group/group_table.h"

const tutti_call *tti_work_options(const struct tti_work *w)
{
    return &w->task.call.options;
}

tutti_group *tti_work_owner(const struct tti_work *w)
{
    return tti_work_group_handle(w);
}

tutti_status tti_work_status(const struct tti_work *w)
{
    return w->status;
}

const tutti_error *tti_work_details(const struct tti_work *w)
{
    return &w->task.call.own_error;
}

tutti_status tti_work_get_outcome(const struct tti_work *w, tutti_error *error)
{
    if (error) {
        *error = *tti_work_details(w);
    }
    return w->status;
}

bool tti_work_would_deadlock(const struct tti_work *w)
{
    return tti_thread.open_scopes != 0 && !tti_work_ended(w) &&
           (tti_in_callback(w->task.call.group) || tti_callbacks_have_deferred(&w->deferred));
}

tutti_status tti_work_view(const struct tti_work *w, DLTensor *tensor, tutti_error *error)
{
    const char *name = tutti_operation_name(w->task.call.operation);
    if (!tti_work_ended(w)) {
        return tti_error_set(error, TUTTI_BAD_STATE, "work_result: the %s has not ended; wait for it first", name);
    }
    if (w->status != TUTTI_OK) {
        return tti_work_get_outcome(w, error);
    }
    if (!w->has_result) {
        return tti_error_set(error, TUTTI_NOT_FOUND, "work_result: this %s has no output tensor on rank %d", name,
                             w->task.call.rank);
    }
    *tensor = w->kept[2].tensor;
    return tti_error_clear(error);
}

/* ---- waiting ---------------------------------------------------------------------------------------------------- */

/* Keeps the lane or the messages of a work there while its runner uses them. NULL: the end of the work may be about to
 * be published, since a group is destroyed only after its operations have ended. */
static struct tti_group *acquire_group(const struct tti_work *w)
{
    tutti_status why;
    return tti_group_acquire(tti_work_group_handle(w), &why);
}

bool tti_work_wait(struct tti_work *w, int64_t until_ns)
{
    if (tti_work_ended(w)) {
        return true;
    }
    if (!w->runner) {
        return tti_work_wait_asleep(w, until_ns);
    }
    struct tti_group *g = acquire_group(w);
    if (!g) {
        return tti_work_wait_asleep(w, TTI_NEVER);
    }
    bool ended = w->runner->wait(w, until_ns);
    tti_group_release(g);
    return ended;
}

bool tti_work_poll(struct tti_work *w)
{
    if (tti_work_ended(w) || !w->runner) {
        return tti_work_ended(w);
    }
    struct tti_group *g = tti_in_callback(w->task.call.group) ? NULL : acquire_group(w);
    if (!g) {
        return tti_work_ended(w);
    }
    bool ended = w->runner->try_finish(w);
    tti_group_release(g);
    return ended || tti_work_ended(w);
}

tutti_status tti_work_wait_limited(struct tti_work *w, int64_t limit_ms)
{
    if (limit_ms < -1) {
        return TUTTI_INVALID_ARGUMENT;
    }
    if (limit_ms == 0 ? tti_work_poll(w) : tti_work_ended(w)) {
        return tti_work_status(w);
    }
    if (limit_ms == 0) {
        return TUTTI_BUSY;
    }
    if (tti_work_would_deadlock(w)) {
        return TUTTI_WOULD_DEADLOCK;
    }
    return tti_work_wait(w, tti_deadline_ns(tti_now_ns(), limit_ms)) ? tti_work_status(w) : TUTTI_BUSY;
}

void tti_work_push(struct tti_work *w)
{
    struct tti_group *g = tti_work_ended(w) || !w->runner ? NULL : acquire_group(w);
    if (g) {
        w->runner->push(w);
        tti_group_release(g);
    }
}

tutti_status tti_work_release(tutti_work *handle, bool by_owner)
{
    tutti_status status;
    struct tti_work *w = tti_work_acquire(handle, &status);
    if (!w) {
        return status;
    }
    status = TUTTI_BAD_STATE;
    if (w->is_owned == by_owner) {
        tti_work_push(w); /* no thread may wait for it later */
        status = tti_work_retire(w) ? TUTTI_OK : TUTTI_BAD_STATE;
    }
    tti_work_drop(w);
    return status;
}

bool tti_work_claim_for_queue(struct tti_work *w)
{
    return !w->is_owned &&
           !(atomic_fetch_or_explicit(&w->state, TTI_FLAG_ENQUEUED, memory_order_relaxed) & TTI_FLAG_ENQUEUED);
}

/* ---- cancelling ------------------------------------------------------------------------------------------------- */

static bool is_cancellable(const struct tti_work *w)
{
    const struct tti_call *c = &w->task.call;
    if (!w->runner || w->runner->cancel) {
        return true; /* no other rank takes part in the decision */
    }
    return c->options.flags & TUTTI_CANCELLABLE
               ? (w->capabilities & TUTTI_CAP_CANCEL_FLAGGED) != 0
               : (w->capabilities & TUTTI_CAP_CANCEL) && !tti_operation_is_rooted(c->operation);
}

tutti_status tti_work_check_cancellable(const struct tti_work *w, const char *function, tutti_error *error)
{
    if (is_cancellable(w)) {
        return TUTTI_OK;
    }
    const char *name = tutti_operation_name(w->task.call.operation);
    if (w->capabilities & TUTTI_CAP_CANCEL_FLAGGED) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "%s: in this group a %s can be cancelled only if every rank sets TUTTI_CANCELLABLE in the "
                             "flags of its call",
                             function, name);
    }
    return tti_error_set(error, TUTTI_UNSUPPORTED,
                         "%s: a %s cannot be cancelled in this group: its backend has no cancelling, and the group "
                         "has no engine for host memory, by which the ranks could agree on it",
                         function, name);
}

/* With the group of the work alive. */
static bool cancel(struct tti_work *w)
{
    return w->runner && w->runner->cancel ? w->runner->cancel(w) : tti_work_mark_cancelled(w);
}

bool tti_work_fired(struct tti_token_link *link)
{
    return !cancel((struct tti_work *)((char *)link - offsetof(struct tti_work, token)));
}

static bool acquire_and_cancel(struct tti_work *w)
{
    struct tti_group *g = acquire_group(w);
    if (!g) {
        return w->status == TUTTI_CANCELLED;
    }
    const bool done = cancel(w);
    tti_group_release(g);
    return done;
}

tutti_status tti_work_cancel(struct tti_work *w, tutti_error *error)
{
    tutti_status status = tti_work_check_cancellable(w, "work_cancel", error);
    if (status != TUTTI_OK) {
        return status;
    }
    const bool done = w->runner && w->runner->cancel ? acquire_and_cancel(w) : tti_work_mark_cancelled(w);
    return done ? tti_error_clear(error)
                : tti_error_set(error, TUTTI_TOO_LATE, "work_cancel: the %s has begun or ended on rank %d",
                                tutti_operation_name(w->task.call.operation), w->task.call.rank);
}

bool tti_work_is_cancelled(const struct tti_work *w)
{
    if (tti_work_ended(w)) {
        return w->status == TUTTI_CANCELLED;
    }
    return (atomic_load_explicit(&w->state, memory_order_relaxed) & TTI_FLAG_CANCEL) != 0;
}
