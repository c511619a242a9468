/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for messages: whoever waits runs rounds that move everybody's, watches deadline, failures and departures, and
 * sleeps when nothing moves. */
#include "engine/p2p.h"

#include <sched.h>
#include <stdio.h>

#define ROUNDS_PER_LOOK 64 /* rounds that moved something, for one look at the clock */

/* What a waiting thread looks at. */
struct vigil {
    struct tti_engine *e;
    struct tti_posting *p; /* NULL: any message */
    struct tti_awaited awaited[TTI_MAX_RANKS];
    uint64_t seen[TTI_MAX_RANKS];
    int peers;
    uint32_t completed_seen;
    int64_t yield_until;
};

static bool is_done(const struct tti_request *r)
{
    /* acquire: pairs with tti_p2p_finish, which another thread's round may have called */
    return atomic_load_explicit(&r->done, memory_order_acquire);
}

static bool all_done(const struct tti_posting *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!is_done(&p->requests[i])) {
            return false;
        }
    }
    return true;
}

/* Every peer that any unfinished request depends on, with its activity as of now. */
static void look(struct vigil *v)
{
    struct tti_engine *e = v->e;
    uint64_t wanted[TTI_MAX_RANKS / 64] = {0};
    for (size_t i = 0; v->p && i < v->p->count; i++) {
        int peer = v->p->requests[i].op->root;
        if (is_done(&v->p->requests[i])) {
            continue;
        }
        if (peer == TUTTI_ANY_SOURCE) {
            memset(wanted, 0xff, sizeof(wanted));
            break;
        }
        wanted[peer / 64] |= UINT64_C(1) << (peer % 64);
    }
    v->peers = 0;
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank && (!v->p || wanted[r / 64] >> (r % 64) & 1)) {
            _Atomic uint64_t *word = &tti_pair(e, r, e->rank)->activity;
            v->awaited[v->peers] = (struct tti_awaited){.word = word, .publisher = r};
            /* acquire: what the peer changed before bumping it will be seen by the round that follows */
            v->seen[v->peers++] = atomic_load_explicit(word, memory_order_acquire);
        }
    }
    v->completed_seen = atomic_load_explicit(&e->p2p->completed, memory_order_acquire);
}

static bool something_new(const struct vigil *v)
{
    for (int i = 0; i < v->peers; i++) {
        if (atomic_load_explicit(v->awaited[i].word, memory_order_acquire) != v->seen[i]) {
            return true;
        }
    }
    return atomic_load_explicit(&v->e->p2p->completed, memory_order_acquire) != v->completed_seen;
}

tutti_status tti_p2p_move(struct tti_engine *e, tutti_error *error)
{
    struct tti_p2p *p2p = e->p2p;
    tutti_status status = TUTTI_OK;
    pthread_mutex_lock(&p2p->lock);
    uint32_t before = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    bool moved = true;
    while (moved && status == TUTTI_OK) {
        moved = tti_p2p_progress(e, error, &status);
        moved = tti_p2p_match(e) || moved;
    }
    bool others = atomic_load_explicit(&p2p->completed, memory_order_relaxed) != before;
    pthread_mutex_unlock(&p2p->lock);
    if (others) {
        tti_wake_own(e, &p2p->completed);
    }
    if (status != TUTTI_OK) {
        /* A peer's ring cannot be read any more, by nobody here: nothing that it sends could arrive. */
        uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
        int peer = error->suspect;
        if (peer >= 0) {
            suspects[peer / 64] |= UINT64_C(1) << (peer % 64);
        }
        status = tti_fault_raise(e, NULL, suspects, error);
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
static tutti_status drop_orphans(struct tti_posting *p)
{
    struct tti_engine *e = p->e;
    bool any = false;
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < p->count; i++) {
        struct tti_request *r = &p->requests[i];
        r->orphan = !is_done(r) && peer_left(e, peer_of(r));
        any = any || r->orphan;
    }
    pthread_mutex_unlock(&e->p2p->lock);
    if (!any) {
        return TUTTI_OK;
    }
    tutti_status status = tti_p2p_move(e, &p->error); /* whatever it published before it left */
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < p->count; i++) {
        if (!is_done(&p->requests[i]) && p->requests[i].orphan) {
            tti_p2p_withdraw(e, &p->requests[i], TUTTI_PEER_LEFT);
        }
    }
    pthread_mutex_unlock(&e->p2p->lock);
    return status;
}

void tti_p2p_describe(const tutti_op *op, char *text, size_t capacity)
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

static tutti_status timed_out(struct tti_posting *p, int64_t now)
{
    uint64_t suspects[TTI_MAX_RANKS / 64] = {0};
    char first[96] = "";
    size_t open = 0;
    pthread_mutex_lock(&p->e->p2p->lock);
    for (size_t i = 0; i < p->count; i++) {
        const tutti_op *op = p->requests[i].op;
        if (is_done(&p->requests[i])) {
            continue;
        }
        if (open++ == 0) {
            tti_p2p_describe(op, first, sizeof(first));
        }
        int peer = peer_of(&p->requests[i]);
        if (peer != TUTTI_ANY_SOURCE) {
            suspects[peer / 64] |= UINT64_C(1) << (peer % 64);
        }
    }
    pthread_mutex_unlock(&p->e->p2p->lock);
    if (open == 0) {
        return TUTTI_OK; /* another thread's round has just ended the last one */
    }
    int64_t elapsed = (now - p->started_ns) / 1000000;
    tti_error_set(&p->error, TUTTI_TIMEOUT, "%s waited %lld ms for the other side (%zu of %zu messages open)", first,
                  (long long)elapsed, open, p->count);
    p->error.elapsed_ms = elapsed;
    return tti_fault_raise(p->e, NULL, suspects, &p->error);
}

/* Looks at the clock, the alarm and departures. */
static tutti_status watch(struct tti_posting *p, int64_t now)
{
    struct tti_engine *e = p->e;
    if (p->started_ns == 0) {
        p->started_ns = now;
    }
    if (p->deadline_ns == 0) {
        p->deadline_ns = tti_deadline_ns(p->started_ns, p->timeout_ms);
    }
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    tutti_status status = alarm != p->alarm_seen ? tti_fault_check(e, NULL, -1, &p->error) : TUTTI_OK;
    if (status == TUTTI_OK && (status = drop_orphans(p)) == TUTTI_OK) {
        p->alarm_seen = alarm;
    }
    return status;
}

/* Ends the posting, if it has ended or something has gone wrong. True if it is over. */
static bool settle(struct tti_posting *p, tutti_status status)
{
    if (status == TUTTI_OK && !all_done(p)) {
        return false;
    }
    struct tti_engine *e = p->e;
    pthread_mutex_lock(&e->p2p->lock); /* a request may be in the hands of another thread's round */
    for (size_t i = 0; i < p->count; i++) {
        if (!is_done(&p->requests[i])) {
            tti_p2p_withdraw(e, &p->requests[i], status);
        }
    }
    pthread_mutex_unlock(&e->p2p->lock);
    p->status = status;
    p->over = true;
    return true;
}

bool tti_p2p_test(struct tti_posting *p)
{
    /* acquire: pairs with tti_engine_wake_p2p; a wake that comes after this ends the next attendance at once */
    p->wakes_seen = atomic_load_explicit(&p->e->p2p->wakes, memory_order_acquire);
    if (p->over || settle(p, TUTTI_OK) || settle(p, tti_p2p_move(p->e, &p->error))) {
        return true;
    }
    int64_t now = tti_now_ns();
    tutti_status status = watch(p, now);
    if (status == TUTTI_OK && now >= p->deadline_ns && !all_done(p)) {
        status = timed_out(p, now);
    }
    return settle(p, status);
}

/* Waits until something may have changed, until_ns, or the deadline. */
static tutti_status wait_for_news(struct vigil *v, int64_t until_ns)
{
    struct tti_engine *e = v->e;
    for (unsigned i = 0; i < e->spin_polls / 4 && v->yield_until == 0; i++) {
        tti_pause();
        if (something_new(v)) {
            return TUTTI_OK;
        }
    }
    int64_t now = tti_now_ns();
    uint32_t alarm = v->p ? 0 : e->p2p->worker_alarm_seen; /* the worker's alone */
    int64_t deadline = until_ns;
    if (v->p) {
        tutti_status status = watch(v->p, now);
        if (status != TUTTI_OK) {
            return status;
        }
        alarm = v->p->alarm_seen;
        deadline = v->p->deadline_ns < until_ns ? v->p->deadline_ns : until_ns;
    }
    v->yield_until = v->yield_until == 0 ? now + (v->p ? e->yield_ns : 0) : v->yield_until;
    if (something_new(v) || (v->p && all_done(v->p))) {
        return TUTTI_OK;
    }
    if (v->p && now >= v->p->deadline_ns) {
        return timed_out(v->p, now);
    }
    if (now < v->yield_until) {
        sched_yield();
    } else {
        tti_sleep(e, e->layout.lanes, v->awaited, v->seen, v->peers, alarm, &e->p2p->completed, v->completed_seen,
                  deadline);
    }
    return TUTTI_OK;
}

static bool woken(const struct tti_posting *p)
{
    /* acquire: pairs with tti_engine_wake_p2p */
    return atomic_load_explicit(&p->e->p2p->wakes, memory_order_acquire) != p->wakes_seen;
}

bool tti_p2p_attend(struct tti_posting *p, int64_t until_ns)
{
    struct vigil v; /* large, and filled as far as it is used */
    v.e = p->e;
    v.p = p;
    v.yield_until = 0;
    tutti_status status = TUTTI_OK;
    for (unsigned round = 1;; round++) {
        if (p->over) {
            return true;
        }
        look(&v);
        if (settle(p, tti_p2p_move(p->e, &p->error))) {
            return true;
        }
        if (woken(p) || (until_ns != TTI_NEVER && tti_now_ns() >= until_ns)) {
            return false;
        }
        if (!something_new(&v)) {
            status = wait_for_news(&v, until_ns);
        } else if (round % ROUNDS_PER_LOOK == 0) { /* a busy peer must not hold back the deadline */
            int64_t now = tti_now_ns();
            status = watch(p, now);
            status = status == TUTTI_OK && now >= p->deadline_ns ? timed_out(p, now) : status;
        }
        if (status != TUTTI_OK) {
            return settle(p, status);
        }
    }
}

void tti_p2p_attend_any(struct tti_engine *e, int64_t until_ns)
{
    struct vigil v;
    v.e = e;
    v.p = NULL;
    v.yield_until = 0;
    tutti_error error;
    uint32_t wakes = atomic_load_explicit(&e->p2p->wakes, memory_order_acquire);
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    uint32_t completed = atomic_load_explicit(&e->p2p->completed, memory_order_acquire);
    bool stale = wakes != e->p2p->worker_wakes_seen || alarm != e->p2p->worker_alarm_seen ||
                 completed != e->p2p->worker_completed_seen;
    e->p2p->worker_wakes_seen = wakes;
    e->p2p->worker_completed_seen = completed;
    e->p2p->worker_alarm_seen = alarm;
    look(&v);
    if (stale || tti_p2p_move(e, &error) != TUTTI_OK || something_new(&v)) {
        return; /* whoever attends to a posting will see a failure */
    }
    wait_for_news(&v, until_ns);
}
