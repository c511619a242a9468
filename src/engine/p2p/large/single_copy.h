/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that the kernel copies once between two processes. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_SINGLE_COPY_H
#define TTI_ENGINE_P2P_SINGLE_COPY_H

#include "engine/p2p/types.h"

/* The name by which a private tensor is offered, if the kernel may copy it and that pays; else 0. */
uint64_t tti_p2p_single_copy_name(struct tti_engine *e, int peer, const void *memory, uint64_t bytes);
/* Whether a peer may offer so many bytes by this name. */
bool tti_p2p_may_single_copy(const struct tti_engine *e, uint64_t name, uint64_t bytes);
/* Whether this rank refuses an offer that it has matched, so that the sender sends the message. */
bool tti_p2p_refuses_offer(struct tti_engine *e, int peer, const struct tti_incoming *m);
/* As tti_p2p_fetch_zero_copy; UNSUPPORTED: the kernel does not let this rank read the memory. */
tutti_status tti_p2p_fetch_single_copy(struct tti_engine *e, int peer, struct tti_incoming *m);
/* Around the copy of a chunk of TTI_TIMED_FROM bytes and more, out of the peer's ring / into the own one. 0: this copy
 * is not measured, and has no end. */
#define TTI_TIMED_FROM 8192u
uint64_t tti_p2p_read_begin(struct tti_engine *e, int peer, const unsigned char *chunk, size_t bytes);
void tti_p2p_read_end(struct tti_engine *e, int peer, uint64_t begun, size_t bytes);
uint64_t tti_p2p_write_begin(struct tti_engine *e, int peer);
void tti_p2p_write_end(struct tti_engine *e, int peer, uint64_t begun, size_t bytes);

#endif
