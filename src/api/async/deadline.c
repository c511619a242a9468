/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and waiting in one call: tutti_run_with_deadline and tutti_run_all_with_deadline. The deadline is the
 * operations', so the waits here have no limit: an operation that is stuck ends at its deadline, and only then are its
 * buffers free.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/async/run.h"
#include "base/error.h"
#include "core/group/group_table.h"

/* One operation of a run. */
struct running {
    tutti_work *work; /* NULL: not started, or released */
    tutti_status status;
    bool withdrawn; /* cancelled here, because a later one could not start */
};

static tutti_status check_deadline(const char *function, int64_t timeout_ms, tutti_error *error)
{
    return timeout_ms >= -1
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                               "%s: timeout_ms is %lld; it must be -1 (no deadline), 0 (the group's) or positive",
                               function, (long long)timeout_ms);
}

static tutti_call options_of(int64_t timeout_ms, tutti_cancel_token *token)
{
    tutti_call call;
    tutti_call_init(&call);
    call.timeout_ms = timeout_ms;
    call.token = token;
    return call;
}

/* Waits for the end and releases the work. Fills `cause` if the operation failed. */
static void finish_one(const struct tti_run *run, struct running *r, tutti_error *cause)
{
    r->status = tutti_work_wait(r->work, TUTTI_FOREVER);
    if (r->status != TUTTI_OK && tutti_work_error(r->work, cause) == TUTTI_OK) {
        r->status = cause->status;
    } else if (r->status != TUTTI_OK) { /* the start function returned a stale handle or a work of another group */
        tti_error_set(cause, r->status, "its work cannot be waited for: %s", tutti_status_string(r->status));
        cause->rank = run->group->rank;
    }
    tutti_work_release(r->work);
    r->work = NULL;
}

tutti_status tutti_run_with_deadline(tutti_group *group, tutti_start_function start, void *user, int64_t timeout_ms,
                                     tutti_cancel_token *token, tutti_error *error)
{
    struct tti_run run = {.function = "run_with_deadline", .handle = group};
    if (!start) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: the start function is NULL", run.function);
    }
    tutti_status status = check_deadline(run.function, timeout_ms, error);
    if (status != TUTTI_OK || (status = tti_run_open(&run, error)) != TUTTI_OK) {
        return status;
    }
    const tutti_start operation = {.start = start, .user = user};
    const tutti_call options = options_of(timeout_ms, token);
    struct running r = {0};
    tutti_error cause;
    status = tti_run_start(&run, &operation, &options, &r.work, &cause);
    if (status == TUTTI_OK) {
        finish_one(&run, &r, &cause);
        status = r.status;
    }
    if (status == TUTTI_OK) {
        tti_error_clear(error);
    } else {
        tti_run_report(&run, "", &cause, error);
    }
    tti_group_release(run.group);
    return status;
}

/* The cancels after a failed start are not the first error. */
static bool is_first_error(const struct running *r, tutti_status first)
{
    return !(r->withdrawn && r->status == TUTTI_CANCELLED) && tti_run_outranks(r->status, first);
}

static tutti_status run_all(const struct tti_run *run, const tutti_call *options, const tutti_start *operations,
                            size_t count, struct running *running, tutti_error *error)
{
    char place[48];
    tutti_error start_cause;
    tutti_status not_started = TUTTI_OK;
    size_t started = 0;
    while (started < count && not_started == TUTTI_OK) {
        not_started = tti_run_start(run, &operations[started], options, &running[started].work, &start_cause);
        started += not_started == TUTTI_OK;
    }
    for (size_t i = 0; i < started && not_started != TUTTI_OK; i++) {
        running[i].withdrawn = tutti_work_cancel(running[i].work, NULL) == TUTTI_OK;
    }
    tutti_status first = TUTTI_OK;
    for (size_t i = 0; i < started; i++) {
        tutti_error cause;
        finish_one(run, &running[i], &cause);
        if (is_first_error(&running[i], first)) {
            first = running[i].status;
            snprintf(place, sizeof(place), "operations[%zu]: ", i);
            tti_run_report(run, place, &cause, error);
        }
    }
    if (first == TUTTI_OK && not_started != TUTTI_OK) {
        first = not_started;
        snprintf(place, sizeof(place), "operations[%zu]: ", started);
        tti_run_report(run, place, &start_cause, error);
    }
    return first;
}

tutti_status tutti_run_all_with_deadline(tutti_group *group, const tutti_start *operations, size_t count,
                                         int64_t timeout_ms, tutti_cancel_token *token, tutti_error *error)
{
    struct tti_run run = {.function = "run_all_with_deadline", .handle = group};
    const tutti_call options = options_of(timeout_ms, token);
    tutti_status status = tti_run_check(operations, count, run.function, error);
    if (status != TUTTI_OK || (status = check_deadline(run.function, timeout_ms, error)) != TUTTI_OK ||
        (status = tti_run_open(&run, error)) != TUTTI_OK) {
        return status;
    }
    struct running *running = calloc(count > 0 ? count : 1, sizeof(*running));
    if (!running) {
        status =
            tti_error_set(error, TUTTI_NO_MEMORY, "%s: no memory for a list of %zu operations", run.function, count);
    } else if ((status = run_all(&run, &options, operations, count, running, error)) == TUTTI_OK) {
        tti_error_clear(error);
    }
    free(running);
    tti_group_release(run.group);
    return status;
}
