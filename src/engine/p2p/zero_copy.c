/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are copied once. Ranks that are threads reach each other's tensors, processes those in the heap.
 *
 *   - If the sender's tensor can be reached, its first record offers it: it brings the name of the tensor instead of data.
 *     The receiver copies from there into its own tensor as soon as it has matched the message, and acknowledges.
 *   - If only the receiver's can, its grant tells where: the sender writes the rest of the message there, and says so.
 *   - If neither can, it is offered all the same if letting the kernel copy it pays: p2p_single_copy.c.
 *
 * Cost: 2n bytes, all on one side, and two hops whatever the size; in the second case the part of a message that is sent
 * without being asked for is copied twice.
 *
 * Acknowledgements stand in a short ring of the receiver's control. A rank has no more offers open to a peer than it
 * holds: further messages go through the rings of bytes meanwhile, so that nothing waits behind an offer that nobody takes.
 *
 * Nobody may touch memory whose owner has returned: as in intent.c, with one intent for each rank, which says whose memory
 * it is touching. Who touches stores its intent, then reads the alarm; who gives up a message that may be touched rings the
 * alarm, then waits until no intent names it. A process may have been stopped in the middle of a chunk. After a while its
 * owner goes on: what the other still writes goes to pages that nobody owns, and what it has read does not count, for it
 * reads the alarm once more after each chunk.
 */
#include <sched.h>

#include "engine/p2p/p2p.h"

#define ZERO_COPY_CHUNK 65536u /* bytes for one intent */
#define UNASKED_NEAR    8192u  /* see sent_unasked; measured with two threads, and two processes, that share a cache */

/* An offer takes a hop more than a message that is sent unasked, and a change of ranks where these share a CPU. */
static uint64_t sent_unasked(const struct tti_engine *e)
{
    return e->ranks_per_cpu > 1 ? TTI_EAGER : UNASKED_NEAR;
}

uint64_t tti_p2p_name(const struct tti_engine *e, const void *memory, uint64_t bytes)
{
    if ((!e->direct && !e->heap) || bytes <= sent_unasked(e) || bytes < e->tuning.zero_copy) {
        return 0;
    }
    return e->direct ? (uintptr_t)memory : tti_heap_name(e->heap, memory, (size_t)bytes);
}

static unsigned char *address_of(const struct tti_engine *e, int peer, uint64_t name, uint64_t bytes)
{
    /* between threads as trustworthy as this rank itself */
    return e->direct ? (unsigned char *)(uintptr_t)name : tti_heap_address(e->heap, peer, name, (size_t)bytes);
}

bool tti_p2p_may_offer(const struct tti_engine *e, int peer, uint64_t name, uint64_t bytes)
{
    return tti_p2p_is_single_copy(e, name) ? tti_p2p_may_single_copy(e, name, bytes)
                                           : address_of(e, peer, name, bytes) != NULL;
}

static _Atomic uint64_t *intent_of(const struct tti_engine *e, int rank)
{
    return &tti_pair(e, rank, rank)->intent;
}

bool tti_p2p_intent_begin(struct tti_engine *e, int peer)
{
    struct tti_p2p *p2p = e->p2p;
    /* seq_cst, then the alarm, seq_cst as well; partner: the alarm and the load in tti_p2p_reclaim */
    atomic_store_explicit(intent_of(e, e->rank), (uint64_t)peer + 1, memory_order_seq_cst);
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_seq_cst);
    bool clean = alarm == atomic_load_explicit(&p2p->alarm_clean, memory_order_relaxed);
    if (!tti_has_left(e, peer) && (clean || tti_fault_check(e, NULL, -1, NULL) == TUTTI_OK)) {
        p2p->alarm_touching = alarm;
        atomic_store_explicit(&p2p->alarm_clean, alarm, memory_order_relaxed);
        return true;
    }
    atomic_store_explicit(intent_of(e, e->rank), 0, memory_order_release); /* nothing has been touched */
    return false;
}

bool tti_p2p_intent_end(struct tti_engine *e)
{
    /* seq_cst: the accesses of the chunk come before, the look at the alarm after; partner: the load in tti_p2p_reclaim */
    atomic_store_explicit(intent_of(e, e->rank), 0, memory_order_seq_cst);
    return e->direct || atomic_load_explicit(tti_alarm(e), memory_order_seq_cst) == e->p2p->alarm_touching;
}

void tti_p2p_reclaim(struct tti_engine *e, int peer, void *written, uint64_t bytes)
{
    tti_raise_alarm(e); /* whoever failed first may not have come to it yet */
    int64_t until = tti_now_ns() + TTI_INTENT_WAIT_NS;
    /* seq_cst: comes after the alarm; partner: the store in intend */
    while (atomic_load_explicit(intent_of(e, peer), memory_order_seq_cst) == (uint64_t)e->rank + 1) {
        if (tti_chunk_is_lost(e, peer, until)) {
            if (written) {
                tti_heap_orphan(e->heap, written, (size_t)bytes);
            }
            return;
        }
        sched_yield();
    }
}

static void copy(struct tti_engine *e, void *dst, const void *src, size_t n, uint64_t whole)
{
    if (whole >=
        e->tuning.stream_direct / (size_t)e->size) { /* as for collectives: outputs of all ranks leave the caches */
        tti_copy_stream(dst, src, n);
    } else {
        tti_copy_cached(dst, src, n);
    }
    e->p2p->bytes_copied += 2 * n;
}

static size_t next_chunk(uint64_t bytes, uint64_t moved)
{
    return bytes - moved < ZERO_COPY_CHUNK ? (size_t)(bytes - moved) : ZERO_COPY_CHUNK;
}

tutti_status tti_p2p_fetch(struct tti_engine *e, int peer, struct tti_incoming *m)
{
    if (tti_p2p_is_single_copy(e, m->name)) {
        return tti_p2p_fetch_single_copy(e, peer, m);
    }
    const unsigned char *from = address_of(e, peer, m->name, m->bytes);
    if (!from) {
        return TUTTI_PEER_CORRUPT; /* it was there when the message came */
    }
    if (!tti_p2p_intent_begin(e, peer)) {
        return TUTTI_BUSY;
    }
    size_t n = next_chunk(m->bytes, m->arrived);
    copy(e, (unsigned char *)m->request->op->dst + m->arrived, from + m->arrived, n, m->bytes);
    m->arrived += tti_p2p_intent_end(e) ? n : 0; /* else once more, if it still may be */
    return TUTTI_OK;
}

void tti_p2p_acknowledge(struct tti_engine *e, int peer, uint64_t number)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    /* it stores with release: pairs with the acquire in tti_p2p_fetched_now of the peer, whose tensor was read before */
    tti_publish(e, e->layout.lanes, &tti_pair(e, e->rank, peer)->fetched[p->acknowledged++ % TTI_OFFERS], number);
}

uint64_t tti_p2p_fetched_now(const struct tti_engine *e, int peer)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    /* acquire: pairs with tti_p2p_acknowledge of the peer; it touches that tensor no more */
    uint64_t number = atomic_load_explicit(tti_p2p_fetched_word(e, peer), memory_order_acquire);
    return number != p->fetched[p->fetches % TTI_OFFERS] ? number : 0;
}

bool tti_p2p_write(struct tti_engine *e, int peer, struct tti_request *r)
{
    /* relaxed: read after the grant, whose acquire has made it visible */
    uint64_t name = atomic_load_explicit(&tti_pair(e, peer, e->rank)->target, memory_order_relaxed);
    unsigned char *to = name != 0 ? address_of(e, peer, name, r->bytes) : NULL;
    if (!to || !tti_p2p_intent_begin(e, peer)) {
        return false;
    }
    size_t n = next_chunk(r->bytes, r->bytes_written);
    copy(e, to + r->bytes_written, (const unsigned char *)r->op->src + r->bytes_written, n, r->bytes);
    r->bytes_written += tti_p2p_intent_end(e) ? n : 0;
    return true;
}
