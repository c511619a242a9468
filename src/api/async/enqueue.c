/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/async/enqueue.h"

#include "core/call/call.h"

bool tti_enqueues(const tutti_call *call)
{
    tutti_call options = {.size = 0};
    return call && tti_call_options_copy(&options, call) && (options.flags & TUTTI_ENQUEUE) != 0;
}

void tti_enqueue(tutti_work *work, void *stream, tutti_error *error)
{
    const tutti_status status = tutti_work_wait_stream(work, stream, error);
    if (status != TUTTI_OK && status != TUTTI_BAD_STATE) { /* its callback has released it: it has ended */
        tutti_work_wait(work, TUTTI_FOREVER);
    }
}

tutti_status tti_enqueued(tutti_status started, tutti_work *const *work, const tutti_call *call)
{
    tutti_call options = {.size = 0};
    tutti_error details;
    if (started != TUTTI_OK) {
        return started;
    }
    if (tutti_work_error(*work, &details) == TUTTI_OK && details.status != TUTTI_OK) { /* early enough to return it */
        started = details.status;
        if (tti_call_options_copy(&options, call) && options.error) {
            *options.error = details;
        }
    }
    tutti_work_release(*work);
    return started;
}
