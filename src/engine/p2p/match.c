/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Matching: which message goes into which receive. The messages of a pair are matched in the order of sending, receives
 * in the order of posting, so no message overtakes another one with its tag. If a receive does not fit its message, it
 * fails, and the message stays.
 *
 * Invariant: no posted receive fits a kept message. A new message is compared with the posted receives, a new receive
 * with the kept messages.
 */
#include "engine/p2p/match.h"

#include "engine/memory/copy.h"
#include "engine/p2p/large/grant.h"
#include "engine/p2p/large/intent.h"
#include "engine/p2p/message_rules.h"
#include "engine/p2p/requests.h"

void tti_p2p_fill(const struct tti_incoming *m, int peer, tutti_message *message)
{
    message->dtype = m->dtype;
    message->source = peer;
    message->tag = m->tag;
    message->bytes = (int64_t)m->bytes;
    message->count = (int64_t)m->count;
}

/* Gives a receive, which is in no list, its message, and prepares its memory. False: it does not fit, and has ended. */
static bool accept(struct tti_engine *e, const struct tti_incoming *m, int peer, struct tti_request *r)
{
    tutti_op *op = r->op;
    if (op->root != peer) {
        tti_p2p_uncount_recv(e, op->root);
        tti_p2p_count_recv(e, peer);
    }
    r->matched = (tutti_message)TUTTI_MESSAGE_INIT;
    tti_p2p_fill(m, peer, &r->matched);
    const tutti_status status = tti_message_fits(op, &r->matched, m->ndim, m->shape);
    if (status != TUTTI_OK) {
        tti_p2p_finish(e, r, status);
        return false;
    }
    if (op->message) {
        *op->message = r->matched;
    }
    return true;
}

struct tti_request *tti_p2p_match_posted(struct tti_engine *e, int peer, const struct tti_incoming *m)
{
    struct tti_p2p *p2p = e->p2p;
    struct tti_request *before = NULL;
    struct tti_request *r = p2p->recvs;
    while (r) {
        struct tti_request *next = r->next; /* a receive that has ended may be freed */
        if (!tti_message_taken_by(r->op, peer, m->tag)) {
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
    tti_p2p_remove_incoming(p, m);
    if (r) {
        tti_p2p_finish(e, r, TUTTI_OK);
    }
    tti_p2p_grant(e, peer);
}

/* The message of which this receive has a part. It began when no other one of its peer was kept, so it is the first. */
static struct tti_incoming *find_begun(const struct tti_engine *e, const tutti_op *op)
{
    struct tti_incoming *m = op->root == TUTTI_ANY_SOURCE ? NULL : e->p2p->peers[op->root].messages;
    return m && m->begun == op ? m : NULL;
}

void tti_p2p_drop_begun(struct tti_engine *e, const tutti_op *op)
{
    struct tti_incoming *m = find_begun(e, op);
    if (m) {
        m->begun = NULL;
        m->dropped = true;
        tti_p2p_finish_incoming(e, op->root, m);
    }
}

void tti_p2p_post_recv(struct tti_engine *e, struct tti_request *r)
{
    int peer = r->op->root;
    struct tti_incoming *m = find_begun(e, r->op);
    m = m ? m : tti_p2p_find(e, r->op->root, r->op->p2p_tag, &peer);
    tti_p2p_count_recv(e, r->op->root);
    if (!m) {
        tti_p2p_add_recv(e->p2p, r);
    } else if (accept(e, m, peer, r)) {
        if (!m->begun) {
            tti_copy(r->op->dst, m->data, (size_t)m->arrived);
            e->p2p->bytes_copied += 2 * m->arrived;
        }
        m->begun = NULL;
        m->request = r;
        tti_p2p_grant(e, peer);
        tti_p2p_finish_incoming(e, peer, m);
    }
}

static void withdraw_recv(struct tti_engine *e, struct tti_request *r)
{
    int peer = tti_p2p_peer_of(r);
    tti_p2p_remove_recv(e->p2p, r);
    tti_p2p_uncount_recv(e, peer);
    for (struct tti_incoming *m = r->matched.size != 0 ? e->p2p->peers[peer].messages : NULL; m; m = m->next) {
        if (m->request == r) { /* partly received: the group has failed, or the peer has left */
            m->request = NULL;
            m->dropped = true;
            if (e->p2p->peers[peer].fetching == m) {
                e->p2p->peers[peer].fetching = NULL;
            }
            if (m->writes_direct) {
                tti_p2p_reclaim(e, peer, r->op->dst, m->bytes);
            }
        }
    }
}

void tti_p2p_withdraw(struct tti_engine *e, struct tti_request *r, tutti_status status)
{
    if (r->op->kind == TUTTI_OP_SEND) {
        tti_p2p_remove_send(e, r);
        if (r->name != 0) {
            tti_p2p_reclaim(e, r->op->root, NULL, 0);
        }
    } else {
        withdraw_recv(e, r);
    }
    tti_p2p_become_done(r, status);
}
