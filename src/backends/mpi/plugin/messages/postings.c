/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting messages and waiting for them, in one call or in two steps. A posting is a batch of requests with one
 * deadline and one result.
 *
 * Life in two steps: post; then test or attend, by any thread, until the posting has ended; then end, which frees it.
 * Cancel may run beside test and attend, but not beside end. In one call all of it is on the caller's stack.
 *
 * Locks: requests and their status, `open`, `status` and `error` of a posting are under messages.lock from the post
 * until the posting has ended, since any thread of the group makes progress for all postings. Before and afterwards
 * they belong to the thread that posts or ends it.
 */
#include "backends/mpi/plugin/messages/postings.h"

#include <stdlib.h>

#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/messages/progress.h"
#include "backends/mpi/plugin/open_groups.h"
#include "backends/mpi/plugin/poll_loop.h"
#include "base/clock.h"
#include "base/error.h"
#include "engine/p2p/message_rules.h"

/* With the lock: the group has failed with p->error, so all open requests end. */
static void end_all(struct tti_mpi_group *g, struct tti_mpi_posting *p, tutti_status status)
{
    p->status = status;
    for (size_t i = 0; i < p->count; i++) {
        tti_mpi_withdraw(g, &p->requests[i], status);
    }
}

/* With the lock: the deadline has passed with requests open. */
static void time_out(struct tti_mpi_group *g, struct tti_mpi_posting *p)
{
    const struct tti_mpi_request *first = p->requests; /* that is not done: there is one, as the posting is open */
    while (first->done) {
        first++;
    }
    tti_message_late(&p->error, first->op, g->rank, p->begun_ns, p->timeout_ms);
    tti_mpi_fail(g, &p->error);
    end_all(g, p, TUTTI_TIMEOUT);
}

/* With the lock: one round for all messages of the group. An error fails the group, since a message may be lost. */
static tutti_status make_progress(struct tti_mpi_group *g, tutti_error *error)
{
    const tutti_status status = tti_mpi_progress(g, error);
    if (status != TUTTI_OK) {
        error->scope = TUTTI_SCOPE_GROUP;
        tti_mpi_fail(g, error);
    }
    return status;
}

/* With the lock: the same, if the posting is open. An error ends it. */
static void make_progress_for(struct tti_mpi_group *g, struct tti_mpi_posting *p)
{
    tutti_error error;
    if (p->open == 0) {
        return;
    }
    const tutti_status status = make_progress(g, &error);
    if (status != TUTTI_OK && p->open > 0) {
        p->error = error;
        end_all(g, p, status);
    }
}

static tutti_status begin(struct tti_mpi_group *g, struct tti_mpi_posting *p, tutti_op *const *ops, int64_t timeout_ms)
{
    struct tti_mpi_messages *m = &g->messages;
    tutti_status status = tti_mpi_check(g, false, &p->error);
    if (status != TUTTI_OK) {
        return status;
    }
    p->open = p->count;
    p->begun_ns = ops[0]->begun_ns != 0 ? ops[0]->begun_ns : tti_now_ns();
    p->timeout_ms = timeout_ms;
    p->deadline_ns = tti_deadline_ns(p->begun_ns, timeout_ms);
    p->status = TUTTI_OK;
    for (size_t i = 0; i < p->count; i++) {
        p->requests[i] = (struct tti_mpi_request){
            .op = ops[i], .posting = p, .envelope_request = MPI_REQUEST_NULL, .one_chunk = MPI_REQUEST_NULL};
    }
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < p->count; i++) {
        ops[i]->sequence = ++m->sequence;
        if (ops[i]->kind == TUTTI_OP_SEND) {
            tti_mpi_post_send(g, &p->requests[i]);
        } else {
            tti_mpi_post_recv(g, &p->requests[i]);
        }
    }
    make_progress_for(g, p);
    pthread_mutex_unlock(&m->lock);
    return TUTTI_OK;
}

/* The first failure in the order of the operations, with a sentence of its own. */
static tutti_status first_failure(struct tti_mpi_group *g, struct tti_mpi_posting *p)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct tti_mpi_request *r = &p->requests[i];
        if (r->status == TUTTI_OK) {
            continue;
        }
        if (r->status == TUTTI_BACKEND || r->status == TUTTI_PEER_LEFT) { /* those have a sentence already */
            p->error.suspect = r->info.size ? r->info.source : r->op->root;
            return r->status;
        }
        return tti_message_failure(&p->error, r->op, r->status, &r->info, g->rank);
    }
    return TUTTI_OK;
}

static tutti_status result(struct tti_mpi_group *g, struct tti_mpi_posting *p, tutti_error *error)
{
    for (size_t i = 0; i < p->count; i++) {
        p->requests[i].op->status = p->requests[i].status;
    }
    const tutti_status status = p->status != TUTTI_OK ? p->status : first_failure(g, p);
    if (status != TUTTI_OK) {
        *error = p->error;
    }
    return status;
}

/* One poll: true if the posting has ended. */
static bool poll_posting(struct tti_mpi_group *g, struct tti_mpi_posting *p, struct tti_mpi_poll_loop *loop)
{
    struct tti_mpi_messages *m = &g->messages;
    pthread_mutex_lock(&m->lock);
    make_progress_for(g, p);
    const bool ended = p->open == 0;
    pthread_mutex_unlock(&m->lock);
    if (ended) {
        return true;
    }
    tutti_error error; /* not p->error: without the lock another thread may write it, with the result of a request */
    const tutti_status status = tti_mpi_poll_step(loop, &error);
    if (status == TUTTI_OK) {
        return false;
    }
    pthread_mutex_lock(&m->lock);
    if (p->open > 0 && status == TUTTI_TIMEOUT) {
        time_out(g, p);
    } else if (p->open > 0) {
        p->error = error;
        end_all(g, p, status);
    }
    pthread_mutex_unlock(&m->lock);
    return true;
}

static tutti_status make_requests(struct tti_mpi_posting *p, size_t count, tutti_error *error)
{
    const size_t few = sizeof(p->few) / sizeof(p->few[0]);
    p->count = count;
    p->requests = count > few ? malloc(count * sizeof(*p->requests)) : p->few;
    return p->requests ? TUTTI_OK : tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %zu messages", count);
}

static void free_requests(struct tti_mpi_posting *p)
{
    if (p->requests != p->few) {
        free(p->requests);
    }
}

tutti_status tti_mpi_run_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, tutti_error *error)
{
    struct tti_mpi_group *g = state;
    struct tti_mpi_posting p; /* begin fills the fields that are used */
    struct tti_mpi_poll_loop loop;
    tutti_status status = make_requests(&p, count, error);
    if (status != TUTTI_OK) {
        return status;
    }
    if (!tti_mpi_use(g)) {
        free_requests(&p);
        return tti_mpi_finalizing_error(g, error);
    }
    status = begin(g, &p, ops, timeout_ms);
    if (status == TUTTI_OK) {
        tti_mpi_poll_loop_init(&loop, g, p.begun_ns, timeout_ms, false);
        while (!poll_posting(g, &p, &loop)) {
        }
        status = result(g, &p, error);
    } else {
        *error = p.error;
    }
    tti_mpi_unuse(g);
    free_requests(&p);
    return status;
}

tutti_status tti_mpi_post_p2p(void *state, tutti_op *const *ops, size_t count, int64_t timeout_ms, void **batch,
                              tutti_error *error)
{
    struct tti_mpi_group *g = state;
    struct tti_mpi_posting *p = malloc(sizeof(*p));
    if (!p) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for %zu messages", count);
    }
    tutti_status status = make_requests(p, count, error);
    if (status != TUTTI_OK) {
        free(p);
        return status;
    }
    if (tti_mpi_use(g)) {
        status = begin(g, p, ops, timeout_ms);
        tti_mpi_unuse(g);
    } else {
        status = tti_mpi_finalizing_error(g, &p->error);
    }
    if (status != TUTTI_OK) {
        *error = p->error;
        free_requests(p);
        free(p);
        return status;
    }
    *batch = p;
    return TUTTI_OK;
}

int32_t tti_mpi_test_p2p(void *state, void *batch)
{
    struct tti_mpi_group *g = state;
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_posting *p = batch;
    tutti_error error;
    const bool used = tti_mpi_use(g);
    pthread_mutex_lock(&m->lock);
    if (used) {
        make_progress_for(g, p);
    }
    if (p->open > 0 && (used ? tti_mpi_check(g, false, &error) : tti_mpi_finalizing_error(g, &error)) != TUTTI_OK) {
        p->error = error;
        end_all(g, p, error.status);
    }
    if (p->open > 0 && p->deadline_ns != TTI_NEVER && tti_now_ns() >= p->deadline_ns) {
        time_out(g, p);
    }
    const int32_t ended = p->open == 0;
    pthread_mutex_unlock(&m->lock);
    if (used) {
        tti_mpi_unuse(g);
    }
    return ended;
}

void tti_mpi_attend_p2p(void *state, void *batch, int64_t until_ns)
{
    struct tti_mpi_group *g = state;
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_poll_loop loop;
    tutti_error unused;
    if (!tti_mpi_use(g)) {
        return;
    }
    tti_mpi_poll_loop_init(&loop, g, 0, -1, batch == NULL);
    for (;;) {
        bool changed = false;
        if (batch) {
            changed = tti_mpi_test_p2p(state, batch) == 1;
        } else {
            pthread_mutex_lock(&m->lock);
            make_progress(g, &unused); /* an error fails the group, and so ends each posting at its next test */
            pthread_mutex_unlock(&m->lock);
            /* acquire: pairs with the releases that follow the end of a request, a failure and tti_mpi_wake_p2p. A
             * request may have ended since the last return, after the worker tested it. */
            const uint32_t changes = atomic_load_explicit(&m->changes, memory_order_acquire);
            changed = changes != m->changes_seen;
            m->changes_seen = changes;
        }
        if (changed || (until_ns != TTI_NEVER && tti_now_ns() >= until_ns) ||
            tti_mpi_poll_step(&loop, &unused) != TUTTI_OK) {
            break;
        }
    }
    tti_mpi_unuse(g);
}

void tti_mpi_wake_p2p(void *state)
{
    struct tti_mpi_group *g = state;
    atomic_fetch_add_explicit(&g->messages.changes, 1, memory_order_release);
}

int32_t tti_mpi_cancel_p2p(void *state, void *batch)
{
    struct tti_mpi_group *g = state;
    struct tti_mpi_messages *m = &g->messages;
    struct tti_mpi_posting *p = batch;
    bool before = true;
    bool begun = false;
    pthread_mutex_lock(&m->lock);
    for (size_t i = 0; i < p->count; i++) {
        const struct tti_mpi_request *r = &p->requests[i];
        before = before && r->done && r->status == TUTTI_CANCELLED;
        begun = begun || r->done || tti_mpi_has_begun(m, r);
    }
    for (size_t i = 0; !begun && i < p->count; i++) {
        tti_mpi_withdraw(g, &p->requests[i], TUTTI_CANCELLED);
    }
    pthread_mutex_unlock(&m->lock);
    return !begun || before;
}

tutti_status tti_mpi_end_p2p(void *state, void *batch, tutti_error *error)
{
    struct tti_mpi_posting *p = batch;
    const tutti_status status = result(state, p, error);
    free_requests(p);
    free(p);
    return status;
}

tutti_status tti_mpi_probe(void *state, int32_t peer, int32_t tag, int32_t *found, tutti_message *message,
                           tutti_error *error)
{
    struct tti_mpi_group *g = state;
    struct tti_mpi_messages *m = &g->messages;
    const tutti_op wanted = {.root = peer, .p2p_tag = tag};
    if (!tti_mpi_use(g)) {
        return tti_mpi_finalizing_error(g, error);
    }
    tutti_status status = tti_mpi_check(g, false, error);
    if (status != TUTTI_OK) {
        tti_mpi_unuse(g);
        return status;
    }
    pthread_mutex_lock(&m->lock);
    status = make_progress(g, error);
    const struct tti_mpi_envelope *envelope = tti_mpi_find_envelope(m, &wanted);
    if (envelope && message) {
        tti_mpi_envelope_message(envelope, message);
    }
    *found = envelope != NULL;
    pthread_mutex_unlock(&m->lock);
    tti_mpi_unuse(g);
    return status;
}
