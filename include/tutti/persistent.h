/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/persistent.h - collectives that are described once and run again and again, as a decode or training loop does.
 * They are MPI 4's persistent collectives (MPI_Allreduce_init, MPI_Start, MPI_Startall, MPI_Request_free).
 *
 *     const tutti_persistent_op step[] = {{.kind = TUTTI_OP_ALL_REDUCE, .op = TUTTI_SUM, .input = &x, .output = &x},
 *                                         {.kind = TUTTI_OP_ALL_GATHER, .dim = 0, .input = &y, .output = &all}};
 *     tutti_persistent *persistent;
 *     tutti_persistent_init(group, step, 2, NULL, &persistent);
 *     while (more) {
 *         compute();
 *         tutti_persistent_run(persistent, NULL);
 *     }
 *     tutti_persistent_release(persistent, NULL);
 *
 *  - The arguments are checked at init. Data may change between runs; addresses, shapes and options may not.
 *  - The operations run in the order of the list, in the order of their lane, each with its own deadline. They are
 *    ordinary calls to other ranks: a rank may use the function of the operation instead, and calls that differ are
 *    MISMATCH. A failed operation does not end the list, so that ranks stay in step.
 *  - Shapes, strides and options are copied. The data are borrowed while it runs. Memory of tutti_alloc must not be
 *    freed before the release; a later run is BAD_STATE.
 *  - The library does not know when other memory is freed: release first.
 */
#ifndef TUTTI_PERSISTENT_H
#define TUTTI_PERSISTENT_H

#include <tutti/work.h>

TUTTI_BEGIN_DECLS

/** One operation: the arguments of its function in tutti/collectives.h. It reads those that this function has. */
typedef struct tutti_persistent_op {
    tutti_operation kind; /* TUTTI_OP_ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, GATHER, SCATTER, REDUCE_SCATTER,
                             ALL_TO_ALL or BARRIER */
    tutti_reduce_op op;
    int32_t dim;
    int32_t root;
    const DLTensor *input;
    DLTensor *output; /* of a broadcast: its tensor */
} tutti_persistent_op;
TUTTI_STATIC_ASSERT(sizeof(tutti_persistent_op) == 16 + 2 * sizeof(void *), "no padding");

typedef struct tutti_persistent tutti_persistent;

/**
 * Checks `count` operations and makes an object of them (MPI_Allreduce_init). Local: no other rank is needed, and
 * nothing starts. `call` holds for each operation; its callback is called at the end of each, by start and by run. The
 * caller releases *persistent. Errors: those of the operations' functions, in call.error, which say which operation of
 * the list is meant; UNSUPPORTED for another kind; NO_RESOURCE (8192 objects at most), NO_MEMORY.
 */
TUTTI_API tutti_status tutti_persistent_init(tutti_group *group, const tutti_persistent_op *operations, size_t count,
                                             const tutti_call *call, tutti_persistent **persistent);

/**
 * Start and wait in one, on the caller's thread (MPI_Start and MPI_Wait): the cheapest form. Returns the first error in
 * the order of the list; REVOKED counts only if there is no other one. Errors: those of the operations; BAD_STATE
 * (released, running, its group destroyed, its heap memory freed); BUSY (another thread is inside a call on it);
 * WOULD_DEADLOCK in a callback of the group.
 */
TUTTI_API tutti_status tutti_persistent_run(tutti_persistent *persistent, tutti_error *error);

/**
 * Starts all operations and returns (MPI_Start, MPI_Startall); tutti_persistent_wait ends them, also in another thread.
 * After an error nothing was started. If an operation behind the first one cannot be started, wait returns its error.
 * Errors as of the `_async` functions, and BAD_STATE and BUSY as of tutti_persistent_run.
 */
TUTTI_API tutti_status tutti_persistent_start(tutti_persistent *persistent, tutti_error *error);

/**
 * Waits until all have ended. limit_ms: milliseconds, 0 (does not wait) or TUTTI_FOREVER. Returns as
 * tutti_persistent_run does, or BUSY at the limit: then it runs on. A second wait returns the same again. Threads may
 * wait together. BAD_STATE if it was never started; WOULD_DEADLOCK in a callback, also in that of its own end.
 */
TUTTI_API tutti_status tutti_persistent_wait(tutti_persistent *persistent, int64_t limit_ms, tutti_error *error);

/**
 * Cancels the operations that have not begun (tutti_work_cancel). They end as CANCELLED on all ranks; wait as usual.
 * TOO_LATE if one has begun or ended; UNSUPPORTED where tutti_work_cancel is. Does not wait.
 */
TUTTI_API tutti_status tutti_persistent_cancel(tutti_persistent *persistent, tutti_error *error);

/**
 * Gives the object back (MPI_Request_free), also after its group was destroyed. Operations that run go on to their end
 * and borrow their data until then, as after tutti_work_release. BUSY: another thread is inside a call on it.
 * INVALID_ARGUMENT (NULL), BAD_STATE (released before).
 */
TUTTI_API tutti_status tutti_persistent_release(tutti_persistent *persistent, tutti_error *error);

TUTTI_END_DECLS

#endif
