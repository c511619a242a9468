/* SPDX-License-Identifier: BSD-3-Clause */
/* Works that the application completes, a part of tutti/work.h. */
#include <tutti/work.h>

#include <string.h>

#include "api/check.h"
#include "base/error.h"
#include "core/async/work/pool.h"
#include "core/async/work/stage.h"
#include "core/group/handles.h"

/* Refuses options without effect. A task has no deadline; a token with a limit asks it to end. */
static tutti_status check_options(const struct tti_checker *k, const tutti_call *call)
{
    tutti_call options = {.size = 0};
    if (!call || !tti_call_options_copy(&options, call)) {
        return TUTTI_OK;
    }
    if (options.timeout_ms > 0) {
        return tti_reject(k,
                          "call.timeout_ms is %lld, but a task of the caller has no deadline; pass a token with a "
                          "limit",
                          (long long)options.timeout_ms);
    }
    if (options.flags & (TUTTI_HAS_STREAM | TUTTI_ENQUEUE)) {
        return tti_reject(k, "call.flags is 0x%x, but a task of the caller's own has no stream", options.flags);
    }
    return TUTTI_OK;
}

tutti_status tutti_work_create(tutti_group *group, const DLTensor *output, const tutti_call *call, tutti_work **work)
{
    struct tti_checker k;
    struct tti_view view;
    tutti_status status = tti_checker_begin_async(&k, group, TUTTI_OP_TASK, "work_create", call, work);
    if (status != TUTTI_OK) {
        return status;
    }
    status = check_options(&k, call);
    if (status == TUTTI_OK && output) {
        status = tti_check_tensor(&k, output, "output", &view);
        k.task->result = output;
    }
    return status == TUTTI_OK ? tti_start_user_work(k.work, k.callback, work) : tti_start_refuse(k.work, status);
}

static bool is_status(tutti_status status)
{
    return status == TUTTI_OK || tti_status_of_peer(status) == status;
}

tutti_status tutti_work_complete(tutti_work *work, tutti_status status, const char *message, tutti_error *error)
{
    tutti_status result = TUTTI_OK;
    if (!is_status(status)) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "work_complete: %d is no status", (int)status);
    }
    struct tti_work *w = tti_work_acquire_user_work(work, &result);
    if (w) {
        result = tti_work_complete(w, status, message);
        tti_work_drop(w);
    }
    switch (result) {
    case TUTTI_OK:
        return tti_error_clear(error);
    case TUTTI_BAD_STATE: /* also of a live handle */
        return tti_error_set(error, result,
                             "work_complete: the work has been completed already, or is not from tutti_work_create");
    default:
        return tti_handle_error(error, result, "work_complete", "work", TTI_KIND_WORK);
    }
}
