/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress: any thread that waits for messages runs rounds for all threads of its rank. A round visits the peers on
 * which an open request depends. Now and then a thread visits all peers, so that a full ring does not stop another rank
 * for ever.
 */
#include "engine/p2p/progress.h"

#include "engine/failure/fault.h"
#include "engine/failure/peers.h"
#include "engine/p2p/rings/recv.h"
#include "engine/p2p/rings/send.h"
#include "engine/wait/publish.h"

#define ROUNDS         16 /* most rounds under one hold of the lock, and about so many bytes: */
#define BYTES_PER_HOLD 8388608u
#define DRAIN_ROUNDS   32 /* more than are needed to read a full ring */

bool tti_p2p_all_done(const struct tti_posting *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!tti_p2p_is_done(&p->requests[i])) {
            return false;
        }
    }
    return true;
}

static tutti_status corrupt(const struct tti_engine *e, int peer, tutti_error *error)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    tti_error_set(error, TUTTI_PEER_CORRUPT,
                  "rank %d (process %u) has published %s that it was never sent (there were %llu records): its memory "
                  "is corrupt; "
                  "restart its process",
                  peer, tti_peer_id(e, peer).pid, p->impossible, (unsigned long long)p->posted);
    error->suspect = peer;
    return TUTTI_PEER_CORRUPT;
}

/* True if there is more to do. */
static bool visit(struct tti_engine *e, int peer, bool drain, tutti_error *error, tutti_status *status)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    bool more = p->sends && tti_p2p_push(e, peer);
    if (p->impossible) {
        *status = corrupt(e, peer, error);
        return false;
    }
    return tti_p2p_pull(e, peer, drain, error, status) || more;
}

/* One round: visits the peers on which open requests depend, or all peers (`all`), of which it reads all records. */
static bool visit_peers(struct tti_engine *e, bool all, tutti_error *error, tutti_status *status)
{
    struct tti_p2p *p2p = e->p2p;
    bool more = false;
    if (all || p2p->open_any > 0) {
        for (int peer = 0; peer < e->size && *status == TUTTI_OK; peer++) {
            more = (peer != e->rank && visit(e, peer, all, error, status)) || more;
        }
        return more;
    }
    for (int word = 0; word * 64 < e->size; word++) {
        for (uint64_t rest = p2p->active[word]; rest != 0 && *status == TUTTI_OK; rest &= rest - 1) {
            more = visit(e, word * 64 + __builtin_ctzll(rest), false, error, status) || more;
        }
    }
    return more;
}

void tti_p2p_wake(struct tti_engine *e)
{
    /* seq_cst: comes after the increment of `completed`; pairs with the count in yield_or_sleep before the kernel
     * compares */
    if (atomic_load_explicit(&e->p2p->sleepers, memory_order_seq_cst) > 0) {
        tti_wake_own(e, &e->p2p->completed);
    }
}

tutti_status tti_p2p_progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, bool *more,
                              tutti_error *error)
{
    const struct tti_posting *p = v ? v->p : NULL;
    tutti_status status = TUTTI_OK;
    bool over = false;
    int rounds = 0;
    const uint64_t most = e->p2p->bytes_copied + BYTES_PER_HOLD;
    do {
        *more = visit_peers(e, all, error, &status);
        over = p && tti_p2p_all_done(p);
    } while (*more && !over && status == TUTTI_OK && ++rounds < ROUNDS && e->p2p->bytes_copied < most);
    if (v && !over && status == TUTTI_OK) {
        v->ready = *more;
        v->completed_seen = p ? atomic_load_explicit(&e->p2p->completed, memory_order_relaxed) : v->completed_seen;
        tti_p2p_watch_peers(v);
        v->fresh = true;
    }
    return status;
}

tutti_status tti_p2p_make_progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, bool *more,
                                   tutti_error *error)
{
    struct tti_p2p *p2p = e->p2p;
    pthread_mutex_lock(&p2p->lock);
    uint32_t before = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    tutti_status status = tti_p2p_progress(e, all, v, more, error);
    uint32_t after = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    pthread_mutex_unlock(&p2p->lock);
    if (after != before) {
        tti_p2p_wake(e);
    }
    return status == TUTTI_OK ? TUTTI_OK : tti_fault_raise_suspect(e, NULL, error->suspect, error);
}

tutti_status tti_p2p_drain(struct tti_engine *e, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    bool more = true;
    for (int i = 0; i < DRAIN_ROUNDS && more && status == TUTTI_OK; i++) {
        status = tti_p2p_make_progress(e, true, NULL, &more, error);
    }
    return status;
}
