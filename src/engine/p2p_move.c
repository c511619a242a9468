/* SPDX-License-Identifier: BSD-3-Clause */
/* Moving messages: posting envelopes while the ring has room, streaming granted transfers chunk by chunk, pulling them.
 * One round visits every peer once; whoever waits for a message runs rounds until its own requests have ended. */
#include "engine/p2p.h"

static bool post_envelopes(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_pair_control *own = tti_pair(e, e->rank, peer);
    bool moved = false;
    /* acquire: pairs with the peer's release of `taken`; it has copied the envelopes, so their slots are free */
    uint64_t taken = atomic_load_explicit(&tti_pair(e, peer, e->rank)->taken, memory_order_acquire);
    for (struct tti_request *r = p->sends; r; r = r->next) {
        if (r->posted || atomic_load_explicit(&r->done, memory_order_relaxed)) {
            continue;
        }
        if (p->posted - taken >= TTI_ENVELOPES) {
            break;
        }
        if (!p->committed && e->commit) {
            size_t offset = e->layout.rings + (size_t)peer * e->layout.ring_stride;
            tutti_status status = e->commit(e->commit_user, offset, e->layout.ring_stride);
            if (status != TUTTI_OK) { /* this send fails, and nobody else's */
                tti_p2p_finish(e->p2p, r, status);
                moved = true;
                continue;
            }
        }
        p->committed = true;
        const tutti_op *op = r->op;
        struct tti_envelope *v = tti_envelope(e, e->rank, peer, p->posted);
        size_t shape_bytes = (size_t)op->ndim * sizeof(int64_t);
        r->number = p->posted + 1;
        v->number = r->number;
        v->bytes = r->bytes;
        v->tag = op->p2p_tag;
        v->dtype = (int16_t)op->dtype;
        v->ndim = (int8_t)op->ndim;
        v->eager = r->bytes <= sizeof(v->body) - shape_bytes;
        tti_copy(v->body, op->shape, shape_bytes);
        tti_copy(v->body + shape_bytes, op->src, v->eager ? r->bytes : 0);
        r->posted = true;
        p->posted++;
        /* release: pairs with the peer's acquire in tti_p2p_drain */
        atomic_store_explicit(&own->posted, p->posted, memory_order_release);
        if (v->eager) {
            tti_p2p_finish(e->p2p, r, TUTTI_OK);
        }
        moved = true;
    }
    return moved;
}

static bool stream(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_pair_control *own = tti_pair(e, e->rank, peer);
    const struct tti_pair_control *theirs = tti_pair(e, peer, e->rank);
    bool moved = false;
    if (!p->streaming) {
        /* acquire: pairs with the peer's release of `granted` */
        uint64_t granted = atomic_load_explicit(&theirs->granted, memory_order_acquire);
        if (granted == p->grants_seen) {
            return false;
        }
        uint64_t id = atomic_load_explicit(&theirs->grant_id, memory_order_relaxed);
        p->grants_seen = granted;
        for (struct tti_request *r = p->sends; r; r = r->next) {
            if (r->posted && r->number == id) {
                p->streaming = r;
            }
        }
        if (!p->streaming) {
            return false; /* not ours: a corrupt or repeated grant moves nothing */
        }
        moved = true;
    }
    struct tti_request *r = p->streaming;
    /* acquire: pairs with the peer's release of `pulled`; those chunks may be written again */
    uint64_t pulled = atomic_load_explicit(&theirs->pulled, memory_order_acquire);
    while (r->moved < r->bytes && p->sent - pulled < TTI_CHUNKS) {
        size_t n = r->bytes - r->moved < TTI_CHUNK ? r->bytes - r->moved : TTI_CHUNK;
        tti_copy(tti_chunk(e, e->rank, peer, p->sent), (const unsigned char *)r->op->src + r->moved, n);
        r->moved += n;
        p->sent++;
        /* release: pairs with the peer's acquire in pull() */
        atomic_store_explicit(&own->sent, p->sent, memory_order_release);
        moved = true;
    }
    if (r->moved == r->bytes) {
        p->streaming = NULL;
        tti_p2p_finish(e->p2p, r, TUTTI_OK);
    }
    return moved;
}

static bool pull(struct tti_engine *e, int peer)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    if (!p->transfer || !p->transfer->request) {
        return false;
    }
    struct tti_request *r = p->transfer->request;
    struct tti_pair_control *own = tti_pair(e, e->rank, peer);
    bool moved = false;
    /* acquire: pairs with the sender's release of `sent` */
    uint64_t sent = atomic_load_explicit(&tti_pair(e, peer, e->rank)->sent, memory_order_acquire);
    while (p->pulled < sent && r->moved < r->bytes) {
        size_t n = r->bytes - r->moved < TTI_CHUNK ? r->bytes - r->moved : TTI_CHUNK;
        tti_copy((unsigned char *)r->op->dst + r->moved, tti_chunk(e, peer, e->rank, p->pulled), n);
        r->moved += n;
        p->pulled++;
        /* release: pairs with the sender's acquire in stream() */
        atomic_store_explicit(&own->pulled, p->pulled, memory_order_release);
        moved = true;
    }
    if (r->moved == r->bytes) {
        struct tti_incoming *ended = p->transfer;
        p->transfer = NULL;
        tti_p2p_forget(p, ended);
        tti_p2p_finish(e->p2p, r, TUTTI_OK);
        moved = true;
    }
    return moved;
}

static void drop_ended_sends(struct tti_peer *p)
{
    struct tti_request **link = &p->sends;
    p->sends_tail = NULL;
    while (*link) {
        if (atomic_load_explicit(&(*link)->done, memory_order_relaxed)) {
            *link = (*link)->next;
        } else {
            p->sends_tail = *link;
            link = &(*link)->next;
        }
    }
}

bool tti_p2p_progress(struct tti_engine *e, tutti_error *error, tutti_status *status)
{
    struct tti_p2p *p2p = e->p2p;
    bool moved = false;
    for (int peer = 0; peer < e->size && *status == TUTTI_OK; peer++) {
        if (peer == e->rank) {
            continue;
        }
        struct tti_peer *p = &p2p->peers[peer];
        struct tti_pair_control *own = tti_pair(e, e->rank, peer);
        uint64_t taken = p->taken;
        *status = tti_p2p_drain(e, peer, error);
        if (p->taken != taken) {
            /* release: pairs with the acquire in post_envelopes of the sender */
            atomic_store_explicit(&own->taken, p->taken, memory_order_release);
        }
        bool mine = p->taken != taken;
        mine = post_envelopes(e, peer) || mine;
        mine = stream(e, peer) || mine;
        mine = pull(e, peer) || mine;
        if (mine) {
            drop_ended_sends(p);
            tti_publish(e, e->layout.lanes, &own->activity,
                        atomic_load_explicit(&own->activity, memory_order_relaxed) + 1);
            moved = true;
        }
    }
    return moved;
}
