/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The lists of requests and messages, and the counts that go with them. `active` marks each peer on which an open
 * request depends: a round of progress visits these peers only.
 */
#include "engine/p2p/requests.h"

#include <stdlib.h>

static void append(struct tti_request **head, struct tti_request **tail, struct tti_request *r)
{
    *(*tail ? &(*tail)->next : head) = r;
    *tail = r;
}

static void unlink_request(struct tti_request **head, struct tti_request **tail, const struct tti_request *r)
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

static void mark_active(struct tti_engine *e, int peer)
{
    e->p2p->active[peer / 64] |= UINT64_C(1) << (peer % 64);
}

static void unmark_idle(struct tti_engine *e, int peer)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    if (p->open_recvs == 0 && !p->sends) {
        e->p2p->active[peer / 64] &= ~(UINT64_C(1) << (peer % 64));
    }
}

/* ---- sends ------------------------------------------------------------------------------------------------------- */

void tti_p2p_add_send(struct tti_engine *e, struct tti_request *r)
{
    struct tti_peer *p = &e->p2p->peers[r->op->root];
    append(&p->sends, &p->sends_tail, r);
    p->open_sends++;
    p->open_bytes += r->bytes;
    if (!p->staging) {
        p->staging = r;
    }
    mark_active(e, r->op->root);
}

void tti_p2p_withdraw_offer(const struct tti_engine *e, struct tti_request *r)
{
    struct tti_peer *p = &e->p2p->peers[r->op->root];
    p->offers -= r->name != 0;
    p->remote_offers -= tti_p2p_is_single_copy(e, r->name);
}

void tti_p2p_remove_send(struct tti_engine *e, struct tti_request *r)
{
    struct tti_peer *p = &e->p2p->peers[r->op->root];
    if (p->staging == r) {
        p->staging = r->next;
    }
    if (p->streaming == r) {
        p->streaming = NULL;
    }
    unlink_request(&p->sends, &p->sends_tail, r);
    p->open_sends--;
    p->open_bytes -= r->bytes;
    tti_p2p_withdraw_offer(e, r);
    unmark_idle(e, r->op->root);
}

/* ---- receives ---------------------------------------------------------------------------------------------------- */

void tti_p2p_add_recv(struct tti_p2p *p2p, struct tti_request *r)
{
    append(&p2p->recvs, &p2p->recvs_tail, r);
}

void tti_p2p_remove_recv(struct tti_p2p *p2p, const struct tti_request *r)
{
    unlink_request(&p2p->recvs, &p2p->recvs_tail, r);
}

void tti_p2p_count_recv(struct tti_engine *e, int peer)
{
    e->p2p->open_recvs++;
    if (peer == TUTTI_ANY_SOURCE) {
        e->p2p->open_any++;
    } else {
        e->p2p->peers[peer].open_recvs++;
        mark_active(e, peer);
    }
}

void tti_p2p_uncount_recv(struct tti_engine *e, int peer)
{
    e->p2p->open_recvs--;
    if (peer == TUTTI_ANY_SOURCE) {
        e->p2p->open_any--;
    } else {
        e->p2p->peers[peer].open_recvs--;
        unmark_idle(e, peer);
    }
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

void tti_p2p_add_incoming(struct tti_peer *p, struct tti_incoming *m)
{
    m->next = NULL;
    *(p->messages_tail ? &p->messages_tail->next : &p->messages) = m;
    p->messages_tail = m;
}

void tti_p2p_remove_incoming(struct tti_peer *p, struct tti_incoming *m)
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

static struct tti_incoming *first_unmatched(const struct tti_peer *p, int32_t tag)
{
    struct tti_incoming *m = p->messages;
    while (m && (m->request || m->begun || m->dropped || (tag != TUTTI_ANY_TAG && tag != m->tag))) {
        m = m->next;
    }
    return m;
}

struct tti_incoming *tti_p2p_find(struct tti_engine *e, int32_t source, int32_t tag, int *peer)
{
    if (source != TUTTI_ANY_SOURCE) {
        *peer = source;
        return source == e->rank ? NULL : first_unmatched(&e->p2p->peers[source], tag);
    }
    struct tti_incoming *oldest = NULL;
    for (int r = 0; r < e->size; r++) {
        struct tti_incoming *m = first_unmatched(&e->p2p->peers[r], tag); /* this rank's own list is empty */
        if (m && (!oldest || m->order < oldest->order)) {
            oldest = m;
            *peer = r;
        }
    }
    return oldest;
}

/* ---- the end of a request ---------------------------------------------------------------------------------------- */

void tti_p2p_become_done(struct tti_request *r, tutti_status status)
{
    r->status = status;
    /* release: pairs with the acquire in tti_p2p_is_done, after which the owner may free the request */
    atomic_store_explicit(&r->done, true, memory_order_release);
}

void tti_p2p_finish(struct tti_engine *e, struct tti_request *r, tutti_status status)
{
    if (r->op->kind != TUTTI_OP_SEND) {
        tti_p2p_uncount_recv(e, tti_p2p_peer_of(r));
    }
    tti_p2p_become_done(r, status);
    /* seq_cst: pairs with yield_or_sleep, which counts its thread as a sleeper before the kernel compares this word */
    atomic_fetch_add_explicit(&e->p2p->completed, 1, memory_order_seq_cst);
}
