/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Works that the application completes. Such a work is open, in stage QUEUED, until one thread moves it to RUNNING: that
 * one ends it. Callbacks take the lock of their group, so a thread that is in a callback runs no other one inside: it puts
 * the work off until its outermost callback has returned.
 */
#include <stddef.h>

#include "base/error.h"
#include "core/async/work_state.h"
#include "core/group/group.h"

static void end(struct tti_deferred *deferred)
{
    struct tti_work *w = (struct tti_work *)((char *)deferred - offsetof(struct tti_work, deferred));
    tti_work_conclude(w, w->task.call.error->status);
    tti_work_publish(w);
}

tutti_status tti_work_complete(struct tti_work *w, tutti_status status, const char *message)
{
    struct tti_call *c = &w->task.call;
    if (!w->is_user_work || !tti_work_move(w, TTI_STAGE_QUEUED, TTI_STAGE_RUNNING, 0)) {
        return TUTTI_BAD_STATE;
    }
    tti_error_set(c->error, status, "%s", message ? message : tutti_status_string(status));
    w->deferred = (struct tti_deferred){.run = end};
    if (w->worker_only && tti_in_any_callback()) {
        tti_callbacks_defer(&w->deferred);
    } else {
        end(&w->deferred);
    }
    return TUTTI_OK;
}
