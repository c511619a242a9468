/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Until commit(), each failure goes to tti_start_refuse, and the caller gets the error. So all that can fail comes
 * first: the worker's thread, memory for the lists, the link to the token. Messages are the exception: posting may fail
 * after commit(), which is then undone. The work and its arrays come from a pool (work/pool.c), so starting an
 * operation usually allocates nothing. A reference to the group is held until the submit function has returned, because
 * the work may end on another thread before that.
 */
#include "core/async/start.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "core/async/events.h"
#include "core/async/token.h"
#include "core/async/work/pool.h"
#include "core/async/work/stage.h"
#include "core/async/work/work.h"
#include "core/call/lane.h"
#include "core/call/lane_runner.h"
#include "core/call/task.h"
#include "core/group/backend/engines.h"
#include "core/group/group_table.h"
#include "core/messages/batch.h"
#include "core/messages/messages.h"

static tutti_status refuse_another(tutti_status why, const char *function, tutti_error *error)
{
    return why == TUTTI_NO_MEMORY
               ? tti_error_set(error, why, "%s: no memory for another asynchronous operation", function)
               : tti_error_set(error, why,
                               "%s: %u works of this process run or were not released, and it can have no more; wait "
                               "for some and release them",
                               function, TTI_WORKS);
}

struct tti_work *tti_start_begin(tutti_group *group, tutti_operation operation, const char *function,
                                 const tutti_call *options, tutti_status *status)
{
    tutti_status why = TUTTI_OK;
    struct tti_work *w = tti_work_make(&why);
    if (!w) {
        struct tti_call c;
        *status = tti_call_begin(&c, group, operation, true, options);
        c.options.callback = NULL; /* nothing has started */
        if (*status == TUTTI_OK) {
            *status = tti_call_end(&c, refuse_another(why, function, c.error));
        }
        return NULL;
    }
    *status = tti_call_begin(&w->task.call, group, operation, true, options);
    if (*status != TUTTI_OK) {
        tti_work_unmake(w);
        return NULL;
    }
    tti_task_reset(&w->task, function);
    atomic_store_explicit(&w->group, group, memory_order_relaxed);
    w->capabilities = tti_group_capabilities(w->task.call.group);
    w->newest_events = tti_events_newest(w->task.call.group);
    return w;
}

struct tti_task *tti_start_task(struct tti_work *w)
{
    return &w->task;
}

struct tti_transfer *tti_start_transfers(struct tti_work *w)
{
    return w->transfers;
}

tutti_status tti_start_refuse(struct tti_work *w, tutti_status status)
{
    struct tti_call *c = &w->task.call;
    tti_token_unlink(&w->token);
    tti_task_drop(&w->task);
    c->options.callback = NULL;
    status = tti_call_end(c, status);
    tti_work_unmake(w);
    return status;
}

void tti_keep_tensor(struct tti_kept_tensor *kept, const DLTensor *tensor)
{
    size_t bytes = (size_t)tensor->ndim * sizeof(int64_t);
    kept->tensor = *tensor;
    if (bytes > 0) {
        memcpy(kept->shape, tensor->shape, bytes);
        kept->tensor.shape = kept->shape;
        if (tensor->strides) {
            memcpy(kept->strides, tensor->strides, bytes);
            kept->tensor.strides = kept->strides;
        }
    }
}

/* The four lists that a call may have, in the order in which they are kept. */
static int lists_of(tutti_op *op, const int64_t **lists[4])
{
    const int64_t **all[] = {&op->send_parts.counts, &op->send_parts.displacements, &op->recv_parts.counts,
                             &op->recv_parts.displacements};
    int count = 0;
    for (int i = 0; i < 4; i++) {
        if (*all[i]) {
            lists[count++] = all[i];
        }
    }
    return count;
}

static tutti_status keep_lists(struct tti_work *w)
{
    const int64_t **lists[4];
    int count = lists_of(&w->task.op, lists);
    size_t each = (size_t)w->task.call.group_size;
    size_t needed = (size_t)count * each;
    if (needed > w->lists_capacity) {
        int64_t *larger = realloc(w->lists, needed * sizeof(*larger));
        if (!larger) {
            return tti_error_set(w->task.call.error, TUTTI_NO_MEMORY, "%s: no memory for its lists of counts",
                                 w->task.function);
        }
        w->lists = larger;
        w->lists_capacity = needed;
    }
    for (int i = 0; i < count; i++) {
        int64_t *copy = w->lists + (size_t)i * each;
        memcpy(copy, *lists[i], each * sizeof(*copy));
        *lists[i] = copy;
    }
    return TUTTI_OK;
}

static void keep_tensors(struct tti_work *w)
{
    struct tti_task *t = &w->task;
    for (int32_t i = 0; i < t->side_count; i++) {
        tti_keep_tensor(&w->kept[i], t->sides[i].tensor);
        t->sides[i].tensor = &w->kept[i].tensor;
    }
    w->has_result = t->result != NULL;
    if (t->result) {
        tti_keep_tensor(&w->kept[2], t->result);
        t->result = &w->kept[2].tensor;
    }
}

static tutti_status link_token(struct tti_work *w)
{
    struct tti_call *c = &w->task.call;
    if (!c->options.token) {
        return TUTTI_OK;
    }
    w->token.fired = tti_work_fired;
    tutti_status status = tti_work_check_cancellable(w, w->task.function, c->error);
    if (status != TUTTI_OK) {
        return status; /* of a token that cannot cancel it */
    }
    status = tti_token_link(c->options.token, &w->token);
    if (status == TUTTI_CANCELLED) {
        tti_error_set(c->error, status, "%s: the token of the call has fired", w->task.function);
    } else if (status != TUTTI_OK) {
        tti_handle_error(c->error, status, w->task.function, "token of the call", TTI_KIND_TOKEN);
    }
    return status;
}

/* Nothing can fail any more: from here on the error of the call goes to the work, not to the caller. */
static void commit(struct tti_work *w, tutti_callback callback, tutti_work **work)
{
    struct tti_call *c = &w->task.call;
    if (c->options.error) {
        tti_error_clear(c->options.error);
        tti_call_complete_error(c);
        c->options.error = NULL;
    }
    c->error = &c->own_error;
    c->sequence = 0;
    c->options.callback = callback;
    w->worker_only =
        w->newest_events > 0 || (callback && (!(c->options.flags & TUTTI_CALLBACK_ANYWHERE) || tti_in_any_callback()));
    *work = tti_work_handle(w); /* before the start: a callback may already want it */
}

tutti_status tti_start_collective(struct tti_work *w, tutti_callback callback, tutti_work **work)
{
    struct tti_call *c = &w->task.call;
    struct tti_lane_queue *lane = &c->group->lane_queues[c->options.lane];
    w->runner = &tti_lane_runner;
    w->task.op.begun_ns = tti_now_ns();
    tutti_status status = tti_task_complete(&w->task);
    if (status != TUTTI_OK || (status = keep_lists(w)) != TUTTI_OK ||
        (status = tti_worker_start(&lane->worker, c->error)) != TUTTI_OK || (status = link_token(w)) != TUTTI_OK) {
        return tti_start_refuse(w, status);
    }
    keep_tensors(w);
    commit(w, callback, work);
    struct tti_group *g = c->group;
    tti_handles_retain(&tti_groups,
                       g->handle); /* the work may end, and the group be destroyed, before submit returns */
    tti_lane_queue_submit(lane, w);
    tti_group_release(g);
    return TUTTI_OK;
}

void tti_start_again(struct tti_work *w, struct tti_group *g, int64_t begun_ns)
{
    struct tti_call *c = &w->task.call;
    w->newest_events = tti_events_newest(g);
    w->worker_only = w->newest_events > 0;
    w->task.flight = 0;
    w->task.op.failed = TUTTI_OK;
    w->task.op.begun_ns = begun_ns;
    c->sequence = 0;
    tti_work_retain(w);
    tti_lane_queue_submit_again(&g->lane_queues[c->options.lane], w);
}

tutti_status tti_start_user_work(struct tti_work *w, tutti_callback callback, tutti_work **work)
{
    struct tti_call *c = &w->task.call;
    const bool calls_back = callback || w->newest_events > 0;
    tutti_status status = calls_back ? tti_worker_start(&c->group->deferred_ends.worker, c->error) : TUTTI_OK;
    if (status != TUTTI_OK || (status = link_token(w)) != TUTTI_OK) {
        return tti_start_refuse(w, status);
    }
    c->options.timeout_ms = -1;
    keep_tensors(w);
    commit(w, callback, work);
    atomic_fetch_or_explicit(&w->state, TTI_FLAG_APPLICATION, memory_order_relaxed);
    tti_work_change_stage(w, TTI_STAGE_MADE, TTI_STAGE_QUEUED, 0);
    return TUTTI_OK;
}

tutti_status tti_start_messages(struct tti_work *w, struct tti_transfer *first, struct tti_batch *batch,
                                tutti_callback callback, tutti_work **work)
{
    struct tti_call *c = &w->task.call;
    tutti_error *error = c->error;
    w->runner = &tti_messages_runner;
    w->first = first;
    w->batch = batch;
    w->task.op.begun_ns = tti_now_ns();
    tutti_status status = tti_transfers_match(c, first);
    const tutti_backend *p2p_backend = c->group->host_backend;
    if (status == TUTTI_OK && !(p2p_backend && p2p_backend->ops->post_p2p)) {
        status = tti_error_set(error, TUTTI_UNSUPPORTED, "%s: backend %s has no asynchronous messages",
                               w->task.function, p2p_backend ? p2p_backend->name : c->group->backend->name);
    }
    if (status == TUTTI_OK && (status = tti_worker_start(&c->group->messages.worker, error)) == TUTTI_OK &&
        (status = link_token(w)) == TUTTI_OK) {
        if (w->task.result) {
            keep_tensors(w);
        }
        tutti_error *wanted = c->options.error;
        tutti_work *before = *work;
        struct tti_group *g = c->group;
        commit(w, callback, work);
        tti_handles_retain(&tti_groups, g->handle);
        status = tti_messages_post(&g->messages, w, error);
        tti_group_release(g);
        if (status == TUTTI_OK) {
            return TUTTI_OK;
        }
        *work = before;
        c->error = error;
        c->options.error = wanted;
    }
    tti_transfers_drop(first);
    w->first = NULL;
    tti_batch_free(batch);
    w->batch = NULL;
    return tti_start_refuse(w, status);
}
