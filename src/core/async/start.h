/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting asynchronous operations: from a call whose arguments are checked to a work that is under way. Arguments
 * that the caller may free at once (shapes, strides, lists of counts, options) are copied into the work.
 *
 * After an error up to here nothing has happened: the work is freed, and no callback is called.
 */
#ifndef TTI_CORE_ASYNC_START_H
#define TTI_CORE_ASYNC_START_H

#include <tutti/work.h>

#include "core/call/call.h"

struct tti_group;
struct tti_work;
struct tti_task;
struct tti_transfer;
struct tti_batch;
struct tti_kept_tensor;

/* A work whose call has begun (tti_call_begin), or NULL with the status, the error being complete. */
struct tti_work *tti_start_begin(tutti_group *group, tutti_operation operation, const char *function,
                                 const tutti_call *options, tutti_status *status);

struct tti_task *tti_start_task(struct tti_work *w);

/* Room for two transfers. */
struct tti_transfer *tti_start_transfers(struct tti_work *w);

/* Copies a checked tensor with its shape and strides (work/state.h). */
void tti_keep_tensor(struct tti_kept_tensor *kept, const DLTensor *tensor);

/* Ends a start whose checks have failed. Returns status. */
tutti_status tti_start_refuse(struct tti_work *w, tutti_status status);

/* Starts the collective in the work's task. */
tutti_status tti_start_collective(struct tti_work *w, tutti_callback callback, tutti_work **work);

/* Starts it once more, at begun_ns. The work has ended, its handle is alive, no other thread uses it, and the task
 * needs nothing but the engine of its group: no stand-in, callback, token or stream. The caller has acquired the group
 * twice, and the operation takes over one of the two. */
void tti_start_again(struct tti_work *w, struct tti_group *g, int64_t begun_ns);

/* Makes the work the application's, to be ended by tti_work_complete. */
tutti_status tti_start_user_work(struct tti_work *w, tutti_callback callback, tutti_work **work);

/* Starts messages: the transfers that `first` leads, which lie in the work or in the batch. They, and the batch, are
 * the work's from here on, also on failure. */
tutti_status tti_start_messages(struct tti_work *w, struct tti_transfer *first, struct tti_batch *batch,
                                tutti_callback callback, tutti_work **work);

#endif
