/* SPDX-License-Identifier: BSD-3-Clause */
/* Posting messages and waiting for them. Requests live on the stack of the call; any thread that waits moves everybody's
 * messages, and ends when its own requests have. */
#include "engine/p2p.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define ROUNDS_PER_LOOK 64 /* rounds that moved something, for one look at the clock */

tutti_status tti_p2p_create(struct tti_engine *e, tutti_error *error)
{
    e->p2p = calloc(1, sizeof(*e->p2p));
    if (e->p2p) {
        pthread_mutex_init(&e->p2p->lock, NULL);
        e->p2p->peers = calloc((size_t)e->size, sizeof(*e->p2p->peers));
    }
    return e->p2p && e->p2p->peers
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_NO_MEMORY, "no memory for messages of %d ranks", e->size);
}

void tti_p2p_destroy(struct tti_engine *e)
{
    if (!e->p2p) {
        return;
    }
    for (int r = 0; e->p2p->peers && r < e->size; r++) {
        for (struct tti_incoming *m = e->p2p->peers[r].messages; m;) {
            struct tti_incoming *next = m->next;
            free(m);
            m = next;
        }
    }
    pthread_mutex_destroy(&e->p2p->lock);
    free(e->p2p->peers);
    free(e->p2p);
}

static void post(struct tti_engine *e, struct tti_request *r)
{
    struct tti_request **head = &e->p2p->recvs;
    struct tti_request **tail = &e->p2p->recvs_tail;
    if (r->op->kind == TUTTI_OP_SEND) {
        head = &e->p2p->peers[r->op->root].sends;
        tail = &e->p2p->peers[r->op->root].sends_tail;
        r->bytes = r->op->count * tutti_dtype_size(r->op->dtype);
    }
    if (*tail) {
        (*tail)->next = r;
    } else {
        *head = r;
    }
    *tail = r;
}

static void unlink_from(struct tti_request **head, struct tti_request **tail, const struct tti_request *r)
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

/* Takes an unfinished request out of everything that points to it, before its stack frame goes. */
static void withdraw(struct tti_engine *e, struct tti_request *r, tutti_status status)
{
    unlink_from(&e->p2p->recvs, &e->p2p->recvs_tail, r);
    for (int peer = 0; peer < e->size; peer++) {
        struct tti_peer *p = &e->p2p->peers[peer];
        unlink_from(&p->sends, &p->sends_tail, r);
        if (p->streaming == r) {
            p->streaming = NULL;
        }
        for (struct tti_incoming *m = p->messages; m; m = m->next) {
            if (m->request == r) {
                m->request = NULL;
            }
        }
        if (p->transfer && !p->transfer->request) {
            p->transfer = NULL; /* half received: only after the group has failed, or the peer left */
        }
    }
    r->status = status;
    atomic_store_explicit(&r->done, true, memory_order_release);
}

/* A batch of requests and what its thread waits on. */
struct batch {
    struct tti_engine *e;
    struct tti_request *requests;
    size_t count;
    tutti_error *error;
    struct tti_awaited awaited[TTI_MAX_RANKS];
    uint64_t seen[TTI_MAX_RANKS];
    int peers;
    uint32_t completed_seen;
    uint32_t alarm_seen;
    int64_t started_ns;
    int64_t deadline_ns;
};

static bool is_done(const struct tti_request *r)
{
    /* acquire: pairs with tti_p2p_finish, which another thread's round may have called */
    return atomic_load_explicit(&r->done, memory_order_acquire);
}

static bool ended(const struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        if (!is_done(&b->requests[i])) {
            return false;
        }
    }
    return true;
}

/* Every peer that any unfinished request depends on, with its activity as of now. */
static void look(struct batch *b)
{
    struct tti_engine *e = b->e;
    uint64_t wanted[TTI_MAX_RANKS / 64] = {0};
    for (size_t i = 0; i < b->count; i++) {
        int peer = b->requests[i].op->root;
        if (is_done(&b->requests[i])) {
            continue;
        }
        if (peer == TUTTI_ANY_SOURCE) {
            memset(wanted, 0xff, sizeof(wanted));
            break;
        }
        wanted[peer / 64] |= UINT64_C(1) << (peer % 64);
    }
    b->peers = 0;
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank && wanted[r / 64] >> (r % 64) & 1) {
            _Atomic uint64_t *word = &tti_pair(e, r, e->rank)->activity;
            b->awaited[b->peers] = (struct tti_awaited){.word = word, .publisher = r};
            /* acquire: what the peer changed before bumping it will be seen by the round that follows */
            b->seen[b->peers++] = atomic_load_explicit(word, memory_order_acquire);
        }
    }
    b->completed_seen = atomic_load_explicit(&e->p2p->completed, memory_order_acquire);
}

static bool something_new(const struct batch *b)
{
    for (int i = 0; i < b->peers; i++) {
        if (atomic_load_explicit(b->awaited[i].word, memory_order_acquire) != b->seen[i]) {
            return true;
        }
    }
    return atomic_load_explicit(&b->e->p2p->completed, memory_order_acquire) != b->completed_seen;
}

/* One round under the lock. OK and ended(), OK and not, or an error that ends everything. */
static tutti_status move(struct batch *b)
{
    struct tti_p2p *p2p = b->e->p2p;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&p2p->lock);
    uint32_t before = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    bool moved = true;
    while (moved && status == TUTTI_OK) {
        moved = tti_p2p_progress(b->e, b->error, &status);
        moved = tti_p2p_match(b->e) || moved;
    }
    bool others = atomic_load_explicit(&p2p->completed, memory_order_relaxed) != before;
    pthread_mutex_unlock(&p2p->lock);
    if (others) {
        tti_wake_own(b->e, &p2p->completed);
    }
    return status;
}

/* Whom a request depends on; under the lock. A receive from anybody that has matched waits for that sender. */
static int peer_of(const struct tti_request *r)
{
    return r->came.size != 0 ? r->came.source : r->op->root;
}

static bool peer_left(const struct tti_engine *e, int peer)
{
    if (peer != TUTTI_ANY_SOURCE) {
        return atomic_load_explicit(&tti_header(e, peer)->left, memory_order_acquire) != 0;
    }
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank && atomic_load_explicit(&tti_header(e, r)->left, memory_order_acquire) == 0) {
            return false;
        }
    }
    return true;
}

/* Requests whose peer has left can only end if what they need is there already. */
static tutti_status drop_orphans(struct batch *b)
{
    bool any = false;
    pthread_mutex_lock(&b->e->p2p->lock);
    for (size_t i = 0; i < b->count; i++) {
        struct tti_request *r = &b->requests[i];
        r->orphan = !is_done(r) && peer_left(b->e, peer_of(r));
        any = any || r->orphan;
    }
    pthread_mutex_unlock(&b->e->p2p->lock);
    if (!any) {
        return TUTTI_OK;
    }
    tutti_status status = move(b); /* whatever it published before it left */
    pthread_mutex_lock(&b->e->p2p->lock);
    for (size_t i = 0; i < b->count; i++) {
        if (!is_done(&b->requests[i]) && b->requests[i].orphan) {
            withdraw(b->e, &b->requests[i], TUTTI_PEER_LEFT);
        }
    }
    pthread_mutex_unlock(&b->e->p2p->lock);
    return status;
}

static void describe_request(const tutti_op *op, char *text, size_t capacity)
{
    char peer[32] = "any rank";
    char tag[32] = "any tag";
    if (op->root != TUTTI_ANY_SOURCE) {
        snprintf(peer, sizeof(peer), "rank %d", op->root);
    }
    if (op->p2p_tag != TUTTI_ANY_TAG) {
        snprintf(tag, sizeof(tag), "tag %d", op->p2p_tag);
    }
    snprintf(text, capacity, "%s %s %s, %s", tutti_operation_name(op->kind), op->kind == TUTTI_OP_SEND ? "to" : "from",
             peer, tag);
}

static tutti_status timed_out(struct batch *b)
{
    uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
    char first[96] = "";
    size_t open = 0;
    pthread_mutex_lock(&b->e->p2p->lock);
    for (size_t i = 0; i < b->count; i++) {
        const tutti_op *op = b->requests[i].op;
        if (is_done(&b->requests[i])) {
            continue;
        }
        if (open++ == 0) {
            describe_request(op, first, sizeof(first));
        }
        int peer = peer_of(&b->requests[i]);
        if (peer != TUTTI_ANY_SOURCE) {
            suspects[peer / 64] |= UINT64_C(1) << (peer % 64);
        }
    }
    pthread_mutex_unlock(&b->e->p2p->lock);
    if (open == 0) {
        return TUTTI_OK; /* another thread's round has just ended the last one */
    }
    int64_t elapsed = (tti_now_ns() - b->started_ns) / 1000000;
    tti_error_set(b->error, TUTTI_TIMEOUT, "%s waited %lld ms for the other side (%zu of %zu messages open)", first,
                  (long long)elapsed, open, b->count);
    b->error->elapsed_ms = elapsed;
    return tti_fault_raise(b->e, NULL, suspects, b->error);
}

/* Looks at the clock, the alarm and departures. */
static tutti_status watch(struct batch *b, int64_t timeout_ms, int64_t *now)
{
    struct tti_engine *e = b->e;
    *now = tti_now_ns();
    if (b->started_ns == 0) {
        b->started_ns = *now;
        b->deadline_ns = tti_deadline_ns(*now, timeout_ms);
    }
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    tutti_status status = alarm != b->alarm_seen ? tti_fault_check(e, NULL, -1, b->error) : TUTTI_OK;
    if (status != TUTTI_OK || (status = drop_orphans(b)) != TUTTI_OK) {
        return status;
    }
    b->alarm_seen = alarm;
    return *now >= b->deadline_ns && !ended(b) && !something_new(b) ? timed_out(b) : TUTTI_OK;
}

/* Waits until something may have changed; an error ends the batch. */
static tutti_status wait_for_news(struct batch *b, int64_t timeout_ms, int64_t *yield_until)
{
    struct tti_engine *e = b->e;
    for (unsigned i = 0; i < e->spin_polls / 4 && *yield_until == 0; i++) {
        tti_pause();
        if (something_new(b)) {
            return TUTTI_OK;
        }
    }
    int64_t now = 0;
    tutti_status status = watch(b, timeout_ms, &now);
    if (status != TUTTI_OK) {
        return status;
    }
    *yield_until = *yield_until == 0 ? now + e->yield_ns : *yield_until;
    if (something_new(b) || ended(b)) {
        return TUTTI_OK;
    }
    if (now < *yield_until) {
        sched_yield();
    } else {
        tti_sleep(e, e->layout.lanes, b->awaited, b->seen, b->peers, b->alarm_seen, &e->p2p->completed,
                  b->completed_seen, b->deadline_ns);
    }
    return TUTTI_OK;
}

/* The first failure in the order of the operations, with a sentence of its own. */
static tutti_status first_failure(struct batch *b)
{
    for (size_t i = 0; i < b->count; i++) {
        const struct tti_request *r = &b->requests[i];
        char what[96];
        describe_request(r->op, what, sizeof(what));
        if (r->status == TUTTI_MISMATCH) {
            tti_error_set(
                b->error, TUTTI_MISMATCH,
                "%s: the message from rank %d has %lld elements of %s, the tensor holds %zu of %s; the message "
                "stays receivable",
                what, r->came.source, (long long)r->came.count, tutti_dtype_name(r->came.dtype), r->op->count,
                tutti_dtype_name(r->op->dtype));
        } else if (r->status == TUTTI_PEER_LEFT) {
            tti_error_set(b->error, TUTTI_PEER_LEFT, "%s: the other side has destroyed its group or ended", what);
        } else if (r->status != TUTTI_OK) {
            tti_error_set(b->error, r->status, "%s: %s", what, tutti_status_string(r->status));
        } else {
            continue;
        }
        b->error->suspect = r->came.size ? r->came.source : r->op->root;
        return r->status;
    }
    return TUTTI_OK;
}

static tutti_status run_requests(struct batch *b, int64_t timeout_ms)
{
    struct tti_engine *e = b->e;
    b->alarm_seen = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    if (b->alarm_seen != atomic_load_explicit(&e->p2p->alarm_clean, memory_order_relaxed)) {
        tutti_status harm = tti_fault_check(e, NULL, -1, b->error);
        if (harm != TUTTI_OK) {
            return harm;
        }
        atomic_store_explicit(&e->p2p->alarm_clean, b->alarm_seen, memory_order_relaxed);
    }
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < b->count; i++) {
        b->requests[i].op->sequence = ++e->p2p->sequence;
        post(e, &b->requests[i]);
    }
    pthread_mutex_unlock(&e->p2p->lock);
    int64_t yield_until = 0;
    for (unsigned round = 1;; round++) {
        int64_t now;
        if (round % ROUNDS_PER_LOOK == 0 && (status = watch(b, timeout_ms, &now)) == TUTTI_OK &&
            now >= b->deadline_ns && !ended(b)) {
            status = timed_out(b); /* a peer that stays busy with other messages must not hold back the deadline */
        }
        if (status != TUTTI_OK) {
            break;
        }
        look(b);
        if ((status = move(b)) != TUTTI_OK || ended(b)) {
            break;
        }
        if (!something_new(b) && (status = wait_for_news(b, timeout_ms, &yield_until)) != TUTTI_OK) {
            break;
        }
    }
    pthread_mutex_lock(&e->p2p->lock); /* a request may be in the hands of another thread's round */
    for (size_t i = 0; i < b->count; i++) {
        if (!is_done(&b->requests[i])) {
            withdraw(e, &b->requests[i], status);
        }
        b->requests[i].op->status = b->requests[i].status;
    }
    pthread_mutex_unlock(&e->p2p->lock);
    return status != TUTTI_OK ? status : first_failure(b);
}

tutti_status tti_engine_run_p2p(struct tti_engine *e, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                tutti_error *error)
{
    struct tti_request few[4];
    struct tti_request *requests = few;
    if (count > 4) {
        requests = malloc(count * sizeof(*requests));
        if (!requests) {
            return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for a batch of %zu messages", count);
        }
    }
    for (size_t i = 0; i < count; i++) {
        requests[i] = (struct tti_request){.op = ops[i]};
    }
    struct batch b = {.e = e, .requests = requests, .count = count, .error = error};
    tutti_status status = run_requests(&b, timeout_ms);
    if (requests != few) {
        free(requests);
    }
    return status;
}

tutti_status tti_engine_probe(struct tti_engine *e, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                              tutti_error *error)
{
    tutti_status status = tti_fault_check(e, NULL, -1, error);
    if (status != TUTTI_OK) {
        return status;
    }
    struct batch b = {.e = e, .error = error};
    if ((status = move(&b)) != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&e->p2p->lock);
    int source = -1;
    const struct tti_incoming *m = tti_p2p_find(e, peer, tag, &source);
    if (m && message) {
        tti_p2p_fill(m, source, message);
    }
    pthread_mutex_unlock(&e->p2p->lock);
    *found = m != NULL;
    return TUTTI_OK;
}
