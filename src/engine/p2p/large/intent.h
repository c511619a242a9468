/* SPDX-License-Identifier: BSD-3-Clause */
/* Access to a tensor of another rank, for one chunk at a time. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_LARGE_INTENT_H
#define TTI_ENGINE_P2P_LARGE_INTENT_H

#include "engine/p2p/types.h"

/* Before each chunk of the peer's memory is touched. False: the peer may have returned from its call, or soon will. */
bool tti_p2p_intent_begin(struct tti_engine *e, int peer);
/* After it. False: the bytes read since the beginning may not be those of the message. */
bool tti_p2p_intent_end(struct tti_engine *e);
/* Returns when the peer does not touch memory that this rank offered, or granted for writing: then `written`, which is
 * orphaned if the peer does not react; else NULL. */
void tti_p2p_reclaim(struct tti_engine *e, int peer, void *written, uint64_t bytes);

#endif
