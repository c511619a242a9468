/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for messages. A waiting thread makes progress, then polls the words of its monitor without the lock. If none
 * changes, it checks the deadline, failures and ranks that leave. Then it yields, and later sleeps on these words
 * (futex).
 */
#include "engine/p2p/wait.h"

#include "base/wait/backoff.h"
#include "base/wait/yielding.h"
#include "engine/failure/fault.h"
#include "engine/failure/peers.h"
#include "engine/p2p/match.h"
#include "engine/p2p/message_rules.h"
#include "engine/p2p/progress.h"
#include "engine/p2p/rings/rings.h"
#include "engine/wait/publish.h"

#define ROUNDS_PER_CHECK 16 /* one of them reads the clock, however short the waits are */
#define EAGER_POLLS      64 /* without a pause */
#define EAGER_YIELDS     16 /* for one record only */
#define YIELDS_PER_DRAIN 8
#define SPINS_IN_VAIN    4 /* for one posting: then the peer may need this very CPU */
#define TESTS_PER_DRAIN  16

bool tti_p2p_await_record(const struct tti_engine *e, int peer, uint64_t number)
{
    const struct tti_slot *slot = tti_slot(e, peer, e->rank, number);
    for (unsigned i = 0; i < EAGER_POLLS; i++) {
        if (tti_slot_has(slot, number)) {
            return true;
        }
    }
    const bool shared = e->ranks_per_cpu > 1; /* the sender may need this very CPU */
    struct tti_spin *spin = &e->p2p->peers[peer].spin;
    const unsigned full = shared ? 0 : e->spin_polls / 2;
    const unsigned polls = tti_spin_polls(spin, full);
    for (unsigned i = 0; i < polls; i++) {
        if (tti_slot_has(slot, number)) {
            tti_spin_succeeded(spin, polls == full);
            return true;
        }
        tti_backoff();
    }
    if ((!shared && e->yield_ns == 0) || !tti_yield_pays()) {
        return false;
    }
    struct tti_yields yields = {.now_ns = tti_now_ns()};
    bool pays = true;
    for (unsigned i = 0; pays && i < (shared ? EAGER_YIELDS : TTI_SPIN_YIELDS); i++) {
        pays = tti_yield_to_ranks(e, &yields);
        if (tti_slot_has(slot, number)) {
            if (full > 0 && i < TTI_SPIN_YIELDS) {
                tti_spin_failed(spin);
            }
            return true;
        }
    }
    return false;
}

/* ---- checks of a long wait --------------------------------------------------------------------------------------- */

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

/* A request whose peer has left ends only if the peer has published all it needs. */
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
    tutti_status status = tti_p2p_drain(e, &p->error); /* what the peers published before they left */
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < p->count; i++) {
        if (!tti_p2p_is_done(&p->requests[i]) && p->requests[i].peer_gone) {
            tti_p2p_withdraw(e, &p->requests[i], TUTTI_PEER_LEFT);
        }
    }
    pthread_mutex_unlock(&e->p2p->lock);
    return status;
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
            tti_message_describe(op, first, sizeof(first));
        }
        int peer = tti_p2p_peer_of(&p->requests[i]);
        if (peer != TUTTI_ANY_SOURCE) {
            tti_peers_add(suspects, peer);
        }
    }
    pthread_mutex_unlock(&p->e->p2p->lock);
    if (open == 0) {
        return TUTTI_OK; /* another thread has just ended the last one */
    }
    int64_t elapsed = (now - p->started_ns) / 1000000;
    char names[200];
    tti_peers_text(p->e, TTI_FAULT_MESSAGES, suspects, names, sizeof(names));
    /* Checked last: a peer may have failed because of another rank meanwhile. */
    const tutti_status earlier = tti_fault_check_messages(p->e, &p->error);
    if (earlier != TUTTI_OK) {
        return earlier;
    }
    tti_error_set(&p->error, TUTTI_TIMEOUT, "%s waited %lld ms for the other side (%zu of %zu messages open)%s%s",
                  first, (long long)elapsed, open, p->count, names[0] ? ": " : "", names);
    p->error.elapsed_ms = elapsed;
    return tti_fault_raise(p->e, NULL, suspects, &p->error);
}

/* After TTI_LIVENESS_CHECK_NS of waiting: checks whether the peer still lives; for any source, one rank after the
 * other. */
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

/* Shows the readers of the flight recorder since when this rank waits. */
static void publish_wait_start(const struct tti_posting *p, int64_t since_ns)
{
    for (size_t i = 0; i < p->count; i++) {
        int64_t *since = p->requests[i].op->waits_since;
        if (since) { /* relaxed: as in wait/wait.c */
            atomic_store_explicit((_Atomic int64_t *)since, since_ns, memory_order_relaxed);
        }
    }
}

/* Checks the alarm and which ranks have left, and sets the deadline. */
static tutti_status check_failures(struct tti_posting *p, int64_t now)
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

/* Ends the posting, if all its requests are done or there is a failure. True if it is over. A failure is about the
 * requests that were open: if there are none, since another thread or the same round has ended the last one, each keeps
 * its own status. */
static bool end_if_over(struct tti_posting *p, tutti_status status)
{
    bool done = tti_p2p_all_done(p);
    if (status == TUTTI_OK && !done) {
        return false;
    }
    struct tti_engine *e = p->e;
    if (!done) {
        pthread_mutex_lock(&e->p2p->lock); /* another thread may be working at a request */
        done = tti_p2p_all_done(p);
        for (size_t i = 0; i < p->count; i++) {
            if (!tti_p2p_is_done(&p->requests[i])) {
                tti_p2p_withdraw(e, &p->requests[i], status);
            }
        }
        pthread_mutex_unlock(&e->p2p->lock);
    }
    p->status = done ? TUTTI_OK : status;
    p->over = true;
    return true;
}

bool tti_p2p_test(struct tti_posting *p)
{
    struct tti_engine *e = p->e;
    /* acquire: pairs with tti_engine_wake_p2p; a later wake ends the next wait at once */
    p->wakes_seen = atomic_load_explicit(&e->p2p->wakes, memory_order_acquire);
    if (p->over || end_if_over(p, TUTTI_OK)) {
        return true;
    }
    /* relaxed; a caller that only tests has to visit all peers now and then, too */
    uint32_t tests = atomic_fetch_add_explicit(&e->p2p->tests, 1, memory_order_relaxed);
    bool all = tests % TESTS_PER_DRAIN == TESTS_PER_DRAIN - 1;
    bool more;
    if (end_if_over(p, tti_p2p_make_progress(e, all, NULL, &more, &p->error))) {
        return true;
    }
    int64_t now = tti_now_ns();
    tutti_status status = check_failures(p, now);
    if (status == TUTTI_OK && now >= p->deadline_ns && !tti_p2p_all_done(p)) {
        status = timed_out(p, now);
    }
    return end_if_over(p, status);
}

/* Yields, or sleeps after a visit of all peers. */
static tutti_status yield_or_sleep(struct tti_p2p_wait_monitor *v, int64_t now, uint32_t alarm, int64_t deadline)
{
    struct tti_engine *e = v->e;
    bool sleeps = now >= v->yield_until;
    if (sleeps || v->yield_count++ % YIELDS_PER_DRAIN == 0) {
        tutti_error error;
        tutti_status status = tti_p2p_drain(e, v->p ? &v->p->error : &error);
        if (status != TUTTI_OK || tti_p2p_has_event(v)) {
            return status;
        }
    }
    if (!sleeps) {
        v->yields.now_ns = now;
        v->yield_until = tti_yield_to_ranks(e, &v->yields) ? v->yield_until : now;
        if (v->spun && v->yield_count <= TTI_SPIN_YIELDS && tti_p2p_has_event(v)) {
            v->spun = false;
            tti_spin_failed(&e->p2p->spin);
        }
        return TUTTI_OK;
    }
    /* seq_cst: pairs with tti_p2p_wake */
    atomic_fetch_add_explicit(&e->p2p->sleepers, 1, memory_order_seq_cst);
    tti_sleep(e, e->layout.lanes, v->awaited, v->seen, v->count, alarm, &e->p2p->completed, v->completed_seen,
              deadline);
    /* relaxed: a superfluous wake does no harm */
    atomic_fetch_sub_explicit(&e->p2p->sleepers, 1, memory_order_relaxed);
    return TUTTI_OK;
}

/* Waits for an event of the monitor, until_ns, or the deadline. */
static tutti_status wait_for_event(struct tti_p2p_wait_monitor *v, int64_t until_ns)
{
    struct tti_engine *e = v->e;
    const unsigned full = v->p && v->count <= 2 ? e->spin_polls : e->spin_polls / 4;
    const unsigned polls = v->spins ? tti_spin_polls(&e->p2p->spin, full) : 0;
    for (unsigned i = 0; i < polls; i++) {
        if (i >= EAGER_POLLS) {
            tti_backoff();
        }
        if (tti_p2p_has_event(v)) {
            tti_spin_succeeded(&e->p2p->spin, polls == full);
            return TUTTI_OK;
        }
    }
    v->spun = v->spun || polls > 0;
    v->spins_in_vain += v->spins;
    v->spins = false;
    int64_t now = tti_now_ns();
    uint32_t alarm = v->p ? 0 : e->p2p->worker_alarm_seen; /* only the worker waits without a posting */
    int64_t deadline = until_ns;
    if (v->p) {
        tutti_status status = check_failures(v->p, now);
        if (status != TUTTI_OK) {
            return status;
        }
        alarm = v->p->alarm_seen;
        deadline = v->p->deadline_ns < until_ns ? v->p->deadline_ns : until_ns;
    }
    if (v->yield_until == 0) {
        v->yield_until = v->p && e->yield_ns > 0 && tti_yield_pays() ? now + e->yield_ns : now;
    }
    if (tti_p2p_has_event(v) || (v->p && tti_p2p_all_done(v->p))) {
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

/* The deadline holds beside a busy peer, too, but not for a message whose data are there. */
static tutti_status check_deadline(struct tti_posting *p)
{
    const int64_t now = tti_now_ns();
    tutti_status status = check_failures(p, now);
    if (status == TUTTI_OK && now >= p->deadline_ns && (status = tti_p2p_drain(p->e, &p->error)) == TUTTI_OK) {
        status = timed_out(p, now);
    }
    return status;
}

bool tti_p2p_wait(struct tti_p2p_wait_monitor *v, int64_t until_ns)
{
    struct tti_posting *p = v->p;
    tutti_status status = TUTTI_OK;
    bool more;
    for (unsigned round = 1;; round++) {
        if (p->over || end_if_over(p, v->fresh ? TUTTI_OK : tti_p2p_make_progress(p->e, false, v, &more, &p->error))) {
            return true;
        }
        v->fresh = false;
        if (woken(p) || (until_ns != TTI_NEVER && tti_now_ns() >= until_ns)) {
            return false;
        }
        if (!tti_p2p_has_event(v)) {
            status = wait_for_event(v, until_ns);
            /* a peer that was late is at work now */
            v->spins =
                v->spins || (p->e->ranks_per_cpu <= 1 && v->spins_in_vain < SPINS_IN_VAIN && tti_p2p_peer_has_moved(v));
        }
        if (status == TUTTI_OK && round % ROUNDS_PER_CHECK == 0) {
            status = check_deadline(p);
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
    v.completed_seen = completed; /* from before the round, so that what it ends is an event */
    if (stale || tti_p2p_make_progress(e, false, &v, &more, &error) != TUTTI_OK || tti_p2p_has_event(&v)) {
        return; /* a thread that waits for a posting reports a failure */
    }
    wait_for_event(&v, until_ns);
}
