/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Numbers that cannot be. What a peer publishes is compared and never counted with, so nonsense spoils no more than the call;
 * but who takes it for a call of another kind, or waits for it until the deadline, sends people to look in the wrong place.
 *
 * A slot of the arrival ring holds every 32nd call. Its owner may write there again when all others have ended the call that it
 * held, so while this rank is in call c the slot of c holds c or an older one, and no slot one beyond c + 31. That is looked
 * at only when a call does not go well: by who finds a difference, and by who has waited for long.
 */
#include "engine/failure/peers.h"
#include "engine/wait/wait.h"

bool tti_arrival_is_possible(const struct tti_lane *lane, uint64_t held, uint64_t call)
{
    return held == 0 || (held % TTI_RING == call % TTI_RING && held < lane->call + TTI_RING);
}

bool tti_awaited_is_possible(const struct tti_lane *lane, const _Atomic uint64_t *word, uint64_t held, uint64_t target,
                             int publisher)
{
    static_assert(offsetof(struct tti_lane_control, ring) == 0, "the arrivals come first");
    const uintptr_t at = (uintptr_t)word - (uintptr_t)lane->controls[publisher];
    const bool is_arrival = at < TTI_RING * TTI_LINE;
    return !is_arrival || tti_arrival_is_possible(lane, held, target); /* a position that is too low may just be late */
}

tutti_status tti_fault_corrupt(struct tti_lane *lane, int peer, const char *what, uint64_t value)
{
    struct tti_engine *e = lane->engine;
    tti_error_set(
        lane->error, TUTTI_PEER_CORRUPT,
        "rank %d (process %u) has published what cannot be: %s is 0x%llx in call %llu of lane %d; something has "
        "written over its memory",
        peer, tti_peer_id(e, peer).pid, what, (unsigned long long)value, (unsigned long long)lane->call, lane->index);
    return tti_fault_raise_suspect(e, lane, peer, lane->error);
}
