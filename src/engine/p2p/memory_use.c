/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A chunk of a message is moved with the lock of the messages held, from the lookup of its address to its last byte. So who
 * has withdrawn an address and then held the lock knows that nobody uses it.
 */
#include "engine/p2p/memory_use.h"

#include "engine/p2p/p2p.h"

static bool meets(const struct tti_request *r, uintptr_t begin, uintptr_t end)
{
    const tutti_op *op = r->op;
    const uintptr_t at = (uintptr_t)(op->kind == TUTTI_OP_SEND ? op->src : op->dst);
    return at != 0 && at < end && begin < at + op->count * tutti_dtype_size(op->dtype);
}

static bool any_meets(const struct tti_request *first, uintptr_t begin, uintptr_t end)
{
    for (const struct tti_request *r = first; r; r = r->next) {
        if (meets(r, begin, end)) {
            return true;
        }
    }
    return false;
}

/* A receive that has matched stands with its message, any other one in the list of all. */
static bool peer_meets(const struct tti_peer *p, uintptr_t begin, uintptr_t end)
{
    for (const struct tti_incoming *m = p->messages; m; m = m->next) {
        if (m->request && meets(m->request, begin, end)) {
            return true;
        }
    }
    return any_meets(p->sends, begin, end);
}

bool tti_p2p_uses(const struct tti_engine *e, const void *memory, size_t bytes)
{
    const uintptr_t begin = (uintptr_t)memory;
    const uintptr_t end = begin + bytes;
    pthread_mutex_lock(&e->p2p->lock);
    bool used = any_meets(e->p2p->recvs, begin, end);
    for (int r = 0; r < e->size && !used; r++) {
        used = peer_meets(&e->p2p->peers[r], begin, end);
    }
    pthread_mutex_unlock(&e->p2p->lock);
    return used;
}

void tti_p2p_quiesce(const struct tti_engine *e)
{
    pthread_mutex_lock(&e->p2p->lock);
    pthread_mutex_unlock(&e->p2p->lock);
}
