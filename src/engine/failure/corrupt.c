/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Impossible values. This rank compares what a peer publishes and never computes with it, so a wrong value spoils no
 * more than the call. But a rank that took it for another call, or waited for it until its deadline, would report a
 * wrong cause.
 *
 * A slot of the arrival ring holds every 32nd call. Its owner may overwrite it when all others have ended the call that
 * it holds. So while this rank is in call c, the slot of c holds c or an older call, and no slot holds a call beyond c
 * + 31. Two ranks check that: one that finds a difference between arrivals, and one that has waited for long.
 */
#include "engine/failure/corrupt.h"

#include "engine/failure/fault.h"
#include "engine/failure/peers.h"

bool tti_arrival_is_possible(const struct tti_lane *lane, uint64_t held, uint64_t call)
{
    return held == 0 || (held % TTI_RING == call % TTI_RING && held < lane->call + TTI_RING);
}

tutti_status tti_fault_corrupt(struct tti_lane *lane, int peer, const char *what, uint64_t value)
{
    struct tti_engine *e = lane->engine;
    tti_error_set(
        lane->error, TUTTI_PEER_CORRUPT,
        "rank %d (process %u) has published an impossible value: %s is 0x%llx in call %llu of lane %d; something has "
        "overwritten its memory",
        peer, tti_peer_id(e, peer).pid, what, (unsigned long long)value, (unsigned long long)lane->call, lane->index);
    return tti_fault_raise_suspect(e, lane, peer, lane->error);
}

tutti_status tti_fault_check_awaited(struct tti_lane *lane, const _Atomic uint64_t *word, uint64_t held,
                                     uint64_t target, int publisher)
{
    static_assert(offsetof(struct tti_lane_control, ring) == 0, "the arrivals come first");
    const uintptr_t at = (uintptr_t)word - (uintptr_t)lane->controls[publisher];
    const bool is_arrival = at < TTI_RING * TTI_LINE;
    if (!is_arrival || tti_arrival_is_possible(lane, held, target)) { /* a position that is too low may just be late */
        return TUTTI_OK;
    }
    return tti_fault_corrupt(lane, publisher, "the number of its call", held);
}
