/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moving messages and waiting for them. Whoever waits runs rounds that move everybody's, then looks without a lock
 * at the words that would say that there is more: the next slot of a peer that somebody receives from, the activity
 * of one that somebody sends to. When nothing changes it watches deadline, failures and who leaves, yields, and
 * sleeps on these words.
 */
#include "engine/failure/peers.h"
#include "engine/p2p/p2p.h"

#include <sched.h>
#include <stdio.h>

#define ROUNDS           16 /* at most, under one hold of the lock, and not many more of these bytes: */
#define BYTES_PER_HOLD   8388608u
#define HOLDS_PER_CHECK  16 /* of these holds that moved something, for one look at the clock */
#define DRAIN_ROUNDS     32 /* more than it takes to read everything that lies in a ring */
#define EAGER_POLLS      64 /* without a pause */
#define EAGER_YIELDS     16 /* without a look at anything else */
#define YIELDS_PER_DRAIN 8
#define TESTS_PER_DRAIN  16

void tti_p2p_wait_monitor_init(struct tti_p2p_wait_monitor *v, struct tti_engine *e, struct tti_posting *p)
{
    v->e = e;
    v->p = p;
    v->fresh = false;
    v->ready = false;
    v->count = 0;
    v->yields = 0;
    v->yield_until = 0;
}

bool tti_p2p_all_done(const struct tti_posting *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!tti_p2p_is_done(&p->requests[i])) {
            return false;
        }
    }
    return true;
}

/* ---- moving ---------------------------------------------------------------------------------------------------*/

static tutti_status corrupt(const struct tti_engine *e, int peer, tutti_error *error)
{
    const struct tti_peer *p = &e->p2p->peers[peer];
    tti_error_set(
        error, TUTTI_PEER_CORRUPT,
        "rank %d (process %u) has published what cannot be: %s that it was never sent (there were %llu records)", peer,
        tti_peer_id(e, peer).pid, p->impossible, (unsigned long long)p->posted);
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

/* One round: the peers that open requests depend on, or (`all`) everybody, and then all that is there. */
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
    /* seq_cst: comes after the bump of `completed`; pairs with the count in wait_for_event before the kernel compares */
    if (atomic_load_explicit(&e->p2p->sleepers, memory_order_seq_cst) > 0) {
        tti_wake_own(e, &e->p2p->completed);
    }
}

tutti_status tti_p2p_fail_group(struct tti_engine *e, tutti_error *error)
{
    return tti_fault_raise_suspect(e, NULL, error->suspect, error);
}

/* acquire: pairs with the release of tti_publish in the peer's sending */
static bool record_there(const struct tti_engine *e, int peer, uint64_t number)
{
    return atomic_load_explicit(&tti_slot(e, peer, e->rank, number)->number, memory_order_acquire) == number;
}

bool tti_p2p_await_record(const struct tti_engine *e, int peer, uint64_t number)
{
    const bool shared = e->ranks_per_cpu > 1; /* the sender may need this very CPU */
    const unsigned polls = EAGER_POLLS + (shared ? 0 : e->spin_polls / 2);
    for (unsigned i = 0; i < polls; i++) {
        if (record_there(e, peer, number)) {
            return true;
        }
        if (i >= EAGER_POLLS) {
            tti_backoff();
        }
    }
    for (unsigned i = 0; shared && i < EAGER_YIELDS; i++) {
        sched_yield();
        if (record_there(e, peer, number)) {
            return true;
        }
    }
    return false;
}

/* Adds the words by which the peer can make requests here move. With the lock held: they are those of the next step. */
static void watch_peer(struct tti_p2p_wait_monitor *v, int peer)
{
    struct tti_engine *e = v->e;
    const struct tti_peer *p = &e->p2p->peers[peer];
    struct tti_pair_control *theirs = tti_pair(e, peer, e->rank);
    struct tti_awaited on[3];
    uint64_t seen[3];
    int count = 0;
    bool receiving = p->open_recvs > 0 || e->p2p->open_any > 0;
    if (p->offers > 0) {
        _Atomic uint64_t *word = tti_p2p_fetched_word(e, peer);
        seen[count] = p->fetched[p->fetches % TTI_OFFERS];
        on[count++] = (struct tti_awaited){.word = word, .publisher = peer};
    }
    if (tti_p2p_has_grantable(p) || (receiving && !p->opened)) {
        /* acquire, before what it tells of: that changes no more without the word changing again */
        seen[count] = atomic_load_explicit(&theirs->activity, memory_order_acquire);
        on[count++] = (struct tti_awaited){.word = &theirs->activity, .publisher = peer};
        v->ready = v->ready || tti_p2p_can_push(e, peer) ||
                   (receiving && !p->opened && atomic_load_explicit(&theirs->opened, memory_order_acquire) != 0);
    }
    if (receiving && p->opened) {
        _Atomic uint64_t *word = &tti_slot(e, peer, e->rank, p->read + 1)->number;
        seen[count] = atomic_load_explicit(word, memory_order_acquire);
        v->ready = v->ready || seen[count] == p->read + 1;
        on[count++] = (struct tti_awaited){.word = word, .publisher = peer};
    }
    for (int i = 0; i < count && v->count < TTI_MAX_RANKS; i++) { /* those beyond are looked at when a sleep ends */
        v->awaited[v->count] = on[i];
        v->seen[v->count++] = seen[i];
    }
}

/* Every peer that any unfinished request of the posting, or (no posting) of anybody depends on. */
static void watch_peers(struct tti_p2p_wait_monitor *v)
{
    struct tti_engine *e = v->e;
    uint64_t wanted[TTI_MAX_RANKS / 64] = {0};
    size_t words = (size_t)(e->size + 63) / 64;
    bool all = !v->p && e->p2p->open_any > 0;
    for (size_t i = 0; !v->p && i < words; i++) {
        wanted[i] = e->p2p->active[i];
    }
    for (size_t i = 0; v->p && i < v->p->count; i++) {
        const struct tti_request *r = &v->p->requests[i];
        int peer = tti_p2p_is_done(r) ? e->rank : tti_p2p_peer_of(r);
        all = all || peer == TUTTI_ANY_SOURCE;
        wanted[all ? 0 : peer / 64] |= UINT64_C(1) << (all ? 0 : peer % 64);
    }
    v->count = 0;
    for (int peer = 0; peer < e->size; peer++) {
        if (!all && peer % 64 == 0 && wanted[peer / 64] == 0) {
            peer += 63;
        } else if (peer != e->rank && (all || wanted[peer / 64] >> (peer % 64) & 1)) {
            watch_peer(v, peer);
        }
    }
}

/* With the lock held. True in *more if the bound of rounds has ended it. */
static tutti_status progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, bool *more,
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
        watch_peers(v);
        v->fresh = true;
    }
    return status;
}

tutti_status tti_p2p_progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, tutti_error *error)
{
    bool more;
    return progress(e, all, v, &more, error);
}

/* Takes the lock; an error fails the group. */
static tutti_status make_progress(struct tti_engine *e, bool all, struct tti_p2p_wait_monitor *v, bool *more,
                                  tutti_error *error)
{
    struct tti_p2p *p2p = e->p2p;
    pthread_mutex_lock(&p2p->lock);
    uint32_t before = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    tutti_status status = progress(e, all, v, more, error);
    uint32_t after = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    pthread_mutex_unlock(&p2p->lock);
    if (after != before) {
        tti_p2p_wake(e);
    }
    return status == TUTTI_OK ? TUTTI_OK : tti_p2p_fail_group(e, error);
}

tutti_status tti_p2p_drain(struct tti_engine *e, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    bool more = true;
    for (int i = 0; i < DRAIN_ROUNDS && more && status == TUTTI_OK; i++) {
        status = make_progress(e, true, NULL, &more, error);
    }
    return status;
}

static bool something_new(const struct tti_p2p_wait_monitor *v)
{
    if (v->ready) {
        return true;
    }
    for (int i = 0; i < v->count; i++) {
        /* acquire: pairs with the release in tti_publish */
        if (atomic_load_explicit(v->awaited[i].word, memory_order_acquire) != v->seen[i]) {
            return true;
        }
    }
    return atomic_load_explicit(&v->e->p2p->completed, memory_order_acquire) != v->completed_seen;
}

/* ---- watching -------------------------------------------------------------------------------------------------*/

static bool peer_left(const struct tti_engine *e, int peer)
{
    if (peer != TUTTI_ANY_SOURCE) {
        return tti_has_left(e, peer);
    }
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank && !tti_has_left(e, r)) {
            return false;
        }
    }
    return true;
}

/* Requests whose peer has left can only end if what they need is there already. */
static tutti_status fail_requests_of_left(struct tti_posting *p)
{
    struct tti_engine *e = p->e;
    bool any = false;
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < p->count; i++) {
        struct tti_request *r = &p->requests[i];
        r->peer_gone = !tti_p2p_is_done(r) && peer_left(e, tti_p2p_peer_of(r));
        any = any || r->peer_gone;
    }
    pthread_mutex_unlock(&e->p2p->lock);
    if (!any) {
        return TUTTI_OK;
    }
    tutti_status status = tti_p2p_drain(e, &p->error); /* whatever it published before it left */
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < p->count; i++) {
        if (!tti_p2p_is_done(&p->requests[i]) && p->requests[i].peer_gone) {
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
        if (tti_p2p_is_done(&p->requests[i])) {
            continue;
        }
        if (open++ == 0) {
            tti_p2p_describe(op, first, sizeof(first));
        }
        int peer = tti_p2p_peer_of(&p->requests[i]);
        if (peer != TUTTI_ANY_SOURCE) {
            suspects[peer / 64] |= UINT64_C(1) << (peer % 64);
        }
    }
    pthread_mutex_unlock(&p->e->p2p->lock);
    if (open == 0) {
        return TUTTI_OK; /* another thread's round has just ended the last one */
    }
    int64_t elapsed = (now - p->started_ns) / 1000000;
    char names[200];
    tti_peers_text(p->e, TTI_FAULT_MESSAGES, suspects, names, sizeof(names));
    /* After the looks: the other side may have given up because of somebody else meanwhile. */
    const tutti_status earlier = tti_fault_check_messages(p->e, &p->error);
    if (earlier != TUTTI_OK) {
        return earlier;
    }
    tti_error_set(&p->error, TUTTI_TIMEOUT, "%s waited %lld ms for the other side (%zu of %zu messages open)%s%s",
                  first, (long long)elapsed, open, p->count, names[0] ? ": " : "", names);
    p->error.elapsed_ms = elapsed;
    return tti_fault_raise(p->e, NULL, suspects, &p->error);
}

/* Who has waited for a while looks whether the other side is still there; if that may be anybody, at one after the other. */
static void check_peers(struct tti_posting *p, int64_t now)
{
    struct tti_engine *e = p->e;
    if (p->next_check_ns == 0) {
        p->next_check_ns = now + TTI_LIVENESS_CHECK_NS;
    }
    if (now < p->next_check_ns) {
        return;
    }
    p->next_check_ns = now + TTI_LIVENESS_CHECK_NS;
    for (size_t i = 0; i < p->count; i++) {
        if (!tti_p2p_is_done(&p->requests[i])) {
            const int peer = tti_p2p_peer_of(&p->requests[i]);
            tti_fault_check_peer(e, peer != TUTTI_ANY_SOURCE ? peer : (int)(now / TTI_LIVENESS_CHECK_NS % e->size));
            return;
        }
    }
}

/* Whoever reads the flight recorder sees since when this rank waits. */
static void publish_wait_start(const struct tti_posting *p, int64_t since_ns)
{
    for (size_t i = 0; i < p->count; i++) {
        int64_t *since = p->requests[i].op->waits_since;
        if (since) { /* relaxed: as in wait.c */
            atomic_store_explicit((_Atomic int64_t *)since, since_ns, memory_order_relaxed);
        }
    }
}

/* Looks at the clock, the alarm and who has left. */
static tutti_status watch(struct tti_posting *p, int64_t now)
{
    struct tti_engine *e = p->e;
    if (p->started_ns == 0) {
        p->started_ns = now;
        publish_wait_start(p, now);
    }
    if (p->deadline_ns == 0) {
        p->deadline_ns = tti_deadline_ns(p->started_ns, p->timeout_ms);
    }
    check_peers(p, now);
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    tutti_status status = alarm != p->alarm_seen ? tti_fault_check_messages(e, &p->error) : TUTTI_OK;
    if (status == TUTTI_OK && (status = fail_requests_of_left(p)) == TUTTI_OK) {
        p->alarm_seen = alarm;
    }
    return status;
}

/* Ends the posting, if it has ended or something has gone wrong. True if it is over. */
static bool end_if_over(struct tti_posting *p, tutti_status status)
{
    bool done = tti_p2p_all_done(p);
    if (status == TUTTI_OK && !done) {
        return false;
    }
    struct tti_engine *e = p->e;
    if (!done) {
        pthread_mutex_lock(&e->p2p->lock); /* a request may be in the hands of another thread's round */
        for (size_t i = 0; i < p->count; i++) {
            if (!tti_p2p_is_done(&p->requests[i])) {
                tti_p2p_withdraw(e, &p->requests[i], status);
            }
        }
        pthread_mutex_unlock(&e->p2p->lock);
    }
    p->status = status;
    p->over = true;
    return true;
}

bool tti_p2p_test(struct tti_posting *p)
{
    struct tti_engine *e = p->e;
    /* acquire: pairs with tti_engine_wake_p2p; a wake that comes after this ends the next attendance at once */
    p->wakes_seen = atomic_load_explicit(&e->p2p->wakes, memory_order_acquire);
    if (p->over || end_if_over(p, TUTTI_OK)) {
        return true;
    }
    /* relaxed: who only ever tests has to look at everybody from time to time as well */
    uint32_t tests = atomic_fetch_add_explicit(&e->p2p->tests, 1, memory_order_relaxed);
    bool all = tests % TESTS_PER_DRAIN == TESTS_PER_DRAIN - 1;
    bool more;
    if (end_if_over(p, make_progress(e, all, NULL, &more, &p->error))) {
        return true;
    }
    int64_t now = tti_now_ns();
    tutti_status status = watch(p, now);
    if (status == TUTTI_OK && now >= p->deadline_ns && !tti_p2p_all_done(p)) {
        status = timed_out(p, now);
    }
    return end_if_over(p, status);
}

/* Lets others run, or sleeps; not without having looked at everybody. */
static tutti_status yield_or_sleep(struct tti_p2p_wait_monitor *v, int64_t now, uint32_t alarm, int64_t deadline)
{
    struct tti_engine *e = v->e;
    bool sleeps = now >= v->yield_until;
    if (sleeps || v->yields++ % YIELDS_PER_DRAIN == 0) {
        tutti_error error;
        tutti_status status = tti_p2p_drain(e, v->p ? &v->p->error : &error);
        if (status != TUTTI_OK || something_new(v)) {
            return status;
        }
    }
    if (!sleeps) {
        sched_yield();
        return TUTTI_OK;
    }
    /* seq_cst: pairs with tti_p2p_wake */
    atomic_fetch_add_explicit(&e->p2p->sleepers, 1, memory_order_seq_cst);
    tti_sleep(e, e->layout.lanes, v->awaited, v->seen, v->count, alarm, &e->p2p->completed, v->completed_seen,
              deadline);
    /* relaxed: one wake too many does no harm */
    atomic_fetch_sub_explicit(&e->p2p->sleepers, 1, memory_order_relaxed);
    return TUTTI_OK;
}

/* Waits until something may have changed, until_ns, or the deadline. */
static tutti_status wait_for_event(struct tti_p2p_wait_monitor *v, int64_t until_ns)
{
    struct tti_engine *e = v->e;
    unsigned polls = v->yield_until != 0 ? 0 : v->p && v->count <= 2 ? e->spin_polls : e->spin_polls / 4;
    for (unsigned i = 0; i < polls; i++) {
        if (i >= EAGER_POLLS) {
            tti_backoff();
        }
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
    if (something_new(v) || (v->p && tti_p2p_all_done(v->p))) {
        return TUTTI_OK;
    }
    if (v->p && now >= v->p->deadline_ns) {
        return timed_out(v->p, now);
    }
    return yield_or_sleep(v, now, alarm, deadline);
}

static bool woken(const struct tti_posting *p)
{
    /* acquire: pairs with tti_engine_wake_p2p */
    return atomic_load_explicit(&p->e->p2p->wakes, memory_order_acquire) != p->wakes_seen;
}

bool tti_p2p_wait(struct tti_p2p_wait_monitor *v, int64_t until_ns)
{
    struct tti_posting *p = v->p;
    tutti_status status = TUTTI_OK;
    bool more;
    for (unsigned look = 1;; look++) {
        if (p->over || end_if_over(p, v->fresh ? TUTTI_OK : make_progress(p->e, false, v, &more, &p->error))) {
            return true;
        }
        v->fresh = false;
        if (woken(p) || (until_ns != TTI_NEVER && tti_now_ns() >= until_ns)) {
            return false;
        }
        if (!something_new(v)) {
            status = wait_for_event(v, until_ns);
        } else if (look % HOLDS_PER_CHECK == 0) { /* a busy peer must not hold back the deadline */
            int64_t now = tti_now_ns();
            status = watch(p, now);
            status = status == TUTTI_OK && now >= p->deadline_ns ? timed_out(p, now) : status;
        }
        if (status != TUTTI_OK) {
            return end_if_over(p, status);
        }
    }
}

void tti_p2p_wait_any(struct tti_engine *e, int64_t until_ns)
{
    struct tti_p2p_wait_monitor v;
    tti_p2p_wait_monitor_init(&v, e, NULL);
    tutti_error error;
    bool more;
    uint32_t wakes = atomic_load_explicit(&e->p2p->wakes, memory_order_acquire);
    uint32_t alarm = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    uint32_t completed = atomic_load_explicit(&e->p2p->completed, memory_order_acquire);
    bool stale = wakes != e->p2p->worker_wakes_seen || alarm != e->p2p->worker_alarm_seen ||
                 completed != e->p2p->worker_completed_seen;
    e->p2p->worker_wakes_seen = wakes;
    e->p2p->worker_completed_seen = completed;
    e->p2p->worker_alarm_seen = alarm;
    v.completed_seen = completed; /* from before the round: what it ends is news */
    if (stale || make_progress(e, false, &v, &more, &error) != TUTTI_OK || something_new(&v)) {
        return; /* whoever attends to a posting will see a failure */
    }
    wait_for_event(&v, until_ns);
}
