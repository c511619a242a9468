/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/collectives/frame.h"

#include "api/async/enqueue.h"
#include "base/error.h"
#include "core/call/task_run.h"
#include "core/messages/batch.h"

static tutti_status check_no_batch(const struct tti_checker *k, const tutti_group *group)
{
    return !tti_batch_open(group)
               ? TUTTI_OK
               : tti_error_set(
                     k->c->error, TUTTI_BAD_STATE,
                     "%s: a batch of messages is open on this group in this thread, and collectives are not part of "
                     "a batch; call tutti_batch_end first",
                     k->function);
}

tutti_status tti_collective_begin(struct tti_checker *k, struct tti_task *task, tutti_group *group,
                                  tutti_operation operation, const char *function, const tutti_call *options)
{
    tutti_status status = tti_checker_begin(k, &task->call, group, operation, function, options);
    if (status != TUTTI_OK) {
        return status;
    }
    k->task = task;
    tti_task_reset(task, function);
    return (status = check_no_batch(k, group)) == TUTTI_OK ? TUTTI_OK : tti_call_end(k->c, status);
}

tutti_status tti_collective_begin_async(struct tti_checker *k, tutti_group *group, tutti_operation operation,
                                        const char *function, const tutti_call *options, tutti_work **work)
{
    tutti_status status = tti_checker_begin_async(k, group, operation, function, options, work);
    if (status != TUTTI_OK) {
        return status;
    }
    return (status = check_no_batch(k, group)) == TUTTI_OK ? TUTTI_OK : tti_start_refuse(k->work, status);
}

tutti_status tti_collective_run(const struct tti_checker *k, tutti_status checked)
{
    if (checked != TUTTI_OK) {
        return tti_call_end(k->c, checked);
    }
    k->c->options.callback = k->callback;
    return tti_task_run(k->task);
}

tutti_status tti_collective_start(const struct tti_checker *k, tutti_status checked, tutti_work **work)
{
    if (checked != TUTTI_OK) {
        return tti_start_refuse(k->work, checked);
    }
    const tutti_call *o = &k->c->options; /* invalid after the start */
    const bool enqueues = (o->flags & TUTTI_ENQUEUE) != 0;
    void *stream = o->stream;
    tutti_error *error = o->error;
    const tutti_status status = tti_start_collective(k->work, k->callback, work);
    if (status == TUTTI_OK && enqueues) {
        tti_enqueue(*work, stream, error);
    }
    return status;
}

void *tti_collective_memory(const struct tti_checker *k, const struct tti_view *view, unsigned what)
{
    if (view->compact || view->bytes == 0) {
        return view->data;
    }
    return tti_task_stand_in(k->task, view->tensor, view->name, view->bytes, what);
}
