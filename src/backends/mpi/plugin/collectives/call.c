/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for the requests of one collective. MPI's blocking calls have ended when they return; non-blocking ones are
 * tested in a poll loop until the deadline. A wait that fails fails the group, since the other ranks stay in the call.
 */
#include "backends/mpi/plugin/collectives/call.h"

#include <stdlib.h>

#include "backends/mpi/plugin/failure.h"
#include "base/error.h"

void *tti_mpi_scratch(struct tti_mpi_call *c, size_t bytes)
{
    struct tti_mpi_lane *lane = c->lane;
    if (bytes > lane->scratch_bytes) {
        free(lane->scratch);
        lane->scratch_bytes = 0;
        lane->scratch = bytes <= SIZE_MAX - 4096 ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
        if (!lane->scratch) {
            tti_error_set(c->error, TUTTI_NO_MEMORY, "%s: rank %d has no memory for %zu bytes of scratch",
                          tutti_operation_name(c->op->kind), c->group->rank, bytes);
            c->error->suspect = c->group->rank;
            c->error->scope = TUTTI_SCOPE_GROUP;
            tti_mpi_fail(c->group, c->error); /* the other ranks stay in the call */
            return NULL;
        }
        lane->scratch_bytes = bytes;
    }
    return lane->scratch;
}

tutti_status tti_mpi_cannot_take_part(const struct tti_mpi_call *c)
{
    const tutti_status failed = c->op->failed;
    if (__builtin_expect(failed != TUTTI_OK, 0)) {
        tti_error_set(c->error, failed, "%s: rank %d cannot take part: %s", tutti_operation_name(c->op->kind),
                      c->group->rank, tutti_status_string(failed));
        c->error->suspect = c->group->rank;
    }
    return failed;
}

static tutti_status timed_out(struct tti_mpi_call *c, const char *what)
{
    const int64_t elapsed = tti_mpi_elapsed_ms(&c->poll_loop);
    tti_error_set(c->error, TUTTI_TIMEOUT,
                  "%s: %s of call %lld on lane %d of rank %d has not ended after %lld ms; a rank has died, or the "
                  "deadline is too short for so much data",
                  tutti_operation_name(c->op->kind), what, (long long)c->op->sequence, c->op->lane, c->group->rank,
                  (long long)elapsed);
    c->error->elapsed_ms = elapsed;
    c->error->scope = TUTTI_SCOPE_GROUP;
    tti_mpi_fail(c->group, c->error);
    return TUTTI_TIMEOUT;
}

static tutti_status failed_in_mpi(struct tti_mpi_call *c, int code, const char *what)
{
    tutti_status status = tti_mpi_check(c->group, true, c->error); /* an abort may be the reason */
    if (status == TUTTI_OK) {
        status = tti_mpi_error(c->error, code, what);
        c->error->scope = TUTTI_SCOPE_GROUP;
        tti_mpi_fail(c->group, c->error);
    }
    return status;
}

tutti_status tti_mpi_complete(struct tti_mpi_call *c, int code, MPI_Request *request, const char *what)
{
    int done = c->blocking;
    while (code == MPI_SUCCESS && !done) {
        tti_mpi_enter();
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        tti_mpi_leave();
        if (code == MPI_SUCCESS && !done) {
            const tutti_status status = tti_mpi_poll_step(&c->poll_loop, c->error);
            if (status != TUTTI_OK) {
                return status == TUTTI_TIMEOUT ? timed_out(c, what) : status;
            }
        }
    }
    return __builtin_expect(code == MPI_SUCCESS, 1) ? TUTTI_OK : failed_in_mpi(c, code, what);
}

tutti_status tti_mpi_await(struct tti_mpi_call *c, int *code)
{
    struct tti_mpi_lane *lane = c->lane;
    const int size = c->group->size;
    tutti_status status = TUTTI_OK;
    for (int i = 0; i < 2 * size; i++) {
        int done = lane->requests[i] == MPI_REQUEST_NULL;
        while (!done) {
            tti_mpi_enter();
            *code = MPI_Test(&lane->requests[i], &done, MPI_STATUS_IGNORE);
            tti_mpi_leave();
            if (done || *code != MPI_SUCCESS) {
                break;
            }
            if ((status = tti_mpi_poll_step(&c->poll_loop, c->error)) != TUTTI_OK) {
                break;
            }
            atomic_store_explicit(&lane->awaited, i < size ? i : -1, memory_order_relaxed);
        }
        if (*code != MPI_SUCCESS || status != TUTTI_OK) {
            break;
        }
    }
    atomic_store_explicit(&lane->awaited, -1, memory_order_relaxed);
    /* after a time-out: completes the requests behind the awaited one, so that only missing ranks are named */
    for (int i = 0; i < 2 * size && status == TUTTI_TIMEOUT; i++) {
        int done = 0;
        if (lane->requests[i] != MPI_REQUEST_NULL) {
            tti_mpi_enter();
            MPI_Test(&lane->requests[i], &done, MPI_STATUS_IGNORE);
            tti_mpi_leave();
        }
    }
    return status;
}

void tti_mpi_withdraw_requests(struct tti_mpi_call *c)
{
    struct tti_mpi_lane *lane = c->lane;
    tti_mpi_enter();
    for (int r = 0; r < c->group->size; r++) {
        int done = 0;
        if (lane->requests[r] != MPI_REQUEST_NULL) {
            MPI_Cancel(&lane->requests[r]);
            MPI_Test(&lane->requests[r], &done, MPI_STATUS_IGNORE);
        }
        if (lane->requests[c->group->size + r] != MPI_REQUEST_NULL) {
            MPI_Request_free(&lane->requests[c->group->size + r]);
        }
    }
    tti_mpi_leave();
}

tutti_status tti_mpi_complete_all(struct tti_mpi_call *c, int code, const char *what)
{
    tutti_status status = code == MPI_SUCCESS ? tti_mpi_await(c, &code) : TUTTI_OK;
    if (code == MPI_SUCCESS && status == TUTTI_OK) {
        return TUTTI_OK;
    }
    if (code != MPI_SUCCESS) {
        status = failed_in_mpi(c, code, what);
    } else if (status == TUTTI_TIMEOUT) {
        status = timed_out(c, what);
    }
    tti_mpi_withdraw_requests(c);
    return status;
}
