/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching messages with receives. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_MATCH_H
#define TTI_ENGINE_P2P_MATCH_H

#include "engine/p2p/types.h"

/* Removes and returns the first posted receive that takes this message; NULL if there is none. Receives that it does
 * not fit fail on the way. */
struct tti_request *tti_p2p_match_posted(struct tti_engine *e, int peer, const struct tti_incoming *m);
/* Gives a new receive a message that has arrived, or appends it to the posted ones. */
void tti_p2p_post_recv(struct tti_engine *e, struct tti_request *r);
/* Discards the message of which this receive has a part (tti_incoming.begun), if there is one. */
void tti_p2p_drop_begun(struct tti_engine *e, const tutti_op *op);
/* Ends a message that has arrived completely, if a receive has taken it. */
void tti_p2p_finish_incoming(struct tti_engine *e, int peer, struct tti_incoming *m);
/* Takes an unfinished request out of everything that points to it, and ends it. */
void tti_p2p_withdraw(struct tti_engine *e, struct tti_request *request, tutti_status status);
/* Describes a message of the peer for the application. */
void tti_p2p_fill(const struct tti_incoming *m, int peer, tutti_message *message);

#endif
