/* SPDX-License-Identifier: BSD-3-Clause */
/* Writing to the rings for a peer. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_RINGS_SEND_H
#define TTI_ENGINE_P2P_RINGS_SEND_H

#include "engine/p2p/types.h"

void tti_p2p_post_send(struct tti_engine *e, struct tti_request *r);
/* Writes what fits the rings. After a bounded part: true. If the peer has published an impossible number, its field
 * `impossible` names it. */
bool tti_p2p_push(struct tti_engine *e, int peer);
/* Whether the peer has published something that lets more be written. */
bool tti_p2p_can_push(const struct tti_engine *e, int peer);
/* Sends a message of at most `most` bytes (TTI_DIRECT) without a request, if no other one waits. False: nothing was
 * done. */
bool tti_p2p_try_send(struct tti_engine *e, tutti_op *op, uint64_t most);

#endif
