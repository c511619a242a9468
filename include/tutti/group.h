/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/group.h - groups of ranks.
 *
 * A group is an ordered set of ranks 0..size-1 that run operations together. tutti_init makes the first one, the world;
 * others are made from a group. A tutti_group pointer is a handle (index and generation), not an address: the use of a
 * destroyed group is BAD_STATE, not a crash. With the `local` backend every thread has its own handle and is the rank.
 * If the thread that made the group ends, the other ranks get PEER_LEFT.
 */
#ifndef TUTTI_GROUP_H
#define TUTTI_GROUP_H

#include <tutti/config.h>
#include <tutti/tensor.h>

TUTTI_BEGIN_DECLS

typedef struct tutti_group tutti_group;

/**
 * Joins the job and makes its world group. Collective over all ranks: returns when every rank has joined and the engine
 * is open, or fails on every rank that has called (transactional).
 *
 * config NULL: rank, world size and rendezvous come from the environment, in this order: TUTTI_*; RANK, WORLD_SIZE, ...
 * (torchrun); OMPI_COMM_WORLD_*; PMI_* and PMIX_* (hydra, PMIx); SLURM_*. The first family with rank and size counts. A
 * family with only one of them must not contradict it. If none has both, the rank may be RANK, OMPI_COMM_WORLD_RANK or
 * WORLD_RANK, and the size WORLD_SIZE or OMPI_COMM_WORLD_SIZE. Without any of them the world has one rank.
 * config.world_size 1: a group of the caller alone, also inside a job. It does not use the job's rendezvous, unless the
 * configuration names a store. A world has at most 65,536 ranks, with `shm` and `local` at most 1,024, with `null` any
 * number.
 * Errors: INVALID_ARGUMENT naming the variable or key; UNSUPPORTED (too many ranks for the named backend); NOT_FOUND
 * (unknown backend; the message lists the known ones); NOT_AVAILABLE with the reason; TIMEOUT naming the missing ranks;
 * RANK_TAKEN; MISMATCH (sizes or settings differ).
 *
 * Fork: the parent stays the rank. The child is no member: the parent's handles return FORKED there, heap memory is a
 * private copy, and the end of the child is no failure. The child may call tutti_init as another rank, or with
 * world_size 1. It must not use MPI or a device that the parent has used. Details: docs/reliability.md.
 */
TUTTI_API tutti_status tutti_init(const tutti_config *config, tutti_group **group, tutti_error *error);

/**
 * Ends this process's use of Tutti: destroys all events objects and groups and stops the backends. Local. If this
 * process serves the rendezvous, its thread for that goes on until the other ranks have left, or the process ends.
 * Valid without tutti_init and more than once; tutti_init may follow, and waits for a finalize in another thread
 * (inside a callback it is BUSY then). BUSY, without a change, if an asynchronous operation is pending, or another
 * thread or a callback is inside Tutti (in tutti_init, too); the error names it. If all lanes are idle, that is said
 * after 0.1 s only, since an operation that a later call of its lane has passed is about to end.
 *
 * A process may also just end (exit, or return from main), with pending operations and open groups. Pending operations
 * are abandoned, and the exit status is the program's. A rank that still needs this one gets PEER_LEFT. docs/mpi.md
 * says when MPI does not end.
 */
TUTTI_API tutti_status tutti_finalize(tutti_error *error);

/**
 * Makes a group of some ranks of `parent`: ranks[i] (a rank of parent) becomes rank i. Only the members call, all with
 * the same list; other ranks take no part. config NULL: backend, lanes and timeout of the parent. Errors:
 * INVALID_ARGUMENT (empty list, duplicates, a rank outside the parent, the caller not in the list); TIMEOUT, PEER_DEAD,
 * PEER_LEFT, naming the missing ranks: then no member has the group. `suspect` is a rank of the parent; a sentence that
 * counts ranks in the new group says so. A member with the new group may destroy the parent at once.
 */
TUTTI_API tutti_status tutti_group_create(tutti_group *parent, const int32_t *ranks, int32_t count,
                                          const tutti_config *config, tutti_group **group, tutti_error *error);

/**
 * Splits `parent` as MPI_Comm_split does: ranks of equal colour form a group, ordered by key, then by parent rank.
 * Every rank of parent calls. Colour -1: the rank joins no group, and *group becomes NULL. Other negative colours are
 * INVALID_ARGUMENT on the caller; the other ranks get TIMEOUT. Other errors as in tutti_group_create. If a rank does
 * not call in time, the split fails on every rank, also on the late rank when it calls. A failure behind that, when all
 * have called, concerns the ranks of one colour. After a failure every rank calls again, equally often; a call that was
 * refused with INVALID_ARGUMENT does not count.
 */
TUTTI_API tutti_status tutti_group_split(tutti_group *parent, int32_t color, int32_t key, const tutti_config *config,
                                         tutti_group **group, tutti_error *error);

/**
 * Destroys the group. Local: does not wait for other ranks; a rank that still needs this one gets PEER_LEFT. BUSY if an
 * asynchronous operation is pending (a released one, too: it goes on, so call again later), an events object watches
 * the group, or another thread or a callback is inside a call on it, for 0.1 s if all lanes are idle, as in
 * tutti_finalize; the error names it. BAD_STATE the second time. Sub-groups are independent.
 */
TUTTI_API tutti_status tutti_group_destroy(tutti_group *group, tutti_error *error);

/** Own rank in the group, 0..size-1; -1 if the handle is stale. */
TUTTI_API int32_t tutti_group_rank(tutti_group *group);

/** Number of ranks in the group; -1 if the handle is stale. */
TUTTI_API int32_t tutti_group_size(tutti_group *group);

/** Number of lanes the group was made with; -1 if the handle is stale. */
TUTTI_API int32_t tutti_group_lanes(tutti_group *group);

/** Name of the backend that runs the group's CPU operations ("shm"); NULL if the handle is stale. Static storage. */
TUTTI_API const char *tutti_group_backend(tutti_group *group);

/**
 * The algorithm of this rank's last collective on `lane`, as docs/performance.md names it: "inline", "packets",
 * "one_shot", "two_shot", "staged", "pipelined", "zero_copy", "single_copy", or "solo" in a group of one rank. NULL if
 * there was none, if the backend does not report it, if there is no such lane, or for a stale handle. Static storage. A
 * hint for people and tools: names may be added, and results do not depend on it. Call it before the next collective on
 * the lane, on the thread that ran the collective or waited for it.
 */
TUTTI_API const char *tutti_group_algorithm(tutti_group *group, int32_t lane);

/**
 * The communicator of the engine: an `MPI_Comm *` with the group's ranks if the backend is mpi. It belongs to the
 * group, and Tutti uses it for messages, so duplicate it for other use. NULL for other backends and a stale handle.
 */
TUTTI_API void *tutti_group_native_communicator(tutti_group *group);

/** The device the group works on; {0, 0} if the handle is stale. */
TUTTI_API DLDevice tutti_group_device(tutti_group *group);

/** Rank in the world group of rank `rank` of this group; -1 if the handle is stale or the rank is not in the group. */
TUTTI_API int32_t tutti_group_global_rank(tutti_group *group, int32_t rank);

/** Rank in this group of rank `global_rank` of the world group; -1 if the handle is stale or it is no member. */
TUTTI_API int32_t tutti_group_local_rank(tutti_group *group, int32_t global_rank);

/**
 * Writes a description for people (backend, ranks, lanes, deadline, the algorithm of each operation) into text, always
 * terminated by NUL, cut if too long. *needed (may be NULL) gets the full length without NUL. capacity 0 only measures.
 */
TUTTI_API tutti_status tutti_group_describe(tutti_group *group, char *text, size_t capacity, size_t *needed,
                                            tutti_error *error);

/** The reason why the group has failed. OK with details->status OK if it has not; BAD_STATE for a stale handle. */
TUTTI_API tutti_status tutti_group_error(tutti_group *group, tutti_error *details);

/** One operation that the `null` backend was asked to run. */
typedef struct tutti_null_record {
    uint32_t size;
    tutti_operation operation;
    tutti_dtype dtype;
    int32_t reduce_op;
    int32_t root; /* root or peer */
    int32_t tag;
    int64_t count;
} tutti_null_record;
TUTTI_STATIC_ASSERT(sizeof(tutti_null_record) == 32, "no padding");

/** Sets every field to 0 and `size` to this library's. NULL is ignored. */
TUTTI_API void tutti_null_record_init(tutti_null_record *record);

/**
 * Operation number `index` (from 0) that ran on a group of the `null` backend. That backend communicates nothing,
 * accepts any rank and size, and records the last 1024 calls. NOT_FOUND outside the recorded ones; UNSUPPORTED on other
 * backends. The caller sets `record->size`.
 */
TUTTI_API tutti_status tutti_null_recorded(tutti_group *group, int64_t index, tutti_null_record *record,
                                           tutti_error *error);

/** A rank of tutti_run_threads, which returns the first status of a rank that is not OK. */
typedef tutti_status (*tutti_rank_function)(tutti_group *group, void *user);

/**
 * Runs function(group, user) on `ranks` new threads that form one `local` group, and waits for all of them. Each group
 * is destroyed when its function returns, unless the function did it. Returns the status of the lowest rank that
 * failed.
 */
TUTTI_API tutti_status tutti_run_threads(int32_t ranks, tutti_rank_function function, void *user, tutti_error *error);

TUTTI_END_DECLS

#endif
