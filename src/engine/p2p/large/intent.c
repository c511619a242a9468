/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * No rank touches memory whose owner has returned from its call. The protocol is that of memory/intent.c, with one word
 * for each rank, which names the peer whose memory the rank touches.
 *
 * A rank that touches memory stores its intent, then reads the alarm. A rank that withdraws a message has written its
 * fault record; it raises the alarm, then waits until no intent names it. So either the rank that touches finds the
 * failure and stops, or its intent is seen. If a process was stopped in the middle of a chunk, the owner returns after
 * TTI_INTENT_WAIT_NS. Late writes of the stopped process go to pages that no call uses, but for the ends of the tensor
 * (memory/intent.c). What it has read does not count, because it reads the alarm again after each chunk.
 *
 * Cost: two stores and two loads for each chunk. tests/models/p2p_zero_copy.pml checks the protocol.
 */
#include "engine/p2p/large/intent.h"

#include <sched.h>

#include "engine/failure/fault.h"
#include "engine/memory/heap.h"
#include "engine/memory/intent.h"
#include "engine/p2p/rings/rings.h"
#include "engine/wait/publish.h"

static _Atomic uint64_t *intent_of(const struct tti_engine *e, int rank)
{
    return &tti_pair(e, rank, rank)->intent;
}

bool tti_p2p_intent_begin(struct tti_engine *e, int peer)
{
    struct tti_p2p *p2p = e->p2p;
    /* Dekker: this store, then the load of the alarm, both seq_cst. Partner: tti_p2p_reclaim raises the alarm, then
     * loads this word. */
    atomic_store_explicit(intent_of(e, e->rank), (uint64_t)peer + 1, memory_order_seq_cst);
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_seq_cst);
    bool clean = alarm == atomic_load_explicit(&p2p->alarm_clean, memory_order_relaxed);
    if (!tti_has_left(e, peer) && (clean || tti_fault_check(e, NULL, -1, NULL) == TUTTI_OK)) {
        p2p->alarm_at_intent = alarm;
        atomic_store_explicit(&p2p->alarm_clean, alarm, memory_order_relaxed);
        return true;
    }
    atomic_store_explicit(intent_of(e, e->rank), 0, memory_order_release); /* nothing has been touched */
    return false;
}

bool tti_p2p_intent_end(struct tti_engine *e)
{
    /* seq_cst: after the accesses of the chunk, before the load of the alarm; partner: the load in tti_p2p_reclaim */
    atomic_store_explicit(intent_of(e, e->rank), 0, memory_order_seq_cst);
    /* A thread's chunk always counts: the owner waits for its end. */
    return e->direct || atomic_load_explicit(tti_alarm(e), memory_order_seq_cst) == e->p2p->alarm_at_intent;
}

void tti_p2p_reclaim(struct tti_engine *e, int peer, void *written, uint64_t bytes)
{
    tti_raise_alarm(e); /* the rank that failed first may not have raised it yet */
    int64_t until = tti_now_ns() + TTI_INTENT_WAIT_NS;
    /* seq_cst: comes after the alarm; partner: the store in tti_p2p_intent_begin */
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
