/* SPDX-License-Identifier: BSD-3-Clause */
/* Matching: which message goes into which receive. Messages of a pair are looked at in the order they were sent, receives
 * in the order they were posted, so nothing overtakes within a pair and tag. A receive that does not fit its message
 * fails and leaves the message where it is. */
#include <stdlib.h>

#include "engine/p2p.h"

/* Reads one envelope once and checks every field that anything depends on. */
static bool envelope_valid(const struct tti_envelope *v, uint64_t number)
{
    size_t element = tutti_dtype_size(v->dtype);
    if (v->number != number || element == 0 || v->ndim < 0 || v->ndim > TUTTI_MAX_NDIM || v->tag < 0 ||
        v->bytes % element != 0) {
        return false;
    }
    size_t room = sizeof(v->body) - (size_t)v->ndim * sizeof(int64_t);
    if (v->eager && v->bytes > room) {
        return false;
    }
    int64_t shape[TUTTI_MAX_NDIM];
    memcpy(shape, v->body, (size_t)v->ndim * sizeof(int64_t));
    bool empty = false; /* then the other dimensions may be anything */
    for (int i = 0; i < v->ndim; i++) {
        if (shape[i] < 0) {
            return false;
        }
        empty = empty || shape[i] == 0;
    }
    uint64_t count = empty ? 0 : 1;
    for (int i = 0; !empty && i < v->ndim; i++) {
        if (__builtin_mul_overflow(count, (uint64_t)shape[i], &count)) {
            return false;
        }
    }
    return !__builtin_mul_overflow(count, element, &count) && count == v->bytes;
}

tutti_status tti_p2p_drain(struct tti_engine *e, int peer, tutti_error *error)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    /* acquire: pairs with the release of the sender's `posted`; the envelopes are there */
    uint64_t posted = atomic_load_explicit(&tti_pair(e, peer, e->rank)->posted, memory_order_acquire);
    if (posted == p->taken) {
        return TUTTI_OK;
    }
    if (posted - p->taken > TTI_ENVELOPES) {
        tti_error_set(error, TUTTI_PEER_CORRUPT, "rank %d claims to have sent %llu messages at once", peer,
                      (unsigned long long)(posted - p->taken));
        error->suspect = peer;
        return TUTTI_PEER_CORRUPT;
    }
    for (; p->taken != posted; p->taken++) {
        struct tti_envelope v = *tti_envelope(e, peer, e->rank, p->taken);
        struct tti_incoming *m = calloc(1, sizeof(*m));
        if (!m) {
            tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a message from rank %d", peer);
            error->suspect = peer;
            return TUTTI_NO_MEMORY;
        }
        if (!envelope_valid(&v, p->taken + 1)) {
            free(m);
            tti_error_set(error, TUTTI_PEER_CORRUPT, "message %llu from rank %d is announced with impossible values",
                          (unsigned long long)p->taken + 1, peer);
            error->suspect = peer;
            return TUTTI_PEER_CORRUPT;
        }
        m->number = v.number;
        m->bytes = v.bytes;
        m->order = e->p2p->order++;
        m->tag = v.tag;
        m->dtype = v.dtype;
        m->ndim = v.ndim;
        m->eager = v.eager != 0;
        memcpy(m->shape, v.body, (size_t)v.ndim * sizeof(int64_t));
        tti_copy(m->data, v.body + (size_t)v.ndim * sizeof(int64_t), m->eager ? v.bytes : 0);
        if (p->messages_tail) {
            p->messages_tail->next = m;
        } else {
            p->messages = m;
        }
        p->messages_tail = m;
    }
    return TUTTI_OK;
}

static struct tti_incoming *first_match(const struct tti_peer *p, int32_t tag)
{
    for (struct tti_incoming *m = p->messages; m; m = m->next) {
        if (!m->request && (tag == TUTTI_ANY_TAG || tag == m->tag)) {
            return m;
        }
    }
    return NULL;
}

struct tti_incoming *tti_p2p_find(struct tti_engine *e, int32_t source, int32_t tag, int *peer)
{
    struct tti_incoming *oldest = NULL;
    for (int r = 0; r < e->size; r++) {
        if (r == e->rank || (source != TUTTI_ANY_SOURCE && source != r)) {
            continue;
        }
        struct tti_incoming *m = first_match(&e->p2p->peers[r], tag);
        if (m && (!oldest || m->order < oldest->order)) {
            oldest = m;
            *peer = r;
        }
    }
    return oldest;
}

void tti_p2p_fill(const struct tti_incoming *m, int peer, tutti_message *message)
{
    message->dtype = m->dtype;
    message->source = peer;
    message->tag = m->tag;
    message->bytes = (int64_t)m->bytes;
    message->count = (int64_t)(m->bytes / tutti_dtype_size(m->dtype));
}

void tti_p2p_finish(struct tti_p2p *p, struct tti_request *request, tutti_status status)
{
    request->status = status;
    atomic_store_explicit(&request->done, true, memory_order_release);
    /* release: pairs with the acquire of a thread that is about to sleep */
    atomic_fetch_add_explicit(&p->completed, 1, memory_order_release);
}

void tti_p2p_forget(struct tti_peer *p, struct tti_incoming *m)
{
    struct tti_incoming *before = NULL;
    for (struct tti_incoming *i = p->messages; i; before = i, i = i->next) {
        if (i != m) {
            continue;
        }
        if (before) {
            before->next = m->next;
        } else {
            p->messages = m->next;
        }
        if (p->messages_tail == m) {
            p->messages_tail = before;
        }
        free(m);
        return;
    }
}

/* Whether the receive can take the message; prepares its memory. */
static tutti_status accept_message(const struct tti_incoming *m, int peer, struct tti_request *r)
{
    tutti_op *op = r->op;
    r->came = (tutti_message)TUTTI_MESSAGE_INIT;
    tti_p2p_fill(m, peer, &r->came);
    tutti_status status = TUTTI_OK;
    if (op->allocate) {
        status = op->allocate(op, &r->came, m->ndim, m->shape);
    } else if (op->dtype != m->dtype || op->count < (size_t)r->came.count) {
        status = TUTTI_MISMATCH;
    }
    if (status == TUTTI_OK && op->message) {
        tti_p2p_fill(m, peer, op->message);
    }
    return status;
}

bool tti_p2p_match(struct tti_engine *e)
{
    struct tti_p2p *p2p = e->p2p;
    bool moved = false;
    struct tti_request **link = &p2p->recvs;
    struct tti_request *before = NULL;
    while (*link) {
        struct tti_request *r = *link;
        int peer = -1;
        struct tti_incoming *m = tti_p2p_find(e, r->op->root, r->op->p2p_tag, &peer);
        if (!m) {
            before = r;
            link = &r->next;
            continue;
        }
        *link = r->next;
        if (p2p->recvs_tail == r) {
            p2p->recvs_tail = before;
        }
        moved = true;
        tutti_status status = accept_message(m, peer, r);
        if (status != TUTTI_OK) {
            tti_p2p_finish(p2p, r, status);
        } else if (m->eager) {
            tti_copy(r->op->dst, m->data, m->bytes);
            tti_p2p_forget(&p2p->peers[peer], m);
            tti_p2p_finish(p2p, r, TUTTI_OK);
        } else {
            m->request = r;
            r->bytes = m->bytes;
        }
    }
    for (int peer = 0; peer < e->size; peer++) {
        struct tti_peer *p = &p2p->peers[peer];
        for (struct tti_incoming *m = p->messages; m && !p->transfer; m = m->next) {
            if (m->request) {
                p->transfer = m;
                p->granted++;
                struct tti_pair_control *own = tti_pair(e, e->rank, peer);
                atomic_store_explicit(&own->grant_id, m->number, memory_order_relaxed);
                /* release: pairs with the sender's acquire; the id is there */
                atomic_store_explicit(&own->granted, p->granted, memory_order_release);
                /* the sender may be asleep: it waits for this very word to change */
                tti_publish(e, e->layout.lanes, &own->activity,
                            atomic_load_explicit(&own->activity, memory_order_relaxed) + 1);
                moved = true;
            }
        }
    }
    return moved;
}
