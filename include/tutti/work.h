/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/work.h - asynchronous operations: start now, wait later.
 *
 *     tutti_work *work;
 *     tutti_all_reduce_async(group, &grad, &grad, TUTTI_AVG, TUTTI_CALL(.timeout_ms = 5000), &work);
 *     compute();
 *     tutti_status status = tutti_work_wait(work, TUTTI_FOREVER);
 *     tutti_work_release(work);
 *
 * Common to all `_async` functions:
 *  - They check their arguments like the synchronous form and return at once. An error return means: nothing was
 *    started, there is no work and no callback, *work is untouched. OK means exactly one end and exactly one callback.
 *  - Operations of one lane run in the order of their calls, synchronous ones included; those of different lanes do not
 *    wait for one another. Messages lie outside the order of lanes: posting one never blocks another.
 *  - Shapes, strides and lists of counts are copied at the call. Data, `message` and `tensor` pointers are borrowed until
 *    the end: a work ends only when nothing can touch them any more.
 *  - `.callback` runs once, on the lane's thread, before a wait for the work returns. It may start and release work;
 *    waiting in it is WOULD_DEADLOCK. `.error` of the call tells only how the start went.
 *  - `.timeout_ms` is the deadline of the operation, counted from the call: when it passes, the operation and its group
 *    fail with TIMEOUT, naming the laggards, also while the operation is still waiting for its lane.
 *
 * A tutti_work pointer is a handle (index and generation): using one that was released is BAD_STATE, never a crash.
 * All functions here may be called from any thread.
 */
#ifndef TUTTI_WORK_H
#define TUTTI_WORK_H

#include <tutti/p2p.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_work tutti_work;

/* ---- starting: the asynchronous form of every operation ------------------------------------------------------------ */

TUTTI_API tutti_status tutti_all_reduce_async(tutti_group *group, const DLTensor *input, DLTensor *output,
                                              tutti_reduce_op op, const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_reduce_async(tutti_group *group, const DLTensor *input, DLTensor *output,
                                          tutti_reduce_op op, int32_t root, const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_broadcast_async(tutti_group *group, DLTensor *tensor, int32_t root, const tutti_call *call,
                                             tutti_work **work);
TUTTI_API tutti_status tutti_all_gather_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                              const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_gather_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                          int32_t root, const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_scatter_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                           int32_t root, const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_reduce_scatter_async(tutti_group *group, const DLTensor *input, DLTensor *output,
                                                  tutti_reduce_op op, int32_t dim, const tutti_call *call,
                                                  tutti_work **work);
TUTTI_API tutti_status tutti_all_to_all_async(tutti_group *group, const DLTensor *input, DLTensor *output, int32_t dim,
                                              const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_barrier_async(tutti_group *group, const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_all_gather_v_async(tutti_group *group, const DLTensor *input, DLTensor *output,
                                                int32_t dim, const int64_t *counts, const int64_t *displacements,
                                                const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_reduce_scatter_v_async(tutti_group *group, const DLTensor *input, DLTensor *output,
                                                    tutti_reduce_op op, int32_t dim, const int64_t *counts,
                                                    const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_all_to_all_v_async(tutti_group *group, const DLTensor *input, DLTensor *output,
                                                int32_t dim, const int64_t *send_counts,
                                                const int64_t *send_displacements, const int64_t *recv_counts,
                                                const int64_t *recv_displacements, const tutti_call *call,
                                                tutti_work **work);

/** Messages. `message` and `tensor` (the new tensor's address) are written at the end, if the work ends OK. */
TUTTI_API tutti_status tutti_send_async(tutti_group *group, const DLTensor *tensor, int32_t peer, int32_t tag,
                                        const tutti_call *call, tutti_work **work);
TUTTI_API tutti_status tutti_recv_async(tutti_group *group, DLTensor *tensor, int32_t peer, int32_t tag,
                                        const tutti_call *call, tutti_message *message, tutti_work **work);
TUTTI_API tutti_status tutti_recv_alloc_async(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                              DLManagedTensorVersioned **tensor, tutti_message *message,
                                              tutti_work **work);
/** tutti_probe_wait: a cancel withdraws it as it does a receive. TIMEOUT (scope WORK) leaves the group as it was. */
TUTTI_API tutti_status tutti_probe_async(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                         tutti_message *message, tutti_work **work);
TUTTI_API tutti_status tutti_sendrecv_async(tutti_group *group, const DLTensor *send_tensor, int32_t destination,
                                            int32_t send_tag, DLTensor *recv_tensor, int32_t source, int32_t recv_tag,
                                            const tutti_call *call, tutti_message *message, tutti_work **work);

/** Starts the messages of this thread's batch (tutti_batch_begin) as one work. The batch is closed in any case. */
TUTTI_API tutti_status tutti_batch_end_async(tutti_group *group, const tutti_call *call, tutti_work **work);

/* ---- the handle ---------------------------------------------------------------------------------------------------- */

/** Whether the operation has ended: *ended becomes 1 or 0. Never waits. BAD_STATE for a stale handle. */
TUTTI_API tutti_status tutti_work_test(tutti_work *work, int32_t *ended);

/**
 * Waits until the operation has ended and returns its status; at the limit (milliseconds; 0 looks once, TUTTI_FOREVER)
 * BUSY, and nothing has changed: a limit only observes. Waiting again, or from several threads, is legal. The waiting
 * thread may run the operation itself. Errors of its own: BAD_STATE (stale), WOULD_DEADLOCK (in a callback of the group),
 * INVALID_ARGUMENT (a limit below -1).
 */
TUTTI_API tutti_status tutti_work_wait(tutti_work *work, int64_t limit_ms);

/**
 * Makes all that is queued from now on on `stream`, of the group's device (NULL: its default stream), wait until the
 * operation has ended, well or not; this thread goes on. With it, and TUTTI_HAS_STREAM in the call, an operation stands between the work
 * before and behind it on a stream as if it were queued there. How it ended tells tutti_work_wait or a callback. Where the device's
 * streams cannot wait for the host, this thread waits. INVALID_ARGUMENT for groups on the CPU.
 */
TUTTI_API tutti_status tutti_work_wait_stream(tutti_work *work, void *stream, tutti_error *error);

/** How the operation ended, in *details. Returns OK; BAD_STATE before the end or for a stale handle. */
TUTTI_API tutti_status tutti_work_error(tutti_work *work, tutti_error *details);

/**
 * The output tensor of the call as a view: *tensor points to the caller's data and to shape and strides that live until
 * the release. BAD_STATE before the end; the operation's own status if it failed; NOT_FOUND if it has no single output
 * on this rank (barrier, send, batches, off the root).
 */
TUTTI_API tutti_status tutti_work_result(tutti_work *work, DLTensor *tensor, tutti_error *error);

/**
 * Cancels an operation that has not begun: it keeps its place in the lane, and when that comes, every rank's operation
 * ends CANCELLED without output, naming the lowest rank that cancelled; the group stays usable. TOO_LATE if it has begun on
 * this rank or ended otherwise: then nothing changes. A second cancel is OK. UNSUPPORTED if the call lacks the flag
 * TUTTI_CANCELLABLE and needs it (rooted operations; all of them in a group without TUTTI_CAP_CANCEL), and in groups without
 * TUTTI_CAP_CANCEL_FLAGGED: see tutti_group_capabilities. Messages: a receive that has not been matched and a
 * send that has not been announced end CANCELLED at once, on this rank alone; of a batch, all of it or nothing.
 */
TUTTI_API tutti_status tutti_work_cancel(tutti_work *work, tutti_error *error);

/** *cancelled becomes 1 if the operation has ended CANCELLED, by whomever, or will because of a cancel on this rank. */
TUTTI_API tutti_status tutti_work_cancelled(tutti_work *work, int32_t *cancelled);

/** A descriptor for poll and epoll that becomes readable, and stays so, when the operation ends. It belongs to the work
 *  and is closed by the release. NO_RESOURCE if there are no descriptors left. */
TUTTI_API tutti_status tutti_work_eventfd(tutti_work *work, int *fd, tutti_error *error);

/** Gives the handle back, at any time. An operation that is still running goes on; its callback still comes. */
TUTTI_API tutti_status tutti_work_release(tutti_work *work);

/* ---- works of the caller's own ------------------------------------------------------------------------------------- */

/**
 * Makes a work for a task of the caller's own, which runs wherever the caller has it run: to be waited for, polled, put into a
 * queue and heard of by events, with operations or without. It is under way until tutti_work_complete. `output` (may be NULL)
 * is what tutti_work_result gives; of `call` count .callback, .user, .operation_id, .lane (for events), .token and .error,
 * and a deadline or a stream is INVALID_ARGUMENT. A cancel, or the token, only asks: it is OK until the completion, from then on
 * tutti_work_cancelled says 1, and the task looks there and completes as soon as it can. The work belongs to its group, which
 * cannot be destroyed before the completion (BUSY, and so from tutti_finalize), but a failure of the group does not end it.
 */
TUTTI_API tutti_status tutti_work_create(tutti_group *group, const DLTensor *output, const tutti_call *call,
                                         tutti_work **work);

/**
 * Completes a work from tutti_work_create with a status and, if that is not OK, a sentence of the caller's (NULL: the status's),
 * from any thread. Its buffers must be free by then. Callback and event handlers run on this thread before this returns; inside
 * a callback, the work ends when that one has returned. The handle is good for this function, and for tutti_work_cancelled,
 * until the completion, also when it was released before, by the caller or with a queue. BAD_STATE the second time, or if it
 * is no such work; INVALID_ARGUMENT for a number that is no status.
 */
TUTTI_API tutti_status tutti_work_complete(tutti_work *work, tutti_status status, const char *message,
                                           tutti_error *error);

/* ---- cancellation tokens ------------------------------------------------------------------------------------------- */

/**
 * A token that many operations share (`.token` of their calls): firing it cancels each of them as tutti_work_cancel
 * does; an operation that has begun goes on. `parent` (may be NULL) fires this one too. limit_ms: fires by itself that
 * long after its creation, 0 at once, TUTTI_FOREVER never. Starting an operation with a fired token returns CANCELLED; with
 * a token that could never cancel it UNSUPPORTED, where tutti_work_cancel would say so.
 */
TUTTI_API tutti_status tutti_cancel_token_create(tutti_cancel_token *parent, int64_t limit_ms,
                                                 tutti_cancel_token **token, tutti_error *error);

/** Fires the token; *began (may be NULL) gets the number of operations that were too late to cancel. Once is enough. */
TUTTI_API tutti_status tutti_cancel_token_cancel(tutti_cancel_token *token, int64_t *began, tutti_error *error);

/** *fired becomes 1 or 0. */
TUTTI_API tutti_status tutti_cancel_token_fired(tutti_cancel_token *token, int32_t *fired);

/** Gives the token back; operations and child tokens lose the link and go on. */
TUTTI_API tutti_status tutti_cancel_token_destroy(tutti_cancel_token *token, tutti_error *error);

/** tutti_work_wait that also ends, with CANCELLED and error->scope CALL, when the token fires: the operation goes on. */
TUTTI_API tutti_status tutti_work_wait_token(tutti_work *work, int64_t limit_ms, tutti_cancel_token *token,
                                             tutti_error *error);

/* ---- starting and waiting in one ----------------------------------------------------------------------------------- */

/**
 * Starts one operation on the group and returns its work. It passes `call` on to the `_async` function, or a copy of it with
 * changes: lane, tag, flags, scale, callback, error. Number, token and deadline stay; a shorter deadline, or a token below the
 * given one, is allowed.
 */
typedef tutti_status (*tutti_start_function)(tutti_group *group, const tutti_call *call, void *user, tutti_work **work);

/** An operation for tutti_run_all_with_deadline and tutti_run_all_with_limit. */
typedef struct tutti_start {
    tutti_start_function start;
    void *user;
} tutti_start;

/**
 * Starts an operation with the deadline and the token, waits for its end and returns its status; the error's sentence
 * says that it came from here and carries the cause. When the token fires, an operation that has begun is waited for: its
 * buffers are in use; its deadline ends it. timeout_ms as in tutti_call; token may be NULL. INVALID_ARGUMENT if `start` has
 * not passed deadline and token on: the operation is cancelled where possible, and waited for.
 */
TUTTI_API tutti_status tutti_run_with_deadline(tutti_group *group, tutti_start_function start, void *user,
                                               int64_t timeout_ms, tutti_cancel_token *token, tutti_error *error);

/** The same for many at once: all are started, all are waited for, the first error in their order is returned. If one
 *  cannot be started, those behind it are not, and those before it are cancelled where possible and waited for. */
TUTTI_API tutti_status tutti_run_all_with_deadline(tutti_group *group, const tutti_start *operations, size_t count,
                                                   int64_t timeout_ms, tutti_cancel_token *token, tutti_error *error);

/**
 * Starts an operation and waits for its end, but not longer than limit_ms (0 looks once, TUTTI_FOREVER): the limit ends the
 * wait, where the deadline of tutti_run_with_deadline fails the operation and the group. Returns the operation's status; BUSY
 * when the limit passes; CANCELLED as soon as the token fires (may be NULL), with error->scope CALL as for BUSY. In both cases
 * the operation goes on, its buffers stay in use until it ends, and the group is as before. *work is its handle whenever it
 * has been started, also if it has ended: the caller waits for it again, cancels it, and releases it. NULL: it has not been
 * started, because the start failed or the token had fired before. The token ends the wait only; the start function sets
 * `.token` of the call for an operation that it shall cancel, and `.timeout_ms` for a deadline of its own.
 */
TUTTI_API tutti_status tutti_run_with_limit(tutti_group *group, tutti_start_function start, void *user,
                                            int64_t limit_ms, tutti_cancel_token *token, tutti_work **work,
                                            tutti_error *error);

/** The same for many, with one limit for all. When all have ended, returns OK or the first error in their order. works[i] is
 *  the handle of operations[i], or NULL. If one cannot be started, returns its status at once: those behind it are not
 *  started, and those before it go on. */
TUTTI_API tutti_status tutti_run_all_with_limit(tutti_group *group, const tutti_start *operations, size_t count,
                                                int64_t limit_ms, tutti_cancel_token *token, tutti_work **works,
                                                tutti_error *error);

TUTTI_END_DECLS

#endif
