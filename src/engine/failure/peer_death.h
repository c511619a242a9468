/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether a peer is dead: peer_death.c decides it, fault.c records it and fails the group. */
#ifndef TTI_ENGINE_FAILURE_PEER_DEATH_H
#define TTI_ENGINE_FAILURE_PEER_DEATH_H

#include "engine/lane.h"

/* Whether this process has recorded that the rank's process is dead. */
static inline bool tti_known_dead(const struct tti_engine *e, int rank)
{
    /* acquire: pairs with the release in tti_fault_death */
    return (atomic_load_explicit(&e->dead[rank / 64], memory_order_acquire) >> (rank % 64) & 1) != 0;
}

/* What the end of a process means for its rank. TTI_PEER_LEAVES: it leaves in good order, or has left. */
enum tti_peer_end { TTI_PEER_RUNS, TTI_PEER_LEAVES, TTI_PEER_DEAD };

/* `ended`: the caller has read that the rank's process has ended, before this call. */
enum tti_peer_end tti_peer_end(const struct tti_engine *e, int rank, bool ended);

/* Whether the kernel has marked this segment: the process that owns it has ended, one way or another. */
bool tti_segment_is_marked(const struct tti_segment_header *header);

/* Whether the kernel has marked the segment of a process that did not leave before: it is dead. */
bool tti_segment_is_marked_dead(const struct tti_segment_header *header);

/* The same for a rank of a group. */
bool tti_peer_is_marked_dead(const struct tti_engine *e, int rank);

/* Whether /proc says that the rank's process has ended, in good order or not. Takes some 50 us. */
bool tti_peer_process_has_ended(const struct tti_engine *e, int rank);

/* Whether the rank is dead: its process has ended, by /proc or by the kernel's mark, and did not leave before. */
bool tti_peer_is_dead(const struct tti_engine *e, int rank);

/* Whether the rank's process is stopped or has ended, and did not leave before: it cannot go on. */
bool tti_peer_is_stalled(const struct tti_engine *e, int rank);

#endif
