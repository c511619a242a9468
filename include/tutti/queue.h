/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/queue.h - many asynchronous operations, waited for together.
 *
 *     tutti_queue *queue;
 *     tutti_queue_create(&queue, NULL);
 *     for (i = 0; i < n; i++) {
 *         tutti_work *work;
 *         if (tutti_all_reduce_async(group, &t[i], &t[i], TUTTI_SUM, NULL, &work) == TUTTI_OK) tutti_queue_enqueue(queue, work, NULL);
 *     }
 *     tutti_status status = tutti_queue_wait_all(queue, TUTTI_FOREVER, &error);
 *     tutti_queue_destroy(queue, NULL);
 *
 * A queue owns the handles that are put into it: they are used through the queue from then on, and released by
 * clear_completed and destroy. Members keep the order of enqueueing; an index counts from 0 among the members as they are
 * at that moment, so clear_completed moves it. All functions may be called from any thread, also while another one waits
 * in the same queue: it then waits for the new member as well. A waiting thread holds no lock.
 */
#ifndef TUTTI_QUEUE_H
#define TUTTI_QUEUE_H

#include <tutti/work.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_queue tutti_queue;

/** Makes an empty queue. NO_MEMORY, NO_RESOURCE (4096 queues at most). */
TUTTI_API tutti_status tutti_queue_create(tutti_queue **queue, tutti_error *error);

/** Adds a work as the last member; the queue owns it if this returns OK. INVALID_ARGUMENT for NULL, BAD_STATE for a stale
 *  handle or one that is in a queue already. */
TUTTI_API tutti_status tutti_queue_enqueue(tutti_queue *queue, tutti_work *work, tutti_error *error);

/** Number of members, ended or not. */
TUTTI_API tutti_status tutti_queue_count(tutti_queue *queue, int64_t *count);

/** Number of members that have not ended. */
TUTTI_API tutti_status tutti_queue_pending(tutti_queue *queue, int64_t *count);

/**
 * Waits until every member has ended, those that are added meanwhile included; then returns OK, or the first error in the
 * order of the members, with its details in *error. One limit for all (milliseconds; 0 looks once, TUTTI_FOREVER): BUSY
 * when it passes, naming how many are open, and nothing has changed. An empty queue: OK. WOULD_DEADLOCK in a callback.
 */
TUTTI_API tutti_status tutti_queue_wait_all(tutti_queue *queue, int64_t limit_ms, tutti_error *error);

/**
 * Waits until any member has ended and gives the index of the first such one in *index; its status is
 * tutti_queue_status's. At the limit, or if the queue is empty, *index is -1. Returns OK in all these cases. WOULD_DEADLOCK as in
 * tutti_queue_wait_all, unless limit_ms is 0.
 */
TUTTI_API tutti_status tutti_queue_wait_any(tutti_queue *queue, int64_t limit_ms, int64_t *index, tutti_error *error);

/** How member `index` ended, as tutti_work_error; NOT_FOUND outside 0..count-1. */
TUTTI_API tutti_status tutti_queue_status(tutti_queue *queue, int64_t index, tutti_error *details);

/** The output of member `index`, as tutti_work_result. NOT_FOUND outside 0..count-1. */
TUTTI_API tutti_status tutti_queue_result(tutti_queue *queue, int64_t index, DLTensor *tensor, tutti_error *error);

/** Releases the members that have ended; *cleared (may be NULL) gets how many. */
TUTTI_API tutti_status tutti_queue_clear_completed(tutti_queue *queue, int64_t *cleared);

/** Cancels every member that has not begun (tutti_work_cancel); *began (may be NULL) gets how many were too late or
 *  cannot be cancelled. Waits for nothing. */
TUTTI_API tutti_status tutti_queue_cancel_all(tutti_queue *queue, int64_t *began);

/**
 * Gives the queue and the handles of its members back, as tutti_work_release does with one: whether or not they have begun,
 * the operations go on by themselves, and their buffers stay in use until they end. Nothing is cancelled, since what has
 * begun depends on the backend; for that call tutti_queue_cancel_all before. BUSY while another thread is inside a call on
 * the queue.
 */
TUTTI_API tutti_status tutti_queue_destroy(tutti_queue *queue, tutti_error *error);

TUTTI_END_DECLS

#endif
