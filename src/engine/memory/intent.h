/* SPDX-License-Identifier: BSD-3-Clause */
/* Touching another rank's tensor, chunk by chunk: intent.c. */
#ifndef TTI_ENGINE_MEMORY_INTENT_H
#define TTI_ENGINE_MEMORY_INTENT_H

#include "engine/failure/peer_death.h"
#include "engine/lane.h"

#define TTI_INTENT_BYTES   65536u   /* of a chunk, at most */
#define TTI_INTENT_WAIT_NS 20000000 /* how long a rank that aborts waits for the end of another process's chunk */

/* Whether waiting for the end of a rank's chunk until `until_ns` is useless. A thread always ends its chunk. */
static inline bool tti_chunk_is_lost(const struct tti_engine *e, int rank, int64_t until_ns)
{
    return !e->direct && (tti_known_dead(e, rank) || tti_now_ns() >= until_ns);
}

/* Around each chunk. Not OK: the group has failed. Then a beginning has no end, and what was read before an end does
 * not count. */
tutti_status tti_intent_begin(struct tti_lane *lane);
tutti_status tti_intent_end(struct tti_lane *lane);
/* Ends a chunk that failed: the caller reports why. */
void tti_intent_drop(struct tti_lane *lane);

/* Before a call returns an error, after the alarm was raised. When it returns, no peer touches this rank's tensors. */
void tti_await_intents(struct tti_lane *lane);

#endif
