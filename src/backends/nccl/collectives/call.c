/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a call waits. The library has no deadlines, and its kernels wait for ever for a missing rank. So the calling
 * thread polls: whether the library has launched the work, then the event behind it, and now and then the
 * communicator's state and the clock. A poll acquires the communicator only for a moment.
 *
 * To name a missing rank, a rank that waits reports its call to the wait registry after a quarter of its time. A rank
 * whose deadline passes reads the reports of the others, and waits half its time again for late ones.
 */
#include "backends/nccl/collectives/call.h"

#include <stdio.h>
#include <string.h>

#include "backends/nccl/communicator/backoff.h"
#include "backends/nccl/communicator/communicator.h"
#include "backends/nccl/failure.h"
#include "base/clock.h"
#include "base/error.h"

#define QUERY_MS INT64_C(2000) /* longest wait for reports of late ranks */

static tutti_status too_late(struct tti_nccl_call *c, const char *what)
{
    const struct tti_nccl_group *g = c->group;
    const tutti_wait_registry *registry = g->wait_registry;
    const int64_t elapsed = (tti_now_ns() - c->started_ns) / 1000000;
    tti_error_set(c->error, TUTTI_TIMEOUT, "%s: call %lld on lane %d of rank %d has not %s after %lld ms",
                  tutti_operation_name(c->op->kind), (long long)c->op->sequence, c->op->lane, g->rank, what,
                  (long long)elapsed);
    c->error->elapsed_ms = elapsed;
    if (registry) {
        const int64_t wait_ms = c->op->timeout_ms / 2 < QUERY_MS ? c->op->timeout_ms / 2 : QUERY_MS;
        registry->find_missing(registry->self, c->op, wait_ms, c->error);
    } else {
        const size_t used = strlen(c->error->message);
        snprintf(c->error->message + used, sizeof(c->error->message) - used,
                 ": a rank has not arrived or has died, and %s cannot say which", g->library->display_name);
    }
    return TUTTI_TIMEOUT;
}

/* TIMEOUT if the deadline has passed. Reports once to the wait registry, long before that. */
static tutti_status check_clock(struct tti_nccl_call *c, const char *what)
{
    const tutti_wait_registry *registry = c->group->wait_registry;
    const int64_t now_ns = tti_now_ns();
    if (now_ns >= c->deadline_ns) {
        return too_late(c, what);
    }
    if (registry && !c->reported && now_ns >= c->report_ns) {
        registry->report(registry->self, c->op, NULL);
        c->reported = true;
    }
    return TUTTI_OK;
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

/* The state of the communicator: OK with *code SUCCESS or IN_PROGRESS, or the error. */
static tutti_status poll_communicator(struct tti_nccl_call *c, int *code, const char *what)
{
    const tti_nccl_comm comm = tti_nccl_comm_acquire(c->group, c->lane, c->error);
    if (!comm) {
        return TUTTI_REVOKED;
    }
    *code = tti_nccl_comm_state(c->group->library, comm);
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
        status = poll_communicator(c, &code, what);
        if (status == TUTTI_OK && code == TTI_NCCL_IN_PROGRESS && tti_nccl_backoff_step(&backoff)) {
            status = check_clock(c, "begun");
        }
    }
    return status;
}

tutti_status tti_nccl_await_stream(struct tti_nccl_call *c)
{
    const struct tti_device *device = c->group->device;
    struct tti_nccl_backoff backoff = {.background = c->op->background != 0};
    int32_t done = 0;
    int code = TTI_NCCL_SUCCESS;
    tutti_status status = device->event_record(c->lane->event, c->lane->stream, c->error);
    while (status == TUTTI_OK && !done) {
        status = device->event_query(c->lane->event, &done, c->error);
        if (status == TUTTI_OK && !done && tti_nccl_backoff_step(&backoff)) {
            status = poll_communicator(c, &code, "CommGetAsyncError");
            if (status == TUTTI_OK && (status = check_clock(c, "ended")) == TUTTI_TIMEOUT &&
                device->event_query(c->lane->event, &done, NULL) == TUTTI_OK && done) {
                status = tti_error_clear(c->error); /* the missing rank has arrived while the reports were read */
            }
        }
    }
    /* An abort ends the kernels early. So the results count only if the communicator still exists behind them. */
    return status == TUTTI_OK ? poll_communicator(c, &code, "CommGetAsyncError") : status;
}

/* Outgrown scratch memory stays until the group ends. To free it would wait for all kernels on the device, also those
 * of other lanes, which may wait for other ranks that wait for this lane. Sizes double, so all outgrown memory together
 * is no more than the last. */
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
