/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/recovery.h - going on after ranks are lost, and adding new ranks.
 *
 *     while ((st = step(g)) != TUTTI_OK) {              // PEER_DEAD here, REVOKED on the others
 *         tutti_group *rest;
 *         if (tutti_group_shrink(g, 10000, &rest, &e) != TUTTI_OK) { puts(e.message); return 1; }
 *         tutti_group_destroy(g, NULL);
 *         g = rest;                                     // the survivors, in their order; restore the last agreed state
 *     }
 *
 * A group that has failed stays failed: operations that need other ranks return REVOKED with the reason, at once. The
 * functions of this header still work on it, and so do tutti_group_error, tutti_group_destroy, and functions that only
 * read. They need an engine with TUTTI_CAP_RECOVER or TUTTI_CAP_GROW (tutti_group_capabilities); others return
 * UNSUPPORTED at once. The model is ULFM (MPI User-Level Failure Mitigation). docs/reliability.md states the promise,
 * the limits and the test of each function.
 */
#ifndef TUTTI_RECOVERY_H
#define TUTTI_RECOVERY_H

#include <tutti/group.h>

TUTTI_BEGIN_DECLS

/**
 * Ends all that waits in the group on this rank, in any thread, with REVOKED: operations, messages, agree and shrink.
 * The group fails, with TUTTI_CAP_RECOVER on all ranks, as after tutti_group_revoke. Then agree and shrink may be
 * called again, and tutti_group_destroy waits until running calls have returned, up to the group's deadline, instead of
 * returning BUSY. Any thread may call, also in a callback. Waits for no rank; a second call changes nothing. Errors:
 * UNSUPPORTED (the engine cannot end waiting calls); BAD_STATE, FORKED.
 */
TUTTI_API tutti_status tutti_group_abort(tutti_group *group, tutti_error *error);

/**
 * Fails the group on all ranks: waiting and later operations return REVOKED everywhere. For a rank that does not go on
 * with the others, after PEER_DEAD in one call or for its own reasons: ranks that wait for it return at once. Calls
 * that have all they need end OK. Permanent. Any thread may call. Waits for no rank; a second call changes nothing.
 * Does not end agree or shrink. Errors: UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_revoke(tutti_group *group, tutti_error *error);

/**
 * The ranks that have died or left, as this rank knows now: the first `capacity` of them into `ranks`, ascending;
 * *count gets their number. Local, so ranks may get different results; tutti_group_agree gives the same one to all.
 * `ranks` may be NULL if capacity is 0. Errors: INVALID_ARGUMENT, UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_failed(tutti_group *group, int32_t *ranks, int32_t capacity, int32_t *count,
                                          tutti_error *error);

/**
 * Agrees among all living ranks, also if ranks die during the call. *flags: each rank gives 64 bits, and all get the
 * bitwise AND of those of all ranks that have not failed, and possibly of some that have. All get the same list of
 * failed ranks (as in tutti_group_failed). Collective: all living ranks call. timeout_ms: 0 = the group's deadline, -1
 * = none. Errors: TIMEOUT naming the missing ranks; REVOKED (aborted, or left out by a shrink); BUSY (another thread is
 * in it); WOULD_DEADLOCK; UNSUPPORTED. A rank that calls again after TIMEOUT or an abort takes part in the same
 * agreement; the flags of either call may count.
 */
TUTTI_API tutti_status tutti_group_agree(tutti_group *group, uint64_t *flags, int32_t *failed, int32_t capacity,
                                         int32_t *count, int64_t timeout_ms, tutti_error *error);

/**
 * Makes a new group of the remaining ranks, in their old order, with the same engine and settings. First revokes the
 * group, so that waiting calls end. Collective: all living ranks call, and all get the same members. A rank that dies
 * meanwhile is left out. A living rank that has not called after half of the time is left out, too, and gets REVOKED
 * when it calls. timeout_ms is the limit of the whole call: 0 = the group's deadline; -1 = none: then it waits for all
 * living ranks. The old group stays; destroy it. Memory of tutti_alloc stays valid until it is freed. Errors: TIMEOUT
 * (call again), REVOKED (left out; aborted), BUSY, WOULD_DEADLOCK, UNSUPPORTED; NO_MEMORY and others if a rank cannot
 * open the new group: then no rank has it, and all may call again.
 */
TUTTI_API tutti_status tutti_group_shrink(tutti_group *group, int64_t timeout_ms, tutti_group **survivors,
                                          tutti_error *error);

#define TUTTI_TOKEN_BYTES 64 /* of any token, with its NUL */

/**
 * Makes a token by which new ranks find this group: a secret rendezvous. Local: one rank makes it and passes it to the
 * other ranks and the new ones by a message, a file that only the user can read, or an inherited descriptor. A command
 * line is visible to all users. Valid for one tutti_group_grow. Errors: INVALID_ARGUMENT (capacity below
 * TUTTI_TOKEN_BYTES), UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_token(tutti_group *group, char *token, size_t capacity, tutti_error *error);

/**
 * Makes a larger group: the ranks of this one, with their numbers, and then `newcomers` new ranks, which call
 * tutti_group_join. Collective over the ranks of `group`, all with the same token and number. The new group is a world
 * of its own, with its own global ranks. The old group stays. timeout_ms as in shrink, for the new ranks, too. Errors:
 * INVALID_ARGUMENT; REVOKED (the group has failed: shrink first); TIMEOUT naming the missing ranks, PEER_DEAD,
 * PEER_LEFT: then no rank has a new group, and a new token allows another try; WOULD_DEADLOCK; UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_grow(tutti_group *group, const char *token, int32_t newcomers, int64_t timeout_ms,
                                        tutti_group **grown, tutti_error *error);

/**
 * Joins a group that grows, as one of its new ranks, numbered in the order of arrival. Engine, lanes and size are the
 * group's. Of `config` (NULL: defaults) only device, timeout_ms and settings may be set; timeout_ms is the limit of
 * this call, too. Errors: INVALID_ARGUMENT; TIMEOUT (no group grows by that token); RANK_TAKEN (all new ranks have
 * joined); else as tutti_group_grow.
 */
TUTTI_API tutti_status tutti_group_join(const char *token, const tutti_config *config, tutti_group **grown,
                                        tutti_error *error);

TUTTI_END_DECLS

#endif
