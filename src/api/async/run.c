/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/async/run.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "api/async/start_verify.h"
#include "api/group/group.h"
#include "base/error.h"
#include "core/call/call.h"
#include "core/group/group_table.h"

tutti_status tti_run_open(struct tti_run *run, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    run->group = tti_api_hold(run->handle, run->function, error, &status);
    if (!run->group) {
        return status;
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

void tti_run_report(const struct tti_run *run, const char *place, const tutti_error *cause, tutti_error *error)
{
    if (!error) {
        return;
    }
    const char *name = cause->operation != TUTTI_OP_NONE ? tutti_operation_name(cause->operation) : "";
    size_t length = strlen(name);
    bool named =
        length == 0 || (strncmp(cause->message, name, length) == 0 && strncmp(cause->message + length, ": ", 2) == 0);
    tutti_error sentence;
    tti_error_set(&sentence, cause->status, "%s: %s%s%s%s", run->function, place, named ? "" : name, named ? "" : ": ",
                  cause->message);
    *error = *cause;
    memcpy(error->message, sentence.message, sizeof(error->message));
}

tutti_status tti_run_start(const struct tti_run *run, const tutti_start *operation, const tutti_call *options,
                           tutti_work **work, tutti_error *cause)
{
    tutti_call call = *options;
    call.error = cause;
    tti_error_clear(cause);
    const struct tti_start_expected order = {
        .timeout_ms = options->timeout_ms, .token = options->token, .cancel = true};
    tutti_work *started = NULL;
    tutti_status status = operation->start(run->handle, &call, operation->user, &started);
    status = tti_start_verify(status, started, &order, cause);
    if (status == TUTTI_OK) {
        *work = started;
    } else if (cause->rank < 0) {
        cause->rank = run->group->rank;
    }
    return status;
}

tutti_status tti_run_check(const tutti_start *operations, size_t count, const char *function, tutti_error *error)
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

bool tti_run_outranks(tutti_status status, tutti_status first)
{
    return status != TUTTI_OK && (first == TUTTI_OK || (first == TUTTI_REVOKED && status != TUTTI_REVOKED));
}
