/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Collectives in a stream of a device (TUTTI_ENQUEUE): an asynchronous operation that starts after the earlier work of
 * the stream, and a stream that waits for its end. The synchronous form releases the handle at once. No caller then
 * gets the operation's failure, so the group fails with it (core/async/work/stage.c).
 */
#ifndef TTI_API_ASYNC_ENQUEUE_H
#define TTI_API_ASYNC_ENQUEUE_H

#include <stdbool.h>
#include <tutti/work.h>

/* Whether the call has the flag. */
bool tti_enqueues(const tutti_call *call);

/* After the start: the stream waits for the operation or, if it cannot, this thread does. */
void tti_enqueue(tutti_work *work, void *stream, tutti_error *error);

/* The end of a synchronous form whose asynchronous one has returned `started`: releases the handle. */
tutti_status tti_enqueued(tutti_status started, tutti_work *const *work, const tutti_call *call);

#endif
