/* SPDX-License-Identifier: BSD-3-Clause */
/* Batches: a thread records messages, and their end runs them together (core/messages/batch.h). */
#include "core/messages/batch.h"

#include <tutti/work.h>

#include "api/check.h"
#include "base/error.h"

tutti_status tutti_batch_begin(tutti_group *group, tutti_error *error)
{
    struct tti_call c;
    tutti_status status = tti_call_begin_plain(&c, group, TUTTI_OP_BATCH, error);
    return status == TUTTI_OK ? tti_call_end(&c, tti_batch_begin(&c, group)) : status;
}

tutti_status tutti_batch_end(tutti_group *group, const tutti_call *call)
{
    struct tti_call c;
    struct tti_checker k;
    struct tti_batch *batch = tti_batch_take(group); /* also after an error a batch runs at most once */
    tutti_status status = tti_checker_begin(&k, &c, group, TUTTI_OP_BATCH, "batch_end", call);
    if (status == TUTTI_OK) {
        if (!batch) {
            status =
                tti_error_set(c.error, TUTTI_BAD_STATE,
                              "batch_end: this thread has no batch open on this group; call tutti_batch_begin first");
        } else {
            c.options.callback = k.callback;
            status = tti_batch_run(&c, batch);
        }
        status = tti_call_end(&c, status);
    }
    tti_batch_free(batch);
    return status;
}

tutti_status tutti_batch_end_async(tutti_group *group, const tutti_call *call, tutti_work **work)
{
    struct tti_checker k;
    struct tti_batch *batch = tti_batch_take(group);
    tutti_status status = tti_checker_begin_async(&k, group, TUTTI_OP_BATCH, "batch_end_async", call, work);
    struct tti_transfer *first = NULL;
    if (status == TUTTI_OK && batch && tti_batch_transfers(batch, k.c->group, &first)) {
        return tti_start_messages(k.work, first, batch, k.callback, work);
    }
    if (status == TUTTI_OK && batch) {
        status = tti_start_refuse(k.work, tti_error_set(k.c->error, TUTTI_NO_MEMORY,
                                                        "batch_end_async: no memory for the messages of the batch"));
    } else if (status == TUTTI_OK) {
        status = tti_start_refuse(k.work, tti_error_set(k.c->error, TUTTI_BAD_STATE,
                                                        "batch_end_async: this thread has no batch open on this group; "
                                                        "call tutti_batch_begin first"));
    }
    tti_batch_free(batch);
    return status;
}
