/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that the kernel copies once between two processes. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_LARGE_SINGLE_COPY_H
#define TTI_ENGINE_P2P_LARGE_SINGLE_COPY_H

#include "engine/p2p/types.h"

/* The name by which a private tensor is offered, if the kernel may copy it and that pays; else 0. */
uint64_t tti_p2p_single_copy_name(struct tti_engine *e, int peer, const void *memory, uint64_t bytes);
/* Whether a peer may offer so many bytes by this name. */
bool tti_p2p_may_single_copy(const struct tti_engine *e, uint64_t name, uint64_t bytes);
/* Whether this rank refuses an offer that it has matched, so that the sender sends the message. */
bool tti_p2p_refuses_offer(struct tti_engine *e, int peer, const struct tti_incoming *m);
/* As tti_p2p_fetch_zero_copy; UNSUPPORTED: the kernel does not let this rank read the memory. */
tutti_status tti_p2p_fetch_single_copy(struct tti_engine *e, int peer, struct tti_incoming *m);
/* Whether messages take the cheaper one of the ring and the kernel's copy, so that both have to be measured. */
bool tti_p2p_compares_costs(const struct tti_engine *e);
/* Publishes for the peer whether this rank is far from it, and the costs then, if they have changed. */
void tti_p2p_publish_costs(struct tti_engine *e, int peer);
/* Whether the peer has published that it is far from this rank. */
bool tti_p2p_is_far_from(const struct tti_engine *e, int peer);

#endif
