/* SPDX-License-Identifier: BSD-3-Clause */
/* The lists of requests and of messages. The caller holds the lock. */
#ifndef TTI_ENGINE_P2P_REQUESTS_H
#define TTI_ENGINE_P2P_REQUESTS_H

#include "engine/memory/single_copy.h"
#include "engine/p2p/types.h"

void tti_p2p_add_send(struct tti_engine *e, struct tti_request *r);
/* Takes an unfinished send out of everything that points to it. */
void tti_p2p_remove_send(struct tti_engine *e, struct tti_request *r);
/* The send is no longer offered. */
void tti_p2p_withdraw_offer(const struct tti_engine *e, struct tti_request *r);

void tti_p2p_add_recv(struct tti_p2p *p2p, struct tti_request *r);
void tti_p2p_remove_recv(struct tti_p2p *p2p, const struct tti_request *r);
/* One receive more / less depends on this peer, or on any. */
void tti_p2p_count_recv(struct tti_engine *e, int peer);
void tti_p2p_uncount_recv(struct tti_engine *e, int peer);

void tti_p2p_add_incoming(struct tti_peer *p, struct tti_incoming *m);
/* Frees the message, too. */
void tti_p2p_remove_incoming(struct tti_peer *p, struct tti_incoming *m);
/* The oldest unmatched message for (source, tag); NULL if there is none. *peer gets its sender. */
struct tti_incoming *tti_p2p_find(struct tti_engine *e, int32_t source, int32_t tag, int *peer);

/* Ends a request that is in no list. Its owner may free it at once. */
void tti_p2p_finish(struct tti_engine *e, struct tti_request *r, tutti_status status);
/* The same without counting it as completed or as one receive less. */
void tti_p2p_become_done(struct tti_request *r, tutti_status status);

/* With threads a name is an address of this process. */
static inline bool tti_p2p_is_single_copy(const struct tti_engine *e, uint64_t name)
{
    return !e->direct && (name & TTI_SINGLE_COPY_NAME) != 0;
}

/* Some open sends wait for a grant: those not offered, and offers that the peer may refuse. */
static inline bool tti_p2p_has_grantable(const struct tti_peer *p)
{
    return p->open_sends + p->remote_offers > p->offers;
}

#endif
