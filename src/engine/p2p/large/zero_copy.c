/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages that are copied once. Threads reach each other's tensors, processes reach those in the heap.
 *
 *   - If the receiver can reach the sender's tensor, the first record offers it: it brings the tensor's name instead of
 *     data. The receiver copies from there as soon as it has matched the message, and acknowledges it.
 *   - If only the sender can reach the receiver's tensor, the grant names that. The sender writes the rest of the
 *     message there, and then a record without data.
 *   - If neither can, the sender offers its tensor when it pays to let the kernel copy it: single_copy.c.
 *
 * Cost: 2n bytes, all on one side, and two hops for any size. In the second case the eager part is copied twice.
 *
 * Acknowledgements stand in a ring of TTI_OFFERS words in the receiver's control. A rank has at most so many open
 * offers to a peer. Further messages use the rings of bytes, so that no message waits for an offer that is not
 * received.
 */
#include "engine/p2p/large/zero_copy.h"

#include "engine/memory/heap.h"
#include "engine/p2p/large/intent.h"
#include "engine/wait/publish.h"

#define ZERO_COPY_CHUNK 65536u /* bytes for one intent */
#define EAGER_NEAR      8192u  /* see eager_most; measured with two threads, and two processes, that share a cache */
#define EAGER_SHARED    32768u /* the same with more ranks than CPUs */

/* Messages up to this size are not offered: an offer costs one hop more, and where ranks share a CPU a switch of
 * ranks. */
static uint64_t eager_most(const struct tti_engine *e)
{
    return e->ranks_per_cpu > 1 ? EAGER_SHARED : EAGER_NEAR;
}

uint64_t tti_p2p_name(const struct tti_engine *e, const void *memory, uint64_t bytes)
{
    if ((!e->direct && !e->heap) || bytes <= eager_most(e) || bytes < e->tuning.zero_copy) {
        return 0;
    }
    return e->direct ? (uintptr_t)memory : tti_heap_name(e->heap, memory, (size_t)bytes);
}

static unsigned char *address_of(const struct tti_engine *e, int peer, uint64_t name, uint64_t bytes)
{
    /* threads trust each other's addresses */
    return e->direct ? (unsigned char *)(uintptr_t)name : tti_heap_address(e->heap, peer, name, (size_t)bytes);
}

bool tti_p2p_may_zero_copy(const struct tti_engine *e, int peer, uint64_t name, uint64_t bytes)
{
    return address_of(e, peer, name, bytes) != NULL;
}

static void copy(struct tti_engine *e, void *dst, const void *src, size_t n, uint64_t whole)
{
    /* as for an all_to_all */
    if (whole >= e->tuning.streams[TTI_STREAM_EXCHANGED] / (size_t)e->size) {
        tti_copy_stream(dst, src, n);
    } else {
        tti_copy_cached(dst, src, n);
    }
    e->p2p->bytes_copied += 2 * n;
}

static size_t next_chunk(uint64_t bytes, uint64_t copied)
{
    return bytes - copied < ZERO_COPY_CHUNK ? (size_t)(bytes - copied) : ZERO_COPY_CHUNK;
}

tutti_status tti_p2p_fetch_zero_copy(struct tti_engine *e, int peer, struct tti_incoming *m)
{
    const unsigned char *from = address_of(e, peer, m->name, m->bytes);
    if (!from) {
        return TUTTI_PEER_CORRUPT; /* it existed when the message arrived */
    }
    if (!tti_p2p_intent_begin(e, peer)) {
        return TUTTI_BUSY;
    }
    size_t n = next_chunk(m->bytes, m->arrived);
    copy(e, (unsigned char *)m->request->op->dst + m->arrived, from + m->arrived, n, m->bytes);
    m->arrived += tti_p2p_intent_end(e) ? n : 0; /* else it is copied again, if the alarm allows it */
    return TUTTI_OK;
}

void tti_p2p_acknowledge(struct tti_engine *e, int peer, uint64_t number)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    /* stores with release: pairs with the acquire in tti_p2p_fetched_now of the peer, whose tensor was read before */
    tti_publish(e, e->layout.lanes, &tti_pair(e, e->rank, peer)->fetched[p->acknowledged++ % TTI_OFFERS], number);
}

uint64_t tti_p2p_fetched_now(const struct tti_engine *e, int peer)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    /* acquire: pairs with tti_p2p_acknowledge of the peer, which has read that tensor */
    uint64_t number = atomic_load_explicit(tti_p2p_fetched_word(e, peer), memory_order_acquire);
    return number != p->fetched[p->fetches % TTI_OFFERS] ? number : 0;
}

bool tti_p2p_write(struct tti_engine *e, int peer, struct tti_request *r)
{
    /* relaxed: the acquire of the grant comes before */
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
