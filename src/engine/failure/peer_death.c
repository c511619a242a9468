/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Decides whether a peer is dead. There are two sources:
 *   1. The kernel's mark. When a thread ends, the kernel sets FUTEX_OWNER_DIED in each robust futex that it owns. The
 *      liveness monitor of each process owns one such word in each of the process's segments (liveness_monitor.c).
 *      Reading it is one load.
 *   2. /proc, some 50 us for each rank. It serves where the kernel takes no robust list, and shows core dumps.
 * A process that leaves in good order sets `left` or `leaving` in its segment before it ends. So both sources are read
 * first and those flags after: a process that has ended sets nothing any more. tti_peer_end: ended without a flag means
 * dead.
 */
#include "engine/failure/peer_death.h"

#include <linux/futex.h>

#include "engine/failure/peers.h"

bool tti_segment_is_marked(const struct tti_segment_header *header)
{
    /* acquire: what the process wrote before it ended is visible after, `left` above all */
    return (atomic_load_explicit(&header->life, memory_order_acquire) & FUTEX_OWNER_DIED) != 0;
}

bool tti_segment_is_marked_dead(const struct tti_segment_header *header)
{
    return tti_segment_is_marked(header) && !tti_segment_leaves(header);
}

enum tti_peer_end tti_peer_end(const struct tti_engine *e, int rank, bool ended)
{
    return !ended ? TTI_PEER_RUNS : tti_leaves(e, rank) ? TTI_PEER_LEAVES : TTI_PEER_DEAD;
}

bool tti_peer_is_marked_dead(const struct tti_engine *e, int rank)
{
    return tti_peer_end(e, rank, tti_segment_is_marked(tti_home(e, rank))) == TTI_PEER_DEAD;
}

bool tti_peer_process_has_ended(const struct tti_engine *e, int rank)
{
    const struct tti_proc_id id = tti_peer_id(e, rank);
    return tti_proc_has_ended(tti_proc_query(&id).state);
}

bool tti_peer_is_dead(const struct tti_engine *e, int rank)
{
    const bool ended = tti_segment_is_marked(tti_home(e, rank)) || tti_peer_process_has_ended(e, rank);
    return tti_peer_end(e, rank, ended) == TTI_PEER_DEAD;
}

bool tti_peer_is_stalled(const struct tti_engine *e, int rank)
{
    const struct tti_proc_id id = tti_peer_id(e, rank);
    return tti_proc_query(&id).state >= TTI_PROC_STOPPED && !tti_leaves(e, rank);
}
