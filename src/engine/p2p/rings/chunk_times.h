/* SPDX-License-Identifier: BSD-3-Clause */
/* How far away peers are, and what a byte of their chunks costs. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_RINGS_CHUNK_TIMES_H
#define TTI_ENGINE_P2P_RINGS_CHUNK_TIMES_H

#include "engine/p2p/types.h"

/* Before the chunk of the next record is read: measures from time to time how far away the peer is (tti_peer.far). */
void tti_p2p_sample_distance(struct tti_engine *e, int peer, const unsigned char *chunk, size_t bytes);

/* Whether the chunk of record `number` goes past the caches into the ring towards the peer. */
bool tti_p2p_streams_chunk(const struct tti_engine *e, int peer, uint64_t number, size_t bytes);

/* Around the copy of a later chunk of a message / of any chunk into the own ring. Begin returns 0: this one is not
 * measured, and has no end. */
uint64_t tti_p2p_read_begin(struct tti_engine *e, int peer, size_t bytes);
void tti_p2p_read_end(struct tti_engine *e, int peer, uint64_t begun, size_t bytes);
uint64_t tti_p2p_write_begin(struct tti_engine *e, int peer, size_t bytes);
void tti_p2p_write_end(struct tti_engine *e, int peer, uint64_t begun, size_t bytes);

#endif
