/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that are copied once, from tensor to tensor. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_LARGE_ZERO_COPY_H
#define TTI_ENGINE_P2P_LARGE_ZERO_COPY_H

#include "engine/p2p/rings/rings.h"

/* The name of this rank's memory, if peers can reach it and that pays; else 0. */
uint64_t tti_p2p_name(const struct tti_engine *e, const void *memory, uint64_t bytes);
/* Whether a name that a peer offers means so many bytes of that peer. */
bool tti_p2p_may_zero_copy(const struct tti_engine *e, int peer, uint64_t name, uint64_t bytes);
/* Copies the next chunk of an offered message into its receive: OK. BUSY: its owner may return soon, and the waiting
 * thread reports why. PEER_CORRUPT: the memory does not exist any more. */
tutti_status tti_p2p_fetch_zero_copy(struct tti_engine *e, int peer, struct tti_incoming *m);
/* Notifies the peer that its message has been copied. */
void tti_p2p_acknowledge(struct tti_engine *e, int peer, uint64_t number);
/* The next message that the peer has copied; 0 if there is none. */
uint64_t tti_p2p_fetched_now(const struct tti_engine *e, int peer);
/* Writes the next chunk of a granted message into the peer's tensor. False if that is not possible now. */
bool tti_p2p_write(struct tti_engine *e, int peer, struct tti_request *r);

/* The word that the peer's next acknowledgement changes. */
static inline _Atomic uint64_t *tti_p2p_fetched_word(const struct tti_engine *e, int peer)
{
    return &tti_pair(e, peer, e->rank)->fetched[e->p2p->peers[peer].fetches % TTI_OFFERS];
}

#endif
