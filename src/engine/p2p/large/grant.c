/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rendezvous: the receiver grants the rest of a large message when it has matched it, and names its tensor if the
 * sender can write there. One message of a peer is granted at a time, and one offered message is copied at a time.
 */
#include "engine/p2p/large/grant.h"

#include "engine/p2p/large/single_copy.h"
#include "engine/p2p/large/zero_copy.h"
#include "engine/p2p/rings/rings.h"
#include "engine/wait/publish.h"

void tti_p2p_grant(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_incoming *m = p->transfer && p->fetching ? NULL : p->messages;
    struct tti_incoming *granted = NULL;
    for (; m && !(p->fetching && (granted || p->transfer)); m = m->next) {
        if (m->request && m->name != 0 && !p->fetching && tti_p2p_refuses_offer(e, peer, m)) {
            m->name = 0; /* not read from here on: the sender may return when it has sent it */
            m->arrived = 0;
        }
        if (m->request && m->name != 0) {
            p->fetching = p->fetching ? p->fetching : m;
        } else if (m->request && m->bytes > TTI_EAGER && !p->transfer) {
            granted = granted ? granted : m;
        }
    }
    if (!granted) {
        return;
    }
    struct tti_pair_control *own = tti_pair(e, e->rank, peer);
    p->transfer = granted;
    uint64_t name = tti_p2p_name(e, granted->request->op->dst, granted->bytes);
    granted->writes_direct = name != 0;
    /* relaxed: the grant comes after, with release; the peer reads it while that message is the granted one */
    atomic_store_explicit(&own->target, name, memory_order_relaxed);
    /* release: pairs with the acquire in find_granted of the peer */
    atomic_store_explicit(&own->granted, granted->number, memory_order_release);
    /* a sender that sleeps waits for this word */
    tti_publish(e, e->layout.lanes, &own->activity, atomic_load_explicit(&own->activity, memory_order_relaxed) + 1);
}
