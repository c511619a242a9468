/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/queue.h - waiting for many asynchronous operations together.
 *
 *     tutti_queue *queue;
 *     tutti_queue_create(&queue, NULL);
 *     for (i = 0; i < n; i++) {
 *         tutti_work *work;
 *         if (tutti_all_reduce_async(group, &t[i], &t[i], TUTTI_SUM, NULL, &work) == TUTTI_OK)
 *             tutti_queue_enqueue(queue, work, NULL);
 *     }
 *     tutti_status status = tutti_queue_wait_all(queue, TUTTI_FOREVER, &error);
 *     tutti_queue_destroy(queue, NULL);
 *
 * A queue owns the works that it contains: use them by the queue only. clear_completed and destroy release them.
 * Members keep the order of enqueueing. An index counts the present members from 0, so clear_completed changes it. Any
 * thread may call any function, also while another thread waits in the queue; that thread then waits for the new
 * member, too. A waiting thread holds no lock.
 */
#ifndef TUTTI_QUEUE_H
#define TUTTI_QUEUE_H

#include <tutti/work.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_queue tutti_queue;

/** Makes an empty queue. NO_MEMORY, NO_RESOURCE (8192 queues at most). */
TUTTI_API tutti_status tutti_queue_create(tutti_queue **queue, tutti_error *error);

/**
 * Adds a work as the last member. After OK the queue owns it. INVALID_ARGUMENT for NULL; BAD_STATE for a stale handle
 * or a work that is in a queue or belongs to a persistent operation.
 */
TUTTI_API tutti_status tutti_queue_enqueue(tutti_queue *queue, tutti_work *work, tutti_error *error);

/** Number of members, ended or not. */
TUTTI_API tutti_status tutti_queue_count(tutti_queue *queue, int64_t *count);

/** Number of members that have not ended. */
TUTTI_API tutti_status tutti_queue_pending(tutti_queue *queue, int64_t *count);

/**
 * Waits until every member has ended, also those that are added meanwhile. Returns OK, or the first error in the order
 * of the members, with its details in *error. limit_ms is one limit for all (milliseconds; 0 does not wait, or
 * TUTTI_FOREVER): at the limit BUSY, with the number of unfinished members, and nothing has changed. An empty queue:
 * OK. WOULD_DEADLOCK in a callback.
 */
TUTTI_API tutti_status tutti_queue_wait_all(tutti_queue *queue, int64_t limit_ms, tutti_error *error);

/**
 * Waits until any member has ended. *index gets the first such member; tutti_queue_status gives its status. At the
 * limit, or if the queue is empty, *index is -1. Returns OK in all these cases. WOULD_DEADLOCK as in
 * tutti_queue_wait_all, unless limit_ms is 0.
 */
TUTTI_API tutti_status tutti_queue_wait_any(tutti_queue *queue, int64_t limit_ms, int64_t *index, tutti_error *error);

/** The result of member `index`, as tutti_work_error. NOT_FOUND outside 0..count-1. */
TUTTI_API tutti_status tutti_queue_status(tutti_queue *queue, int64_t index, tutti_error *details);

/** The output of member `index`, as tutti_work_result. NOT_FOUND outside 0..count-1. */
TUTTI_API tutti_status tutti_queue_result(tutti_queue *queue, int64_t index, DLTensor *tensor, tutti_error *error);

/** Releases the members that have ended; *cleared (may be NULL) gets their number. */
TUTTI_API tutti_status tutti_queue_clear_completed(tutti_queue *queue, int64_t *cleared);

/**
 * Cancels every member that has not begun (tutti_work_cancel). *began (may be NULL) gets the number of members that
 * were too late or cannot be cancelled. Does not wait.
 */
TUTTI_API tutti_status tutti_queue_cancel_all(tutti_queue *queue, int64_t *began);

/**
 * Releases the queue and its works, as tutti_work_release does. Operations go on, begun or not, and use their buffers
 * until they end. Nothing is cancelled: for that call tutti_queue_cancel_all before. BUSY while another thread is
 * inside a call on the queue.
 */
TUTTI_API tutti_status tutti_queue_destroy(tutti_queue *queue, tutti_error *error);

TUTTI_END_DECLS

#endif
