/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a group fails. A communicator that has lost a rank, or step with the others, is of no more use, and its kernels wait
 * for ever: the first who notices writes down the cause and has every lane's communicator aborted, which makes the kernels
 * end. Other ranks hear of it from the library, where it tells them (a connection breaks), or from their own deadlines.
 */
#include <stdio.h>
#include <string.h>

#include "backends/nccl/state.h"
#include "base/clock.h"
#include "base/error.h"

/* Writes down the first cause; false if there was one. */
static bool record_cause(struct tti_nccl_group *g, const tutti_error *cause)
{
    pthread_mutex_lock(&g->lock);
    const bool first = atomic_load_explicit(&g->failed, memory_order_relaxed) == TUTTI_OK;
    if (first) {
        g->cause = *cause;
        g->cause.size = (uint32_t)sizeof(g->cause);
        g->cause.scope = TUTTI_SCOPE_GROUP;
        g->failed_ns = tti_now_ns();
        /* release: pairs with the acquire of whoever reads the cause */
        atomic_store_explicit(&g->failed, cause->status != TUTTI_OK ? cause->status : TUTTI_INTERNAL,
                              memory_order_release);
    }
    pthread_mutex_unlock(&g->lock);
    return first;
}

void tti_nccl_fail(struct tti_nccl_group *g, const tutti_error *cause)
{
    if (record_cause(g, cause)) {
        for (int32_t i = 0; i < g->lanes; i++) {
            tti_nccl_comm_end(g, &g->lane[i], false);
        }
    }
}

tutti_status tti_nccl_check(struct tti_nccl_group *g, tutti_error *error)
{
    /* acquire: pairs with the release in note() */
    if (atomic_load_explicit(&g->failed, memory_order_acquire) == TUTTI_OK) {
        return TUTTI_OK;
    }
    tti_error_set(error, TUTTI_REVOKED, "the group has failed: %.300s", g->cause.message);
    if (error) {
        error->suspect = g->cause.suspect;
        error->vendor_code = g->cause.vendor_code;
        error->scope = TUTTI_SCOPE_GROUP;
    }
    return TUTTI_REVOKED;
}

tutti_status tti_nccl_failure(void *state, tutti_error *error)
{
    struct tti_nccl_group *g = state;
    const tutti_status failed = atomic_load_explicit(&g->failed, memory_order_acquire); /* as in tti_nccl_check */
    if (failed != TUTTI_OK && error) {
        *error = g->cause;
    }
    return failed;
}

void tti_nccl_abort(void *state, int32_t lane, const tutti_error *cause)
{
    (void)lane; /* the library does not know who is late */
    tti_nccl_fail(state, cause);
}

static void append(tutti_error *error, const char *text)
{
    const size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof(error->message) - used, "%s", text);
}

/* Whether the device has done, or dropped, all that is on the lane's stream. */
static bool stream_ends(struct tti_nccl_call *c, int64_t deadline_ns)
{
    const struct tti_device *device = c->group->device;
    struct tti_nccl_backoff backoff = {.background = true};
    int32_t done = 0;
    if (device->event_record(c->lane->event, c->lane->stream, NULL) != TUTTI_OK) {
        return true; /* the device has failed: nothing runs there any more */
    }
    while (device->event_query(c->lane->event, &done, NULL) == TUTTI_OK && !done) {
        if (tti_nccl_backoff_step(&backoff) && tti_now_ns() >= deadline_ns) {
            return false;
        }
    }
    return true;
}

void tti_nccl_abort_call(struct tti_nccl_call *c, tutti_status status)
{
    struct tti_nccl_group *g = c->group;
    struct tti_nccl_lane *lane = c->lane;
    c->error->scope = TUTTI_SCOPE_GROUP;
    if (status != TUTTI_TIMEOUT && g->wait_registry) { /* which has told who was asked */
        g->wait_registry->report(g->wait_registry->self, c->op, c->error);
    }
    if (status != TUTTI_REVOKED) {
        tti_nccl_fail(g, c->error);
    }
    const int64_t deadline_ns = tti_now_ns() + TTI_NCCL_TEARDOWN_NS;
    const bool ended = tti_nccl_comm_await_end(lane, deadline_ns);
    lane->held = !stream_ends(c, ended ? tti_now_ns() + TTI_NCCL_TEARDOWN_NS : tti_now_ns());
    if (!ended) {
        append(c->error, "; ncclCommAbort has not returned, so the communicator is left to itself");
    }
    if (lane->held) {
        append(c->error, "; the device may still use the tensors");
    }
}

void tti_nccl_error_text(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, char text[256])
{
    const char *words = library->GetErrorString(code);
    const char *last = library->GetLastError ? library->GetLastError(comm) : NULL;
    const bool more = last && last[0] != '\0' && code != TTI_NCCL_SUCCESS;
    snprintf(text, 256, "%.100s (%d)%s%.140s", words ? words : "unknown error", code, more ? ": " : "",
             more ? last : "");
}

tutti_status tti_nccl_error(const struct tti_nccl_library *library, tti_nccl_comm comm, int code, const char *what,
                            tutti_error *error)
{
    char reason[256];
    tti_nccl_error_text(library, comm, code, reason);
    tti_error_set(error, TUTTI_BACKEND, "%s: nccl%s failed: %s", library->display_name, what, reason);
    if (error) {
        error->vendor_code = code;
    }
    return TUTTI_BACKEND;
}
