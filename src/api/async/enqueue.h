/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives that stand in a stream of a device (TUTTI_ENQUEUE): an asynchronous operation behind what is queued there, and a
 * stream that waits for its end. The synchronous form gives the handle back at once; then nobody is left to hear that it
 * failed, so the group fails with it (core/async/work_stage.c).
 */
#ifndef TTI_API_ENQUEUE_H
#define TTI_API_ENQUEUE_H

#include <stdbool.h>
#include <tutti/work.h>

/* The call wants it. */
bool tti_enqueues(const tutti_call *call);

/* After the start: the stream waits for the operation, or, where it cannot, this thread does. */
void tti_enqueue(tutti_work *work, void *stream, tutti_error *error);

/* The end of a synchronous form whose asynchronous one has returned `started`: gives the handle back. */
tutti_status tti_enqueued(tutti_status started, tutti_work *const *work, const tutti_call *call);

#endif
