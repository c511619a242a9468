/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, from the call to its end. What is queued on the lane's stream waits for the event behind which the
 * tensors are ready; the library's kernels and the copies around them follow; an event marks the end. The library has no
 * deadlines and its kernels wait for ever, so this thread polls: whether the library has launched what it was given, then
 * the event, and now and then the communicator's state and the clock.
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/nccl/state.h"
#include "base/clock.h"
#include "base/error.h"

#define POLLS_BEFORE_YIELD 64u
#define POLLS_BEFORE_NAP   4096u /* some milliseconds: asking a device for an event takes about a microsecond */
#define POLLS_BEFORE_LOOK  256u
#define NAP_NS             50000
/* Who is missing: ranks that wait say so after a quarter of their time, and who gives up waits half as long again for those
 * that have come last. */
#define NOTIFY_MS INT64_C(1000)
#define QUERY_MS  INT64_C(2000)

bool tti_nccl_backoff_step(struct tti_nccl_backoff *backoff)
{
    backoff->polls++;
    if (backoff->polls < POLLS_BEFORE_YIELD) {
        return false;
    }
    if (backoff->polls < (backoff->background ? POLLS_BEFORE_LOOK : POLLS_BEFORE_NAP)) {
        sched_yield();
        return backoff->polls % POLLS_BEFORE_LOOK == 0;
    }
    const struct timespec nap = {.tv_nsec = NAP_NS};
    nanosleep(&nap, NULL);
    return true;
}

static tutti_status too_late(struct tti_nccl_call *c, const char *what)
{
    const struct tti_nccl_group *g = c->group;
    const tutti_wait_registry *others = g->wait_registry;
    const int64_t elapsed = (tti_now_ns() - c->started_ns) / 1000000;
    tti_error_set(c->error, TUTTI_TIMEOUT, "%s: call %lld on lane %d of rank %d has not %s after %lld ms",
                  tutti_operation_name(c->op->kind), (long long)c->op->sequence, c->op->lane, g->rank, what,
                  (long long)elapsed);
    c->error->elapsed_ms = elapsed;
    if (others) {
        const int64_t wait_ms = c->op->timeout_ms / 2 < QUERY_MS ? c->op->timeout_ms / 2 : QUERY_MS;
        others->find_missing(others->self, c->op, wait_ms, c->error);
    } else {
        const size_t used = strlen(c->error->message);
        snprintf(c->error->message + used, sizeof(c->error->message) - used,
                 ": a rank has not come or has died, and %s cannot say which", g->library->display_name);
    }
    return TUTTI_TIMEOUT;
}

/* TIMEOUT if the deadline has passed. Long before that the other ranks hear that this one is here. */
static tutti_status check_clock(struct tti_nccl_call *c, const char *what)
{
    const tutti_wait_registry *others = c->group->wait_registry;
    const int64_t now_ns = tti_now_ns();
    if (now_ns >= c->deadline_ns) {
        return too_late(c, what);
    }
    if (others && !c->notified && now_ns >= c->notify_ns) {
        others->report(others->self, c->op, NULL);
        c->notified = true;
    }
    return TUTTI_OK;
}

/* ---- visits to the library ------------------------------------------------------------------------------------------ */

/* acquire: pairs with the release in failure.c. Whoever fails the group takes the communicator under the lane's lock. */
static bool has_failed(const struct tti_nccl_group *g)
{
    return atomic_load_explicit(&g->failed, memory_order_acquire) != TUTTI_OK;
}

tti_nccl_comm tti_nccl_comm_acquire(struct tti_nccl_group *g, struct tti_nccl_lane *lane, tutti_error *error)
{
    pthread_mutex_lock(&lane->lock);
    while (lane->inside && !has_failed(g)) { /* tutti_register, for a moment */
        pthread_cond_wait(&lane->changed, &lane->lock);
    }
    const tti_nccl_comm comm = has_failed(g) ? NULL : lane->comm;
    lane->inside = lane->inside || comm;
    pthread_mutex_unlock(&lane->lock);
    if (!comm) {
        tti_nccl_check(g, error);
    }
    return comm;
}

void tti_nccl_comm_release(struct tti_nccl_lane *lane)
{
    pthread_mutex_lock(&lane->lock);
    lane->inside = false;
    pthread_cond_broadcast(&lane->changed);
    pthread_mutex_unlock(&lane->lock);
}

static tutti_status failed_at(struct tti_nccl_call *c, tti_nccl_comm comm, int code, const char *what)
{
    char reason[256];
    tti_nccl_error_text(c->group->library, comm, code, reason);
    tti_error_set(c->error, TUTTI_BACKEND, "%s: nccl%s of call %lld on lane %d of rank %d failed after %lld ms: %s",
                  tutti_operation_name(c->op->kind), what, (long long)c->op->sequence, c->op->lane, c->group->rank,
                  (long long)((tti_now_ns() - c->started_ns) / 1000000), reason);
    c->error->vendor_code = code;
    c->error->elapsed_ms = (tti_now_ns() - c->started_ns) / 1000000;
    return TUTTI_BACKEND;
}

/* The state of the communicator: OK, or the error. *code tells whether something is under way. */
static tutti_status look(struct tti_nccl_call *c, int *code, const char *what)
{
    const tti_nccl_comm comm = tti_nccl_comm_acquire(c->group, c->lane, c->error);
    if (!comm) {
        return TUTTI_REVOKED;
    }
    int state = TTI_NCCL_SUCCESS;
    const int asked = c->group->library->CommGetAsyncError(comm, &state);
    *code = asked == TTI_NCCL_SUCCESS ? state : asked;
    const bool fine = *code == TTI_NCCL_SUCCESS || *code == TTI_NCCL_IN_PROGRESS;
    const tutti_status status = fine ? TUTTI_OK : failed_at(c, comm, *code, what);
    tti_nccl_comm_release(c->lane);
    return status;
}

tutti_status tti_nccl_await_launch(struct tti_nccl_call *c, tti_nccl_comm comm, int code, const char *what)
{
    struct tti_nccl_backoff backoff = {.background = c->op->background != 0};
    tutti_status status = TUTTI_OK;
    if (code != TTI_NCCL_SUCCESS && code != TTI_NCCL_IN_PROGRESS) {
        status = failed_at(c, comm, code, what);
    }
    tti_nccl_comm_release(c->lane);
    while (status == TUTTI_OK && code == TTI_NCCL_IN_PROGRESS) {
        status = look(c, &code, what);
        if (status == TUTTI_OK && code == TTI_NCCL_IN_PROGRESS && tti_nccl_backoff_step(&backoff)) {
            status = check_clock(c, "begun");
        }
    }
    return status;
}

/* ---- the stream ----------------------------------------------------------------------------------------------------- */

/* What has become too small stays until the group ends: freeing it would wait for all that runs on the device, also for other
 * lanes' kernels, which wait for other ranks, which may wait for this lane. It doubles, so that is no more than the last. */
unsigned char *tti_nccl_scratch(struct tti_nccl_call *c, size_t bytes)
{
    struct tti_nccl_lane *lane = c->lane;
    const struct tti_device *device = c->group->device;
    if (bytes <= lane->scratch_bytes) {
        return lane->scratch;
    }
    const size_t twice = 2 * lane->scratch_bytes;
    void *memory = NULL;
    bytes = bytes < twice ? twice : bytes;
    if (device->alloc(bytes, &memory, c->error) != TUTTI_OK) {
        return NULL;
    }
    if (lane->scratch) {
        lane->outgrown[lane->outgrown_count++] = lane->scratch;
    }
    lane->scratch = memory;
    lane->scratch_bytes = bytes;
    return lane->scratch;
}

/* Waits for the end of what is queued. */
static tutti_status finish(struct tti_nccl_call *c)
{
    const struct tti_device *device = c->group->device;
    struct tti_nccl_backoff backoff = {.background = c->op->background != 0};
    int32_t done = 0;
    int code = TTI_NCCL_SUCCESS;
    tutti_status status = device->event_record(c->lane->event, c->lane->stream, c->error);
    while (status == TUTTI_OK && !done) {
        status = device->event_query(c->lane->event, &done, c->error);
        if (status == TUTTI_OK && !done && tti_nccl_backoff_step(&backoff)) {
            status = look(c, &code, "CommGetAsyncError");
            if (status == TUTTI_OK && (status = check_clock(c, "ended")) == TUTTI_TIMEOUT &&
                device->event_query(c->lane->event, &done, NULL) == TUTTI_OK && done) {
                status = tti_error_clear(c->error); /* who was missing has come while the others were asked */
            }
        }
    }
    /* Kernels end early when their communicator is aborted: the results count only if it is still there behind them. */
    return status == TUTTI_OK ? look(c, &code, "CommGetAsyncError") : status;
}

static tutti_status run_inside(struct tti_nccl_call *c)
{
    const struct tti_device *device = c->group->device;
    tutti_status status = TUTTI_OK;
    if (c->op->after) {
        status = device->stream_wait_event(c->lane->stream, c->op->after, c->error);
    }
    if (status == TUTTI_OK && (status = tti_nccl_queue(c)) == TUTTI_OK) {
        status = finish(c);
    }
    if (status != TUTTI_OK) {
        tti_nccl_abort_call(c, status);
    }
    return status;
}

tutti_status tti_nccl_run(void *state, tutti_op *op, tutti_error *error)
{
    struct tti_nccl_group *g = state;
    struct tti_nccl_lane *lane = &g->lane[op->lane];
    struct tti_device_scope scope;
    const int64_t started_ns = op->begun_ns != 0 ? op->begun_ns : tti_now_ns();
    struct tti_nccl_call c = {.group = g,
                              .lane = lane,
                              .op = op,
                              .error = error,
                              .started_ns = started_ns,
                              .deadline_ns = tti_deadline_ns(started_ns, op->timeout_ms)};
    c.notify_ns = tti_now_ns() +
                  (op->timeout_ms >= 0 && op->timeout_ms / 4 < NOTIFY_MS ? op->timeout_ms / 4 : NOTIFY_MS) * 1000000;
    op->sequence = atomic_load_explicit(&lane->calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&lane->calls, op->sequence, memory_order_relaxed);
    tutti_status status = tti_nccl_check(g, error);
    if (status != TUTTI_OK) {
        return status;
    }
    status = g->device->enter(g->index, &scope, error);
    if (status != TUTTI_OK) { /* the other ranks go on */
        tti_nccl_fail(g, error);
        return status;
    }
    atomic_store_explicit(&lane->algorithm, g->library->backend, memory_order_relaxed);
    status = run_inside(&c);
    g->device->leave(&scope);
    return status;
}
