/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti/work.h on a handle. */
#include <tutti/work.h>

#include "api/check.h"
#include "base/clock.h"
#include "base/error.h"
#include "core/async/work/pool.h"
#include "core/async/work/stage.h"
#include "core/async/work/stream.h"
#include "core/async/work/wait_token.h"
#include "core/async/work/work.h"
#include "core/group/handles.h"

/* The work, acquired; or NULL with the status and a sentence. */
static struct tti_work *hold(tutti_work *handle, const char *function, tutti_error *error, tutti_status *status)
{
    struct tti_work *w = tti_work_acquire(handle, status);
    if (!w) {
        tti_handle_error(error, *status, function, "work", TTI_KIND_WORK);
    }
    return w;
}

tutti_status tutti_work_test(tutti_work *work, int32_t *ended)
{
    tutti_status status;
    if (!ended) {
        return TUTTI_INVALID_ARGUMENT;
    }
    struct tti_work *w = tti_work_acquire(work, &status);
    if (!w) {
        return status;
    }
    *ended = tti_work_poll(w) ? 1 : 0;
    tti_work_drop(w);
    return TUTTI_OK;
}

tutti_status tutti_work_wait(tutti_work *work, int64_t limit_ms)
{
    tutti_status status;
    struct tti_work *w = tti_work_acquire(work, &status);
    if (!w) {
        return status;
    }
    status = tti_work_wait_limited(w, limit_ms);
    tti_work_drop(w);
    return status;
}

tutti_status tutti_work_wait_token(tutti_work *work, int64_t limit_ms, tutti_cancel_token *token, tutti_error *error)
{
    tutti_status status;
    struct tti_work *w = hold(work, "work_wait_token", error, &status);
    if (!w) {
        return status;
    }
    status = token ? tti_check_limit("work_wait_token", limit_ms, error)
                   : tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                                   "work_wait_token: the token is NULL; without one use tutti_work_wait");
    if (status == TUTTI_OK && tti_work_would_deadlock(w)) {
        status = tti_error_set(error, TUTTI_WOULD_DEADLOCK, "work_wait_token: called from a callback of the group");
    } else if (status == TUTTI_OK) {
        status = tti_work_wait_token(w, tti_deadline_ns(tti_now_ns(), limit_ms), token, error);
    }
    tti_work_drop(w);
    return status;
}

tutti_status tutti_work_wait_stream(tutti_work *work, void *stream, tutti_error *error)
{
    tutti_status status;
    struct tti_work *w = hold(work, "work_wait_stream", error, &status);
    if (!w) {
        return status;
    }
    status = tti_work_wait_stream(w, stream, error);
    tti_work_drop(w);
    return status;
}

tutti_status tutti_work_error(tutti_work *work, tutti_error *details)
{
    tutti_status status;
    if (!details) {
        return TUTTI_INVALID_ARGUMENT;
    }
    struct tti_work *w = hold(work, "work_error", details, &status);
    if (!w) {
        return status;
    }
    if (tti_work_ended(w)) {
        *details = *tti_work_details(w);
        status = TUTTI_OK;
    } else {
        status = tti_error_set(details, TUTTI_BAD_STATE, "work_error: the operation has not ended; wait for it first");
    }
    tti_work_drop(w);
    return status;
}

tutti_status tutti_work_result(tutti_work *work, DLTensor *tensor, tutti_error *error)
{
    tutti_status status;
    struct tti_work *w = hold(work, "work_result", error, &status);
    if (!w) {
        return status;
    }
    status = tensor ? tti_work_view(w, tensor, error)
                    : tti_error_set(error, TUTTI_INVALID_ARGUMENT, "work_result: the pointer for the tensor is NULL");
    tti_work_drop(w);
    return status;
}

tutti_status tutti_work_cancel(tutti_work *work, tutti_error *error)
{
    tutti_status status;
    struct tti_work *w = hold(work, "work_cancel", error, &status);
    if (!w) {
        return status;
    }
    status = tti_work_cancel(w, error);
    tti_work_drop(w);
    return status;
}

tutti_status tutti_work_cancelled(tutti_work *work, int32_t *cancelled)
{
    tutti_status status;
    if (!cancelled) {
        return TUTTI_INVALID_ARGUMENT;
    }
    struct tti_work *w = tti_work_acquire(work, &status);
    if (!w && status == TUTTI_BAD_STATE) {
        w = tti_work_acquire_user_work(work, &status); /* its task may poll after the release of the handle */
    }
    if (!w) {
        return status;
    }
    *cancelled = tti_work_is_cancelled(w) ? 1 : 0;
    tti_work_drop(w);
    return TUTTI_OK;
}

tutti_status tutti_work_eventfd(tutti_work *work, int *fd, tutti_error *error)
{
    tutti_status status;
    struct tti_work *w = hold(work, "work_eventfd", error, &status);
    if (!w) {
        return status;
    }
    status = fd ? tti_work_open_descriptor(w, fd, error)
                : tti_error_set(error, TUTTI_INVALID_ARGUMENT, "work_eventfd: the pointer for the descriptor is NULL");
    if (status == TUTTI_OK) {
        tti_work_push(w); /* the caller waits for the descriptor, not for the work */
    }
    tti_work_drop(w);
    return status;
}

tutti_status tutti_work_release(tutti_work *work)
{
    return tti_work_release(work, false);
}
