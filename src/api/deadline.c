/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting and waiting in one: tutti_run_with_deadline and tutti_run_all_with_deadline. The deadline belongs to the
 * operations, so the waits here have no limit: an operation that cannot end ends at its deadline, and only then are its
 * buffers free.
 */
#include <tutti/work.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/call.h"
#include "core/group.h"

/* One operation of a run. */
struct running {
    tutti_work *work; /* NULL: not started, or given back */
    tutti_status status;
    bool withdrawn; /* cancelled here, because a later one could not be started */
};

/* What all operations of a run share. */
struct run {
    const char *function; /* for sentences */
    struct tti_group *group;
    tutti_group *handle;
    int64_t timeout_ms;
    tutti_cancel_token *token;
};

/* Holds the group, if it may be waited for here. */
static tutti_status open_run(struct run *run, tutti_error *error)
{
    if (run->timeout_ms < -1) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT,
                             "%s: timeout_ms is %lld; it must be -1 (for ever), 0 (the group's) or positive",
                             run->function, (long long)run->timeout_ms);
    }
    tutti_status status = TUTTI_OK;
    run->group = tti_group_acquire(run->handle, &status);
    if (!run->group) {
        return tti_error_set(error, status, "%s: the group %s", run->function,
                             status == TUTTI_INVALID_ARGUMENT ? "is NULL"
                             : status == TUTTI_FORKED ? "was made before fork(); the child must call tutti_init itself"
                                                      : "has been destroyed, or never was one");
    }
    if (tti_in_callback(run->group)) {
        status =
            tti_error_set(error, TUTTI_WOULD_DEADLOCK, "%s: called from a callback of the same group", run->function);
        if (error) {
            error->rank = run->group->rank;
        }
        tti_group_release(run->group);
    }
    return status;
}

/* Puts in front of the cause's sentence where it came from; its other fields stay. `place`: "" or "operations[3]: ". */
static void tell_where(const struct run *run, const char *place, const tutti_error *cause, tutti_error *error)
{
    if (!error) {
        return;
    }
    const char *name = cause->operation != TUTTI_OP_NONE ? tutti_operation_name(cause->operation) : "";
    size_t length = strlen(name);
    bool told =
        length == 0 || (strncmp(cause->message, name, length) == 0 && strncmp(cause->message + length, ": ", 2) == 0);
    tutti_error sentence;
    tti_error_set(&sentence, cause->status, "%s: %s%s%s%s", run->function, place, told ? "" : name, told ? "" : ": ",
                  cause->message);
    *error = *cause;
    memcpy(error->message, sentence.message, sizeof(error->message));
}

static tutti_status start_one(const struct run *run, const tutti_start *operation, struct running *r,
                              tutti_error *cause)
{
    tutti_call call;
    tutti_call_init(&call);
    call.timeout_ms = run->timeout_ms;
    call.token = run->token;
    call.error = cause;
    tti_error_clear(cause);
    tutti_work *work = NULL;
    tutti_status status = operation->start(run->handle, &call, operation->user, &work);
    if (status != TUTTI_OK && cause->status != status) {
        tti_error_set(cause, status, "the start function returned %s", tutti_status_name(status));
    } else if (status == TUTTI_OK && !work) {
        status = tti_error_set(cause, TUTTI_INVALID_ARGUMENT, "the start function returned OK, but no work");
    }
    if (status == TUTTI_OK) {
        r->work = work;
    } else if (cause->rank < 0) {
        cause->rank = run->group->rank;
    }
    return status;
}

/* Waits for the end and gives the work back. `cause` is filled if it ended badly. */
static void finish_one(const struct run *run, struct running *r, tutti_error *cause)
{
    r->status = tutti_work_wait(r->work, TUTTI_FOREVER);
    if (r->status != TUTTI_OK && tutti_work_error(r->work, cause) == TUTTI_OK) {
        r->status = cause->status;
    } else if (r->status != TUTTI_OK) { /* the start function broke the rules: a stale handle, or another group */
        tti_error_set(cause, r->status, "its work cannot be waited for: %s", tutti_status_string(r->status));
        cause->rank = run->group->rank;
    }
    tutti_work_release(r->work);
    r->work = NULL;
}

tutti_status tutti_run_with_deadline(tutti_group *group, tutti_start_function start, void *user, int64_t timeout_ms,
                                     tutti_cancel_token *token, tutti_error *error)
{
    struct run run = {.function = "run_with_deadline", .handle = group, .timeout_ms = timeout_ms, .token = token};
    if (!start) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: the start function is NULL", run.function);
    }
    tutti_status status = open_run(&run, error);
    if (status != TUTTI_OK) {
        return status;
    }
    tutti_start operation = {.start = start, .user = user};
    struct running r = {0};
    tutti_error cause;
    status = start_one(&run, &operation, &r, &cause);
    if (status == TUTTI_OK) {
        finish_one(&run, &r, &cause);
        status = r.status;
    }
    if (status == TUTTI_OK) {
        tti_error_clear(error);
    } else {
        tell_where(&run, "", &cause, error);
    }
    tti_group_release(run.group);
    return status;
}

/* Whether they can be started at all: looked at before the first one is. */
static tutti_status check_operations(const tutti_start *operations, size_t count, const char *function,
                                     tutti_error *error)
{
    if (!operations && count > 0) {
        return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: operations is NULL but count is %zu", function, count);
    }
    for (size_t i = 0; i < count; i++) {
        if (!operations[i].start) {
            return tti_error_set(error, TUTTI_INVALID_ARGUMENT, "%s: the start function of operations[%zu] is NULL",
                                 function, i);
        }
    }
    return TUTTI_OK;
}

/* Whether this end is the one to return, so far: the first error in the order of the operations. Two kinds only follow
 * from another one: what was cancelled here because a start failed, and what was revoked because the group had failed,
 * as happens to an operation at its deadline if the next one's in the same lane is noticed a moment earlier. */
static bool is_first_error(const struct running *r, tutti_status first)
{
    if (r->status == TUTTI_OK || (r->withdrawn && r->status == TUTTI_CANCELLED)) {
        return false;
    }
    return first == TUTTI_OK || (first == TUTTI_REVOKED && r->status != TUTTI_REVOKED);
}

static tutti_status run_all(const struct run *run, const tutti_start *operations, size_t count, struct running *running,
                            tutti_error *error)
{
    char place[48];
    tutti_error start_cause;
    tutti_status not_started = TUTTI_OK;
    size_t started = 0;
    while (started < count && not_started == TUTTI_OK) {
        not_started = start_one(run, &operations[started], &running[started], &start_cause);
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
            tell_where(run, place, &cause, error);
        }
    }
    if (first == TUTTI_OK && not_started != TUTTI_OK) {
        first = not_started;
        snprintf(place, sizeof(place), "operations[%zu]: ", started);
        tell_where(run, place, &start_cause, error);
    }
    return first;
}

tutti_status tutti_run_all_with_deadline(tutti_group *group, const tutti_start *operations, size_t count,
                                         int64_t timeout_ms, tutti_cancel_token *token, tutti_error *error)
{
    struct run run = {.function = "run_all_with_deadline", .handle = group, .timeout_ms = timeout_ms, .token = token};
    tutti_status status = check_operations(operations, count, run.function, error);
    if (status != TUTTI_OK || (status = open_run(&run, error)) != TUTTI_OK) {
        return status;
    }
    struct running *running = calloc(count > 0 ? count : 1, sizeof(*running));
    if (!running) {
        status =
            tti_error_set(error, TUTTI_NO_MEMORY, "%s: no memory for a list of %zu operations", run.function, count);
    } else if ((status = run_all(&run, operations, count, running, error)) == TUTTI_OK) {
        tti_error_clear(error);
    }
    free(running);
    tti_group_release(run.group);
    return status;
}
