/* SPDX-License-Identifier: BSD-3-Clause */
/**
 * tutti/recovery.h - going on without ranks that are lost, and with new ones.
 *
 *     while ((st = step(g)) != TUTTI_OK) {              // PEER_DEAD here, REVOKED on the others
 *         tutti_group *rest;
 *         if (tutti_group_shrink(g, 10000, &rest, &e) != TUTTI_OK) { puts(e.message); return 1; }
 *         tutti_group_destroy(g, NULL);
 *         g = rest;                                     // the survivors, in their order; restore the last agreed state
 *     }
 *
 * A group that has failed stays failed: whatever would need the others returns REVOKED with the reason, at once. What is
 * declared here works on it all the same, and so do tutti_group_error, tutti_group_destroy, and what only reads. Which engine
 * can do it: TUTTI_CAP_RECOVER and TUTTI_CAP_GROW of tutti_group_capabilities; the others answer UNSUPPORTED, at once.
 * docs/reliability.md says for each function what is promised, how it works, its limits, and its test.
 */
#ifndef TUTTI_RECOVERY_H
#define TUTTI_RECOVERY_H

#include <tutti/group.h>

TUTTI_BEGIN_DECLS

/**
 * Ends whatever waits in the group on this rank, in any thread, with REVOKED: operations, messages, agree and shrink. The
 * group fails, on the other ranks, too, if its engine has TUTTI_CAP_RECOVER, as after tutti_group_revoke. Afterwards agree and
 * shrink may be called again, and tutti_group_destroy waits until the calls under way have come back, as long as the
 * group's deadline, instead of returning BUSY. From any thread, callbacks included; waits for nobody; again: nothing new.
 * Errors: UNSUPPORTED (the engine cannot end what waits in it); BAD_STATE, FORKED as everywhere.
 */
TUTTI_API tutti_status tutti_group_abort(tutti_group *group, tutti_error *error);

/**
 * Fails the group on all ranks: operations that wait return REVOKED everywhere, and so do those that come later. For a rank
 * that will not go on with the others, because of PEER_DEAD in one call or for reasons of its own: whoever waits for it hears
 * that at once. Calls that have all they need end OK. Sticky; from any thread; waits for nobody; again: nothing new.
 * Does not end agree or shrink. Errors: UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_revoke(tutti_group *group, tutti_error *error);

/**
 * The ranks that have died, or have left in good order, as far as this rank knows now: the first `capacity` of them into
 * `ranks`, ascending; *count gets how many there are. Asks nobody, so ranks may get different answers: tutti_group_agree
 * gives all the same one. `ranks` may be NULL if capacity is 0. Errors: INVALID_ARGUMENT, UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_failed(tutti_group *group, int32_t *ranks, int32_t capacity, int32_t *count,
                                          tutti_error *error);

/**
 * Agrees among all ranks that are alive, though any of them may die on the way. In *flags each gives 64 bits, and all
 * get the same 64 back: the bitwise AND of what all have given who are not among the failed ones, perhaps of some of these
 * as well. The failed ranks (as in tutti_group_failed) are the same list on all. Collective: all that are alive call. timeout_ms:
 * 0 = the group's deadline, -1 = none. Errors: TIMEOUT naming who has not come; REVOKED (aborted meanwhile, or left out by a
 * shrink); BUSY (another thread is in it); WOULD_DEADLOCK; UNSUPPORTED. Who calls again after a TIMEOUT or an abort takes part in
 * the same agreement, for which the flags of either call may have counted.
 */
TUTTI_API tutti_status tutti_group_agree(tutti_group *group, uint64_t *flags, int32_t *failed, int32_t capacity,
                                         int32_t *count, int64_t timeout_ms, tutti_error *error);

/**
 * Makes a new group of the ranks that are left, in their old order, with the same engine and settings. Revokes the group first,
 * so that whoever still waits in it hears of it. Collective: all that are alive call; the members are the same on all of them.
 * A rank that dies meanwhile is left out. So is, after half of the time, one that is alive and has not come: it gets REVOKED
 * when it does. timeout_ms bounds the whole: 0 = the group's deadline, -1 = none: then all that are alive are waited for.
 * The old group stays as it is and is still to be destroyed; memory of tutti_alloc stays good until it is freed.
 * Errors: TIMEOUT (may be called again), REVOKED (left out; aborted), BUSY, WOULD_DEADLOCK, UNSUPPORTED; NO_MEMORY and others if a
 * rank cannot open the new group: then no rank has it, and all may call again.
 */
TUTTI_API tutti_status tutti_group_shrink(tutti_group *group, int64_t timeout_ms, tutti_group **survivors,
                                          tutti_error *error);

#define TUTTI_TOKEN_BYTES 64 /* room for any token, its NUL included */

/**
 * Makes a token, by which new ranks find this group: a rendezvous that nobody can guess. Local: one rank makes it and hands it to
 * the others and to the newcomers (a message, a file that only the user can read, an inherited descriptor; not a command line, which
 * everybody can see). Good for one tutti_group_grow. Errors: INVALID_ARGUMENT (capacity below TUTTI_TOKEN_BYTES), UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_token(tutti_group *group, char *token, size_t capacity, tutti_error *error);

/**
 * Makes a larger group: the ranks of this one, with the numbers that they have, and `newcomers` new ones behind them, who call
 * tutti_group_join. Collective over the ranks of `group`, all with the same token and number. A world of its own: global ranks
 * are counted anew. The old group stays as it is. timeout_ms as in shrink, the newcomers' time included.
 * Errors: INVALID_ARGUMENT; REVOKED (the group has failed: shrink first); TIMEOUT naming who is missing, PEER_DEAD, PEER_LEFT:
 * then there is no new group, on no rank, and it can be tried again with a new token; WOULD_DEADLOCK; UNSUPPORTED.
 */
TUTTI_API tutti_status tutti_group_grow(tutti_group *group, const char *token, int32_t newcomers, int64_t timeout_ms,
                                        tutti_group **grown, tutti_error *error);

/**
 * Joins a group that grows, as one of its newcomers; which of them decides who comes first. Engine, lanes and size come from the
 * group; of `config` (NULL: defaults) only device, timeout_ms and settings may be set, the timeout being that of the joining, too.
 * Errors: INVALID_ARGUMENT; TIMEOUT (nobody grows by that token); RANK_TAKEN (all have come already); else as tutti_group_grow.
 */
TUTTI_API tutti_status tutti_group_join(const char *token, const tutti_config *config, tutti_group **grown,
                                        tutti_error *error);

TUTTI_END_DECLS

#endif
