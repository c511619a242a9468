/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A start function is the application's. If it starts an operation with other options, the deadline, the token or the
 * number of the call are lost, and without this check no error would show it. So the options of the returned work are
 * compared with the given ones.
 */
#include "api/async/start_verify.h"

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "core/async/token.h"
#include "core/async/work/pool.h"
#include "core/async/work/work.h"

/* Describes the first option that differs; false: none does. */
static bool differs(const struct tti_work *w, const struct tti_start_expected *order, char *text, size_t capacity)
{
    const tutti_call *has = tti_work_options(w);
    if (order->group && tti_work_owner(w) != order->group) {
        snprintf(text, capacity, "its operation runs on another group");
    } else if (order->operation_id != 0 && has->operation_id != order->operation_id) {
        snprintf(text, capacity, "its operation has the number %lld instead of %lld, so its handlers would not run",
                 (long long)has->operation_id, (long long)order->operation_id);
    } else if (order->timeout_ms > 0 && (has->timeout_ms < 0 || has->timeout_ms > order->timeout_ms)) {
        snprintf(text, capacity, "its operation has a deadline of %lld ms instead of %lld ms",
                 (long long)has->timeout_ms, (long long)order->timeout_ms);
    } else if (order->token && has->token != order->token && !tti_token_below(has->token, order->token)) {
        snprintf(text, capacity, "its operation has %s token instead of the one that was given",
                 has->token ? "another" : "no");
    } else {
        return false;
    }
    return true;
}

static tutti_status refuse(tutti_work *work, const char *what, const struct tti_start_expected *order,
                           tutti_error *error)
{
    if (order->cancel) {
        tutti_work_cancel(work, NULL);
    }
    const bool goes_on = tutti_work_wait(work, TUTTI_FOREVER) == TUTTI_WOULD_DEADLOCK;
    tutti_work_release(work);
    return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                         "the start function has not passed on the call options: %s; pass `call`, or "
                         "a changed copy of it, to the _async function (the operation %s)",
                         what, goes_on ? "goes on" : "has been waited for");
}

tutti_status tti_start_verify(tutti_status status, tutti_work *work, const struct tti_start_expected *order,
                              tutti_error *error)
{
    if (status != TUTTI_OK) {
        return error->status == status
                   ? status
                   : tti_error_set(error, status, "the start function returned %s", tutti_status_name(status));
    }
    if (!work) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "the start function returned OK, but no work");
    }
    tutti_status why = TUTTI_OK;
    struct tti_work *w = tti_work_acquire(work, &why);
    if (w) { /* a released work cannot be checked; a wait for it is BAD_STATE */
        char what[160];
        const bool wrong = differs(w, order, what, sizeof(what));
        tti_work_drop(w);
        if (wrong) {
            return refuse(work, what, order, error);
        }
    }
    return error->status == TUTTI_OK ? TUTTI_OK : tti_error_clear(error); /* of an earlier attempt */
}
