/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting messages. A posting is a set of requests that start together and end one by one. It lies on the stack of a
 * synchronous call, or comes from a list for an asynchronous one. A posting is over when all its requests are.
 *
 * A message of a synchronous call, if it is not large, needs no request when the rings have room for it, or when it has
 * begun to arrive: no list is touched. Such messages run first, so that a batch whose messages all fit the rings makes
 * no request.
 */
#include "engine/p2p/p2p.h"

#include <stdlib.h>

#include "engine/failure/fault.h"
#include "engine/p2p/match.h"
#include "engine/p2p/message_rules.h"
#include "engine/p2p/messages.h"
#include "engine/p2p/progress.h"
#include "engine/p2p/requests.h"
#include "engine/p2p/rings/recv.h"
#include "engine/p2p/rings/send.h"
#include "engine/p2p/wait.h"
#include "engine/wait/publish.h"

tutti_status tti_p2p_create(struct tti_engine *e, tutti_error *error)
{
    e->p2p = calloc(1, sizeof(*e->p2p));
    if (e->p2p) {
        pthread_mutex_init(&e->p2p->lock, NULL);
        e->p2p->peers = calloc((size_t)e->size, sizeof(*e->p2p->peers));
    }
    return e->p2p && e->p2p->peers
               ? TUTTI_OK
               : tti_error_set(error, TUTTI_NO_MEMORY, "rank %d has no memory for the messages of %d ranks", e->rank,
                               e->size);
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
        free(e->p2p->peers[r].ends);
    }
    while (e->p2p->idle) {
        struct tti_posting *next = e->p2p->idle->next_idle;
        free(e->p2p->idle);
        e->p2p->idle = next;
    }
    pthread_mutex_destroy(&e->p2p->lock);
    free(e->p2p->spare);
    free(e->p2p->peers);
    free(e->p2p);
}

/* OK, or the failure of the group. */
static tutti_status poll_for_failure(struct tti_posting *p)
{
    struct tti_engine *e = p->e;
    p->alarm_seen = atomic_load_explicit(tti_alarm(e), memory_order_acquire);
    if (p->alarm_seen == atomic_load_explicit(&e->p2p->alarm_clean, memory_order_relaxed)) {
        return TUTTI_OK;
    }
    tutti_status status = tti_fault_check(e, NULL, -1, &p->error);
    if (status == TUTTI_OK) {
        atomic_store_explicit(&e->p2p->alarm_clean, p->alarm_seen, memory_order_relaxed);
    }
    return status;
}

/* Posts the operations that have no sequence number yet, p->count of them, and makes progress once. Fills the wait
 * monitor, if there is one. */
static tutti_status begin(struct tti_posting *p, tutti_op *const *ops, int64_t timeout_ms,
                          struct tti_p2p_wait_monitor *v)
{
    struct tti_engine *e = p->e;
    struct tti_p2p *p2p = e->p2p;
    p->timeout_ms = timeout_ms;
    p->started_ns = ops[0]->begun_ns;
    p->deadline_ns = p->started_ns != 0 ? tti_deadline_ns(p->started_ns, timeout_ms) : 0;
    p->next_check_ns = 0;
    p->over = false;
    p->status = TUTTI_OK;
    tutti_status status = poll_for_failure(p);
    if (status != TUTTI_OK) {
        return status;
    }
    pthread_mutex_lock(&p2p->lock);
    uint32_t before = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    p->wakes_seen = atomic_load_explicit(&p2p->wakes, memory_order_relaxed);
    struct tti_request *r = p->requests;
    for (tutti_op *const *op = ops; r < p->requests + p->count; op++) {
        if ((*op)->sequence != 0) {
            continue; /* has run */
        }
        *r = (struct tti_request){.op = *op};
        r->op->sequence = ++p2p->sequence;
        if (r->op->kind == TUTTI_OP_SEND) {
            tti_p2p_post_send(e, r);
        } else {
            tti_p2p_post_recv(e, r);
        }
        r++;
    }
    bool more;
    tti_p2p_progress(e, false, v, &more, &p->error); /* the thread that waits finds a failure again */
    uint32_t after = atomic_load_explicit(&p2p->completed, memory_order_relaxed);
    pthread_mutex_unlock(&p2p->lock);
    if (after != before) {
        tti_p2p_wake(e);
    }
    return TUTTI_OK;
}

/* The first failure in the order of the operations; writes its sentence. */
static tutti_status first_failure(struct tti_posting *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct tti_request *r = &p->requests[i];
        if (r->status == TUTTI_OK) {
            continue;
        }
        return tti_message_failure(&p->error, r->op, r->status, &r->matched, p->e->rank);
    }
    return TUTTI_OK;
}

/* The status of a posting that is over. Sets the status of each operation. */
static tutti_status result(struct tti_posting *p, tutti_error *error)
{
    for (size_t i = 0; i < p->count; i++) {
        p->requests[i].op->status = p->requests[i].status;
    }
    tutti_status status = p->status != TUTTI_OK ? p->status : first_failure(p);
    if (status != TUTTI_OK) {
        *error = p->error;
    }
    return status;
}

/* ---- synchronous calls without requests -------------------------------------------------------------------------- */

/* Runs one operation without a request, if that is possible now, and the message has at most `most` bytes. */
static bool try_now(struct tti_engine *e, tutti_op *op, uint64_t most)
{
    if (!(op->kind == TUTTI_OP_SEND ? tti_p2p_try_send(e, op, most) : tti_p2p_try_recv(e, op, most))) {
        return false;
    }
    op->sequence = ++e->p2p->sequence;
    op->status = TUTTI_OK;
    return true;
}

/* Polls for the peer's next record without the lock. */
static bool await_message(struct tti_engine *e, int peer)
{
    struct tti_p2p *p2p = e->p2p;
    const struct tti_peer *p = &p2p->peers[peer];
    if (!p->opened || p->sends || p->messages || p2p->recvs) {
        return false;
    }
    const uint64_t number = p->read + 1;
    pthread_mutex_unlock(&p2p->lock);
    const bool arrived = tti_p2p_await_record(e, peer, number);
    pthread_mutex_lock(&p2p->lock);
    return arrived;
}

/* Sends until a ring is full: a later message must not overtake. False: some are left. */
static bool send_without_requests(struct tti_engine *e, tutti_op *const *ops, size_t count, uint64_t most, size_t *left)
{
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->kind == TUTTI_OP_SEND && !try_now(e, ops[i], most)) {
            return false;
        }
        *left -= ops[i]->kind == TUTTI_OP_SEND;
    }
    return true;
}

/* Receives in order, until a message is not there and does not arrive while this thread polls. */
static void receive_without_requests(struct tti_engine *e, tutti_op *const *ops, size_t count, uint64_t most,
                                     size_t *left)
{
    for (size_t i = 0; i < count; i++) {
        tutti_op *op = ops[i];
        if (op->kind == TUTTI_OP_SEND) {
            continue;
        }
        if (op->kind != TUTTI_OP_RECV || op->allocate || op->root == TUTTI_ANY_SOURCE ||
            !(try_now(e, op, most) || (await_message(e, op->root) && try_now(e, op, most)))) {
            return;
        }
        --*left;
    }
}

/* The receive of which a part has arrived is not posted. */
static void drop_begun(struct tti_engine *e, tutti_op *const *ops, size_t count)
{
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->kind == TUTTI_OP_RECV && ops[i]->sequence == 0) {
            tti_p2p_drop_begun(e, ops[i]);
        }
    }
    pthread_mutex_unlock(&e->p2p->lock);
}

/* Returns how many operations are left. Those that have run have a sequence number. */
static size_t run_without_requests(struct tti_engine *e, tutti_op *const *ops, size_t count)
{
    /* A large message may be received in part, and then needs a request, for which there must be memory. */
    const uint64_t most = count <= TTI_POSTING_FEW ? TTI_DIRECT : TTI_SMALL;
    size_t left = count;
    for (size_t i = 0; i < count; i++) {
        ops[i]->sequence = 0;
    }
    if (atomic_load_explicit(tti_alarm(e), memory_order_acquire) !=
            atomic_load_explicit(&e->p2p->alarm_clean, memory_order_relaxed) ||
        atomic_load_explicit(&e->failed, memory_order_acquire) != TUTTI_OK) {
        return left;
    }
    pthread_mutex_lock(&e->p2p->lock);
    if (send_without_requests(e, ops, count, most, &left)) {
        receive_without_requests(e, ops, count, most, &left);
    }
    pthread_mutex_unlock(&e->p2p->lock);
    return left;
}

tutti_status tti_engine_run_p2p(struct tti_engine *e, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                tutti_error *error)
{
    const size_t left = run_without_requests(e, ops, count);
    if (left == 0) {
        return TUTTI_OK;
    }
    struct tti_p2p_wait_monitor v;
    struct tti_posting p; /* begin fills what is used */
    p.e = e;
    p.requests = p.few;
    p.count = left;
    if (left > TTI_POSTING_FEW && !(p.requests = malloc(left * sizeof(*p.requests)))) {
        drop_begun(e, ops, count); /* only of a corrupt peer, which sends small messages in chunks */
        return tti_error_set(error, TUTTI_NO_MEMORY, "rank %d has no memory for a batch of %zu messages", e->rank,
                             left);
    }
    tti_p2p_wait_monitor_init(&v, e, &p);
    tutti_status status = begin(&p, ops, timeout_ms, &v);
    if (status == TUTTI_OK) {
        while (!tti_p2p_all_done(&p) && !tti_p2p_wait(&v, TTI_NEVER) && !tti_p2p_test(&p)) {
        }
        status = result(&p, error);
    } else {
        drop_begun(e, ops, count);
        *error = p.error;
    }
    if (p.requests != p.few) {
        free(p.requests);
    }
    return status;
}

/* ---- postings of asynchronous messages --------------------------------------------------------------------------- */

static struct tti_posting *take_posting(struct tti_engine *e, size_t count)
{
    pthread_mutex_lock(&e->p2p->lock);
    struct tti_posting *p = e->p2p->idle;
    if (p) {
        e->p2p->idle = p->next_idle;
    }
    pthread_mutex_unlock(&e->p2p->lock);
    if (!p && !(p = malloc(sizeof(*p)))) {
        return NULL;
    }
    p->e = e;
    p->count = count;
    p->requests = count > TTI_POSTING_FEW ? malloc(count * sizeof(*p->requests)) : p->few;
    if (!p->requests) {
        free(p);
        return NULL;
    }
    return p;
}

static void give_posting(struct tti_posting *p)
{
    struct tti_engine *e = p->e;
    if (p->requests != p->few) {
        free(p->requests);
    }
    pthread_mutex_lock(&e->p2p->lock);
    p->next_idle = e->p2p->idle;
    e->p2p->idle = p;
    pthread_mutex_unlock(&e->p2p->lock);
}

tutti_status tti_engine_post_p2p(struct tti_engine *e, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 void **batch, tutti_error *error)
{
    struct tti_posting *p = take_posting(e, count);
    if (!p) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "rank %d has no memory for %zu messages", e->rank, count);
    }
    for (size_t i = 0; i < count; i++) {
        ops[i]->sequence = 0;
    }
    tutti_status status = begin(p, ops, timeout_ms, NULL);
    if (status != TUTTI_OK) {
        *error = p->error;
        give_posting(p);
        return status;
    }
    tti_p2p_test(p);
    *batch = p;
    return TUTTI_OK;
}

int32_t tti_engine_test_p2p(struct tti_engine *e, void *batch)
{
    (void)e;
    return tti_p2p_test(batch);
}

void tti_engine_attend_p2p(struct tti_engine *e, void *batch, int64_t until_ns)
{
    if (batch) {
        struct tti_p2p_wait_monitor v;
        tti_p2p_wait_monitor_init(&v, e, batch);
        tti_p2p_wait(&v, until_ns);
    } else {
        tti_p2p_wait_any(e, until_ns);
    }
}

void tti_engine_wake_p2p(struct tti_engine *e)
{
    /* release: pairs with the acquire of waiting threads, which sleep on `completed`: see tti_p2p_wake */
    atomic_fetch_add_explicit(&e->p2p->wakes, 1, memory_order_release);
    atomic_fetch_add_explicit(&e->p2p->completed, 1, memory_order_seq_cst);
    tti_p2p_wake(e);
}

int32_t tti_engine_cancel_p2p(struct tti_engine *e, void *batch)
{
    struct tti_posting *p = batch;
    bool before = true; /* all were cancelled before */
    bool begun = false;
    pthread_mutex_lock(&e->p2p->lock);
    for (size_t i = 0; i < p->count; i++) {
        const struct tti_request *r = &p->requests[i];
        bool done = atomic_load_explicit(&r->done, memory_order_relaxed);
        before = before && done && r->status == TUTTI_CANCELLED;
        begun = begun || done || r->posted || r->matched.size != 0;
    }
    for (size_t i = 0; !begun && i < p->count; i++) {
        tti_p2p_withdraw(e, &p->requests[i], TUTTI_CANCELLED);
    }
    pthread_mutex_unlock(&e->p2p->lock);
    if (!begun) { /* makes the waiting thread test the posting */
        atomic_fetch_add_explicit(&e->p2p->completed, 1, memory_order_seq_cst);
        tti_p2p_wake(e);
    }
    return !begun || before;
}

tutti_status tti_engine_end_p2p(struct tti_engine *e, void *batch, tutti_error *error)
{
    (void)e;
    struct tti_posting *p = batch;
    tutti_status status = result(p, error);
    give_posting(p);
    return status;
}

tutti_status tti_engine_probe(struct tti_engine *e, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                              tutti_error *error)
{
    tutti_status status = tti_fault_check(e, NULL, -1, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if ((status = tti_p2p_drain(e, error)) != TUTTI_OK) {
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
