/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A waiting thread polls one word of each peer without the lock: the next slot of a peer that it receives from, the
 * activity or the next acknowledgement of a peer that it sends to. Their values are read under the lock, after a round
 * of progress, so that no change is missed.
 */
#include "engine/p2p/monitor.h"

#include "engine/p2p/large/zero_copy.h"
#include "engine/p2p/requests.h"
#include "engine/p2p/rings/rings.h"
#include "engine/p2p/rings/send.h"

void tti_p2p_wait_monitor_init(struct tti_p2p_wait_monitor *v, struct tti_engine *e, struct tti_posting *p)
{
    v->e = e;
    v->p = p;
    v->fresh = false;
    v->ready = false;
    v->count = 0;
    v->spins = true;
    v->spins_in_vain = 0;
    v->yield_count = 0;
    v->yields = (struct tti_yields){.now_ns = 0};
    v->yield_until = 0;
    v->spun = false;
}

/* Adds the words by which the peer lets requests of this rank go on. */
static void watch_peer(struct tti_p2p_wait_monitor *v, int peer)
{
    struct tti_engine *e = v->e;
    const struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_pair_control *theirs = tti_pair(e, peer, e->rank);
    struct tti_awaited on[3];
    uint64_t seen[3];
    int count = 0;
    bool receiving = p->open_recvs > 0 || e->p2p->open_any > 0;
    if (p->offers > 0) {
        _Atomic uint64_t *word = tti_p2p_fetched_word(e, peer);
        seen[count] = p->fetched[p->fetches % TTI_OFFERS];
        on[count++] = (struct tti_awaited){.word = word, .publisher = peer};
    }
    if (tti_p2p_has_grantable(p) || (receiving && !p->opened)) {
        /* acquire: pairs with tti_publish of the peer. Read before the words it announces: if they change later, so
         * does it */
        seen[count] = atomic_load_explicit(&theirs->activity, memory_order_acquire);
        on[count++] = (struct tti_awaited){.word = &theirs->activity, .publisher = peer};
        v->ready = v->ready || tti_p2p_can_push(e, peer) ||
                   (receiving && !p->opened && atomic_load_explicit(&theirs->opened, memory_order_acquire) != 0);
    }
    if (receiving && p->opened) {
        _Atomic uint64_t *word = &tti_slot(e, peer, e->rank, p->read + 1)->number;
        seen[count] = atomic_load_explicit(word, memory_order_acquire);
        v->ready = v->ready || seen[count] == p->read + 1;
        on[count++] = (struct tti_awaited){.word = word, .publisher = peer};
    }
    for (int i = 0; i < count && v->count < TTI_MAX_RANKS; i++) { /* further words are read when a sleep ends */
        v->awaited[v->count] = on[i];
        v->seen[v->count++] = seen[i];
    }
}

/* The peers on which unfinished requests depend: those of the posting or, without a posting, all requests. */
void tti_p2p_watch_peers(struct tti_p2p_wait_monitor *v)
{
    struct tti_engine *e = v->e;
    uint64_t wanted[TTI_MAX_RANKS / 64] = {0};
    size_t words = (size_t)(e->size + 63) / 64;
    bool all = !v->p && e->p2p->open_any > 0;
    for (size_t i = 0; !v->p && i < words; i++) {
        wanted[i] = e->p2p->active[i];
    }
    for (size_t i = 0; v->p && i < v->p->count; i++) {
        const struct tti_request *r = &v->p->requests[i];
        int peer = tti_p2p_is_done(r) ? e->rank : tti_p2p_peer_of(r);
        all = all || peer == TUTTI_ANY_SOURCE;
        wanted[all ? 0 : peer / 64] |= UINT64_C(1) << (all ? 0 : peer % 64);
    }
    v->count = 0;
    for (int peer = 0; peer < e->size; peer++) {
        if (!all && peer % 64 == 0 && wanted[peer / 64] == 0) {
            peer += 63;
        } else if (peer != e->rank && (all || wanted[peer / 64] >> (peer % 64) & 1)) {
            watch_peer(v, peer);
        }
    }
}

bool tti_p2p_peer_has_moved(const struct tti_p2p_wait_monitor *v)
{
    if (v->ready) {
        return true;
    }
    for (int i = 0; i < v->count; i++) {
        /* acquire: pairs with the release in tti_publish */
        if (atomic_load_explicit(v->awaited[i].word, memory_order_acquire) != v->seen[i]) {
            return true;
        }
    }
    return false;
}

bool tti_p2p_has_event(const struct tti_p2p_wait_monitor *v)
{
    return tti_p2p_peer_has_moved(v) ||
           atomic_load_explicit(&v->e->p2p->completed, memory_order_acquire) != v->completed_seen;
}
