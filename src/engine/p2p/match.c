/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching: which message goes into which receive. Messages of a pair are looked at in the order they were sent,
 * receives in the order they were posted, so nothing overtakes within a pair and tag. A receive that does not fit
 * its message fails and leaves the message where it is.
 *
 * No posted receive fits a message that is kept: a new message is offered to the receives, a new receive looks among
 * the messages. So each meets its partner once.
 */
#include <stdlib.h>

#include "engine/p2p/p2p.h"

void tti_p2p_unlink(struct tti_request **head, struct tti_request **tail, const struct tti_request *r)
{
    struct tti_request *before = NULL;
    for (struct tti_request **link = head; *link; before = *link, link = &(*link)->next) {
        if (*link == r) {
            *link = r->next;
            if (*tail == r) {
                *tail = before;
            }
            return;
        }
    }
}

void tti_p2p_mark(struct tti_engine *e, int peer)
{
    e->p2p->active[peer / 64] |= UINT64_C(1) << (peer % 64);
}

void tti_p2p_unmark(struct tti_engine *e, int peer)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    if (p->open_recvs == 0 && !p->sends) {
        e->p2p->active[peer / 64] &= ~(UINT64_C(1) << (peer % 64));
    }
}

/* One receive more that depends on the peer, ANY_SOURCE being everybody; one less. */
static void count_recv(struct tti_engine *e, int peer)
{
    if (peer == TUTTI_ANY_SOURCE) {
        e->p2p->open_any++;
    } else {
        e->p2p->peers[peer].open_recvs++;
        tti_p2p_mark(e, peer);
    }
}

static void uncount_recv(struct tti_engine *e, int peer)
{
    if (peer == TUTTI_ANY_SOURCE) {
        e->p2p->open_any--;
    } else {
        e->p2p->peers[peer].open_recvs--;
        tti_p2p_unmark(e, peer);
    }
}

static void become_done(struct tti_request *r, tutti_status status)
{
    r->status = status;
    /* release: pairs with tti_p2p_is_done; whoever sees it may free the request */
    atomic_store_explicit(&r->done, true, memory_order_release);
}

void tti_p2p_finish(struct tti_engine *e, struct tti_request *r, tutti_status status)
{
    if (r->op->kind != TUTTI_OP_SEND) {
        uncount_recv(e, tti_p2p_peer_of(r));
    }
    become_done(r, status);
    /* seq_cst: pairs with a thread that counts itself among the sleepers and then has the kernel compare this word */
    atomic_fetch_add_explicit(&e->p2p->completed, 1, memory_order_seq_cst);
}

void tti_p2p_fill(const struct tti_incoming *m, int peer, tutti_message *message)
{
    message->dtype = m->dtype;
    message->source = peer;
    message->tag = m->tag;
    message->bytes = (int64_t)m->bytes;
    message->count = (int64_t)m->count;
}

static bool takes(const struct tti_request *r, int peer, int32_t tag)
{
    return (r->op->root == TUTTI_ANY_SOURCE || r->op->root == peer) &&
           (r->op->p2p_tag == TUTTI_ANY_TAG || r->op->p2p_tag == tag);
}

/* Gives a receive, which is in no list, its message: prepares its memory. If it does not fit, the receive has ended. */
static bool accept(struct tti_engine *e, const struct tti_incoming *m, int peer, struct tti_request *r)
{
    tutti_op *op = r->op;
    if (op->root != peer) {
        uncount_recv(e, op->root);
        count_recv(e, peer);
    }
    r->came = (tutti_message)TUTTI_MESSAGE_INIT;
    tti_p2p_fill(m, peer, &r->came);
    tutti_status status = TUTTI_OK;
    if (op->allocate) {
        status = op->allocate(op, &r->came, m->ndim, m->shape);
    } else if (op->dtype != m->dtype || op->count < (size_t)r->came.count) {
        status = TUTTI_MISMATCH;
    }
    if (status != TUTTI_OK) {
        tti_p2p_finish(e, r, status);
        return false;
    }
    if (op->message) {
        *op->message = r->came;
    }
    return true;
}

struct tti_request *tti_p2p_match_posted(struct tti_engine *e, int peer, const struct tti_incoming *m)
{
    struct tti_p2p *p2p = e->p2p;
    struct tti_request *before = NULL;
    struct tti_request *r = p2p->recvs;
    while (r) {
        struct tti_request *next = r->next; /* it may be gone when it has ended */
        if (!takes(r, peer, m->tag)) {
            before = r;
        } else {
            *(before ? &before->next : &p2p->recvs) = next;
            if (p2p->recvs_tail == r) {
                p2p->recvs_tail = before;
            }
            if (accept(e, m, peer, r)) {
                return r;
            }
        }
        r = next;
    }
    return NULL;
}

static void forget(struct tti_peer *p, struct tti_incoming *m)
{
    struct tti_incoming *before = NULL;
    for (struct tti_incoming *i = p->messages; i != m; i = i->next) {
        before = i;
    }
    *(before ? &before->next : &p->messages) = m->next;
    if (p->messages_tail == m) {
        p->messages_tail = before;
    }
    free(m);
}

void tti_p2p_add_incoming(struct tti_peer *p, struct tti_incoming *m)
{
    m->next = NULL;
    *(p->messages_tail ? &p->messages_tail->next : &p->messages) = m;
    p->messages_tail = m;
}

void tti_p2p_finish_incoming(struct tti_engine *e, int peer, struct tti_incoming *m)
{
    struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_request *r = m->request;
    if (m->arrived < m->bytes || (!r && !m->dropped)) {
        return;
    }
    if (p->transfer == m) {
        p->transfer = NULL;
    }
    if (p->fetching == m) {
        p->fetching = NULL;
    }
    forget(p, m);
    if (r) {
        tti_p2p_finish(e, r, TUTTI_OK);
    }
    tti_p2p_grant(e, peer);
}

static struct tti_incoming *first_match(const struct tti_peer *p, int32_t tag)
{
    struct tti_incoming *m = p->messages;
    while (m && (m->request || m->dropped || (tag != TUTTI_ANY_TAG && tag != m->tag))) {
        m = m->next;
    }
    return m;
}

struct tti_incoming *tti_p2p_find(struct tti_engine *e, int32_t source, int32_t tag, int *peer)
{
    if (source != TUTTI_ANY_SOURCE) {
        *peer = source;
        return source == e->rank ? NULL : first_match(&e->p2p->peers[source], tag);
    }
    struct tti_incoming *oldest = NULL;
    for (int r = 0; r < e->size; r++) {
        struct tti_incoming *m = first_match(&e->p2p->peers[r], tag); /* there is nothing of the own rank */
        if (m && (!oldest || m->order < oldest->order)) {
            oldest = m;
            *peer = r;
        }
    }
    return oldest;
}

void tti_p2p_post_recv(struct tti_engine *e, struct tti_request *r)
{
    struct tti_p2p *p2p = e->p2p;
    int peer = -1;
    struct tti_incoming *m = tti_p2p_find(e, r->op->root, r->op->p2p_tag, &peer);
    count_recv(e, r->op->root);
    if (!m) {
        *(p2p->recvs_tail ? &p2p->recvs_tail->next : &p2p->recvs) = r;
        p2p->recvs_tail = r;
    } else if (accept(e, m, peer, r)) {
        tti_copy(r->op->dst, m->data, (size_t)m->arrived);
        e->p2p->bytes_copied += 2 * m->arrived;
        m->request = r;
        tti_p2p_grant(e, peer);
        tti_p2p_finish_incoming(e, peer, m);
    }
}

static void forget_recv(struct tti_engine *e, struct tti_request *r)
{
    int peer = tti_p2p_peer_of(r);
    tti_p2p_unlink(&e->p2p->recvs, &e->p2p->recvs_tail, r);
    uncount_recv(e, peer);
    for (struct tti_incoming *m = r->came.size != 0 ? e->p2p->peers[peer].messages : NULL; m; m = m->next) {
        if (m->request == r) { /* half received: only after the group has failed, or the peer has left */
            m->request = NULL;
            m->dropped = true;
            e->p2p->peers[peer].fetching = e->p2p->peers[peer].fetching == m ? NULL : e->p2p->peers[peer].fetching;
            if (m->writes_direct) {
                tti_p2p_reclaim(e, peer, r->op->dst, m->bytes);
            }
        }
    }
}

void tti_p2p_withdraw(struct tti_engine *e, struct tti_request *r, tutti_status status)
{
    if (r->op->kind == TUTTI_OP_SEND) {
        tti_p2p_forget_send(e, r);
        if (r->name != 0) {
            tti_p2p_reclaim(e, r->op->root, NULL, 0);
        }
    } else {
        forget_recv(e, r);
    }
    become_done(r, status);
}
