/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading the rings of a peer. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_RINGS_RECV_H
#define TTI_ENGINE_P2P_RINGS_RECV_H

#include "engine/p2p/types.h"

/* Reads records of the peer while an open receive may need them, or (`drain`) all. After a bounded part: true. A
 * failure is PEER_CORRUPT, with the peer as the suspect, or NO_MEMORY, with this rank. */
bool tti_p2p_pull(struct tti_engine *e, int peer, bool drain, tutti_error *error, tutti_status *status);
/* Receives the next message of a named peer without a request, if it has at most `most` bytes (TTI_DIRECT) or is one
 * chunk, fits this receive, and no other receive is posted. False: nothing was done; or the message has begun
 * (tti_incoming.begun), and the caller posts this receive. */
bool tti_p2p_try_recv(struct tti_engine *e, const tutti_op *op, uint64_t most);

#endif
