/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A thread copies a chunk of a message with the lock held, from the lookup of its address to its last byte. So a thread
 * that withdraws an address and then takes the lock once knows that no other thread uses that address.
 */
#include "engine/p2p/memory_use.h"

#include "engine/p2p/types.h"

static bool overlaps(const tutti_op *op, uintptr_t begin, uintptr_t end)
{
    const uintptr_t at = (uintptr_t)(op->kind == TUTTI_OP_SEND ? op->src : op->dst);
    return at != 0 && at < end && begin < at + op->count * tutti_dtype_size(op->dtype);
}

static bool any_overlaps(const struct tti_request *first, uintptr_t begin, uintptr_t end)
{
    for (const struct tti_request *r = first; r; r = r->next) {
        if (overlaps(r->op, begin, end)) {
            return true;
        }
    }
    return false;
}

/* A receive that has a message, or a part of it, is found at that, any other one in the list `recvs`. */
static bool peer_overlaps(const struct tti_peer *p, uintptr_t begin, uintptr_t end)
{
    for (const struct tti_incoming *m = p->messages; m; m = m->next) {
        const tutti_op *op = m->request ? m->request->op : m->begun;
        if (op && overlaps(op, begin, end)) {
            return true;
        }
    }
    return any_overlaps(p->sends, begin, end);
}

bool tti_p2p_uses(const struct tti_engine *e, const void *memory, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)memory;
    const uintptr_t end = begin + bytes;
    pthread_mutex_lock(&e->p2p->lock);
    bool used = any_overlaps(e->p2p->recvs, begin, end);
    for (int r = 0; r < e->size && !used; r++) {
        used = peer_overlaps(&e->p2p->peers[r], begin, end);
    }
    pthread_mutex_unlock(&e->p2p->lock);
    return used;
}

void tti_p2p_quiesce(const struct tti_engine *e)
{
    pthread_mutex_lock(&e->p2p->lock);
    pthread_mutex_unlock(&e->p2p->lock);
}
