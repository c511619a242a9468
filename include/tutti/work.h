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
 *  - They check their arguments as the synchronous form does, and return at once. NO_RESOURCE if the process has 65,536
 *    works that run or were not released. After an error nothing was started: there is no work and no callback, and
 *    *work is unchanged. After OK there is exactly one end and exactly one callback.
 *  - Operations of one lane run in the order of their calls, synchronous ones included. Those of different lanes are
 *    independent. Messages are outside the order of lanes: one never blocks the posting of another.
 *  - Shapes, strides and lists of counts are copied. Data, `message` and `tensor` pointers are borrowed until the end.
 *    After the end Tutti does not touch them.
 *  - `.callback` runs once, on the lane's thread (or see TUTTI_CALLBACK_ANYWHERE), before a wait for the work returns.
 *    It may start and release works. A blocking call in it returns WOULD_DEADLOCK. `.error` of the call describes the
 *    start only.
 *  - `.timeout_ms` is the deadline of the operation, counted from the call. When it passes, the operation and its group
 *    fail with TIMEOUT, naming the missing ranks, also while the operation waits for its lane.
 *
 * A tutti_work pointer is a handle (index and generation): the use of a released one is BAD_STATE, not a crash. Any
 * thread may call all functions here.
 */
#ifndef TUTTI_WORK_H
#define TUTTI_WORK_H

#include <tutti/p2p.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_work tutti_work;

/* ---- starting: the asynchronous form of every operation ---------------------------------------------------------- */

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
/** tutti_probe_wait. A cancel works as for a receive. TIMEOUT (scope WORK) leaves the group usable. */
TUTTI_API tutti_status tutti_probe_async(tutti_group *group, int32_t peer, int32_t tag, const tutti_call *call,
                                         tutti_message *message, tutti_work **work);
TUTTI_API tutti_status tutti_sendrecv_async(tutti_group *group, const DLTensor *send_tensor, int32_t destination,
                                            int32_t send_tag, DLTensor *recv_tensor, int32_t source, int32_t recv_tag,
                                            const tutti_call *call, tutti_message *message, tutti_work **work);

/**
 * Starts the messages of this thread's batch (tutti_batch_begin) as one work. The batch is closed, also after an error.
 */
TUTTI_API tutti_status tutti_batch_end_async(tutti_group *group, const tutti_call *call, tutti_work **work);

/* ---- the handle -------------------------------------------------------------------------------------------------- */

/** Whether the operation has ended: *ended becomes 1 or 0. Never waits. BAD_STATE for a stale handle. */
TUTTI_API tutti_status tutti_work_test(tutti_work *work, int32_t *ended);

/**
 * Waits until the operation has ended and returns its status. At the limit (milliseconds; 0 does not wait, or
 * TUTTI_FOREVER) returns BUSY: the operation goes on. A second wait, or several waiting threads, are valid. The waiting
 * thread may run the operation itself. Own errors: BAD_STATE (stale), WOULD_DEADLOCK (in a callback of the group),
 * INVALID_ARGUMENT (a limit below -1).
 */
TUTTI_API tutti_status tutti_work_wait(tutti_work *work, int64_t limit_ms);

/**
 * Makes work that is queued later on `stream`, of the group's device (NULL: its default stream), wait until the
 * operation has ended, OK or not. This thread goes on. With TUTTI_HAS_STREAM in the call, too, the operation is ordered
 * on the stream as if it were queued there. tutti_work_wait or a callback gives its result. If the device's streams
 * cannot wait for the host, this thread waits. INVALID_ARGUMENT for groups on the CPU.
 */
TUTTI_API tutti_status tutti_work_wait_stream(tutti_work *work, void *stream, tutti_error *error);

/** The result of the operation, in *details. Returns OK; BAD_STATE before the end or for a stale handle. */
TUTTI_API tutti_status tutti_work_error(tutti_work *work, tutti_error *details);

/**
 * The output tensor of the call as a view: *tensor points to the caller's data, and to shape and strides that are valid
 * until the release. BAD_STATE before the end; the operation's status if it failed; NOT_FOUND if it has no single
 * output on this rank (barrier, send, batches, rooted operations on other ranks).
 */
TUTTI_API tutti_status tutti_work_result(tutti_work *work, DLTensor *tensor, tutti_error *error);

/**
 * Cancels an operation that has not begun. It keeps its place in the lane. Then every rank's operation ends CANCELLED
 * without output, naming the lowest rank that cancelled, and the group stays usable. TOO_LATE, without effect, if it
 * has begun on this rank or ended otherwise. A second cancel is OK. UNSUPPORTED if the call needs the flag
 * TUTTI_CANCELLABLE and lacks it (rooted operations; all operations in a group without TUTTI_CAP_CANCEL), and in groups
 * without TUTTI_CAP_CANCEL_FLAGGED: see tutti_group_capabilities. Messages: an unmatched receive and an unannounced
 * send end CANCELLED at once, on this rank only; a batch is cancelled completely or not at all.
 */
TUTTI_API tutti_status tutti_work_cancel(tutti_work *work, tutti_error *error);

/** *cancelled becomes 1 if the operation has ended CANCELLED, or will because of a cancel on this rank. */
TUTTI_API tutti_status tutti_work_cancelled(tutti_work *work, int32_t *cancelled);

/**
 * A descriptor for poll and epoll that becomes readable, and stays so, when the operation ends. The work owns it; the
 * release closes it. NO_RESOURCE if there are no descriptors left.
 */
TUTTI_API tutti_status tutti_work_eventfd(tutti_work *work, int *fd, tutti_error *error);

/**
 * Releases the handle, at any time. A running operation goes on, and its callback still runs. BAD_STATE for a stale
 * handle, and for one of a persistent operation.
 */
TUTTI_API tutti_status tutti_work_release(tutti_work *work);

/* ---- works of the caller's own ----------------------------------------------------------------------------------- */

/**
 * Makes a work for a task of the caller, which the caller runs. It can be waited for, polled, queued and handled by
 * events like an operation. It runs until tutti_work_complete. `output` (may be NULL) is the result of
 * tutti_work_result. Of `call` count .callback, .user, .operation_id, .lane (for events), .token and .error; a deadline
 * or a stream is INVALID_ARGUMENT. A cancel, or the token, is a request: tutti_work_cancel is OK until the completion,
 * and tutti_work_cancelled then gives 1; the task polls that and completes soon. The group cannot be destroyed before
 * the completion (BUSY, also from tutti_finalize). A failure of the group does not end the work.
 */
TUTTI_API tutti_status tutti_work_create(tutti_group *group, const DLTensor *output, const tutti_call *call,
                                         tutti_work **work);

/**
 * Completes a work of tutti_work_create with a status and, if that is not OK, a sentence (NULL: the status's), from any
 * thread. Its buffers must be free. Callback and event handlers run on this thread before the return. Inside a
 * callback, the work ends soon after that callback has returned, perhaps on another thread. The handle is valid for
 * this function and tutti_work_cancelled until the completion, also after its release by the caller or a queue.
 * BAD_STATE the second time, or for another kind of work; INVALID_ARGUMENT for a number that is no status.
 */
TUTTI_API tutti_status tutti_work_complete(tutti_work *work, tutti_status status, const char *message,
                                           tutti_error *error);

/* ---- cancellation tokens ----------------------------------------------------------------------------------------- */

/**
 * A token for many operations (`.token` of their calls). Firing it cancels each of them as tutti_work_cancel does; an
 * operation that has begun goes on. `parent` (may be NULL) fires this token, too. limit_ms: the token fires so long
 * after its creation, 0 at once, TUTTI_FOREVER never. Starting an operation with a fired token returns CANCELLED; with
 * a token that cannot cancel it UNSUPPORTED, as tutti_work_cancel does.
 */
TUTTI_API tutti_status tutti_cancel_token_create(tutti_cancel_token *parent, int64_t limit_ms,
                                                 tutti_cancel_token **token, tutti_error *error);

/**
 * Fires the token. *began (may be NULL) gets the number of operations that were too late to cancel. A second call has
 * no effect.
 */
TUTTI_API tutti_status tutti_cancel_token_cancel(tutti_cancel_token *token, int64_t *began, tutti_error *error);

/** *fired becomes 1 or 0. */
TUTTI_API tutti_status tutti_cancel_token_fired(tutti_cancel_token *token, int32_t *fired);

/**
 * Destroys the token. Its operations, child tokens and waits go on without it. BUSY: another thread is inside a call on
 * it; a wait is none.
 */
TUTTI_API tutti_status tutti_cancel_token_destroy(tutti_cancel_token *token, tutti_error *error);

/**
 * tutti_work_wait that also ends when the token fires, with CANCELLED and error->scope CALL. The operation goes on.
 */
TUTTI_API tutti_status tutti_work_wait_token(tutti_work *work, int64_t limit_ms, tutti_cancel_token *token,
                                             tutti_error *error);

/* ---- starting and waiting in one --------------------------------------------------------------------------------- */

/**
 * Starts one operation on the group and returns its work. It passes `call` to the `_async` function, or a copy with
 * another lane, tag, flags, scale, callback or error. Number, token and deadline stay; a shorter deadline, or a child
 * of the token, is valid.
 */
typedef tutti_status (*tutti_start_function)(tutti_group *group, const tutti_call *call, void *user, tutti_work **work);

/** An operation for tutti_run_all_with_deadline and tutti_run_all_with_limit. */
typedef struct tutti_start {
    tutti_start_function start;
    void *user;
} tutti_start;

/**
 * Starts an operation with the deadline and the token, waits for its end and returns its status. The error's sentence
 * names this function and the cause. If the token fires after the operation has begun, waits for the end: its buffers
 * are in use until then. timeout_ms as in tutti_call; token may be NULL. INVALID_ARGUMENT if `start` does not pass on
 * the deadline and the token: then the operation is cancelled if possible, and awaited.
 */
TUTTI_API tutti_status tutti_run_with_deadline(tutti_group *group, tutti_start_function start, void *user,
                                               int64_t timeout_ms, tutti_cancel_token *token, tutti_error *error);

/**
 * The same for many: starts all, waits for all, and returns the first error in their order. If one cannot start, later
 * ones are not started; earlier ones are cancelled if possible, and awaited.
 */
TUTTI_API tutti_status tutti_run_all_with_deadline(tutti_group *group, const tutti_start *operations, size_t count,
                                                   int64_t timeout_ms, tutti_cancel_token *token, tutti_error *error);

/**
 * Starts an operation and waits for its end, at most limit_ms (0 does not wait, or TUTTI_FOREVER). The limit ends the
 * wait only, while the deadline of tutti_run_with_deadline fails the operation and the group. Returns the operation's
 * status; BUSY at the limit; CANCELLED as soon as the token (may be NULL) fires; both with error->scope CALL. In both
 * cases the operation goes on, uses its buffers until it ends, and the group stays usable. *work is its handle if it
 * has been started, also if it has ended: the caller waits again, cancels, and releases it. *work is NULL if the start
 * failed or the token had fired before. The token ends the wait only: the start function sets `.token` of the call to
 * make the operation cancellable, and `.timeout_ms` for its deadline.
 */
TUTTI_API tutti_status tutti_run_with_limit(tutti_group *group, tutti_start_function start, void *user,
                                            int64_t limit_ms, tutti_cancel_token *token, tutti_work **work,
                                            tutti_error *error);

/**
 * The same for many, with one limit for all. When all have ended, returns OK or the first error in their order.
 * works[i] is the handle of operations[i], or NULL. If one cannot start, returns its status at once; later ones are not
 * started, and earlier ones go on.
 */
TUTTI_API tutti_status tutti_run_all_with_limit(tutti_group *group, const tutti_start *operations, size_t count,
                                                int64_t limit_ms, tutti_cancel_token *token, tutti_work **works,
                                                tutti_error *error);

TUTTI_END_DECLS

#endif
