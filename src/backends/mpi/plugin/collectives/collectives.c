/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, from the call to its end. The ranks first wait for one another at a gate that can be left (entry_barrier.c), so
 * that no tensor is in MPI's hands while a rank is missing; small calls end there. Then a large all_reduce runs in steps
 * that can be left (all_reduce.c), and all else by MPI's non-blocking function. The deadline of the caller decides
 * nothing that another rank sees.
 *
 * With mpi.blocking=always on all ranks, MPI's blocking functions run instead, which cannot be left before they return.
 */
#include <stdlib.h>

#include "backends/mpi/plugin/plugin.h"
#include "base/clock.h"
#include "base/error.h"

const char *tti_mpi_supports(void *state, const tutti_op *op)
{
    if (op->on_device && !tti_mpi_takes_device_memory(state, op)) {
        return NULL;
    }
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_REDUCE_SCATTER:
        return op->redop == TUTTI_AVG || op->redop == TUTTI_PREMUL_SUM ? "native sum, scaled" : "native";
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_ALL_GATHER:
    case TUTTI_OP_GATHER:
    case TUTTI_OP_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
    case TUTTI_OP_BARRIER:
    case TUTTI_OP_SEND:
    case TUTTI_OP_RECV:
        return "native";
    default:
        return NULL;
    }
}

void *tti_mpi_scratch(struct tti_mpi_call *c, size_t bytes)
{
    struct tti_mpi_lane *lane = c->lane;
    if (bytes > lane->scratch_bytes) {
        free(lane->scratch);
        lane->scratch_bytes = 0;
        lane->scratch = bytes <= SIZE_MAX - 4096 ? aligned_alloc(4096, (bytes + 4095) / 4096 * 4096) : NULL;
        if (!lane->scratch) {
            tti_error_set(c->error, TUTTI_NO_MEMORY, "%s: no memory for %zu bytes of scratch",
                          tutti_operation_name(c->op->kind), bytes);
            tti_mpi_fail(c->group, c->error); /* the other ranks go on */
            return NULL;
        }
        lane->scratch_bytes = bytes;
    }
    return lane->scratch;
}

static tutti_status too_late(struct tti_mpi_call *c, const char *what)
{
    const int64_t elapsed = tti_mpi_elapsed_ms(&c->poll_loop);
    tti_error_set(c->error, TUTTI_TIMEOUT,
                  "%s: %s of call %lld on lane %d of rank %d has not ended after %lld ms: a rank has died, or the "
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
    tutti_status status = tti_mpi_check(c->group, true, c->error); /* an abort has made it fail */
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
                return status == TUTTI_TIMEOUT ? too_late(c, what) : status;
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
    for (int i = 0; i < 2 * size && status == TUTTI_TIMEOUT; i++) { /* those behind the one that it waited for */
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
        status = too_late(c, what);
    }
    tti_mpi_withdraw_requests(c);
    return status;
}

static tutti_status dispatch(struct tti_mpi_call *c)
{
    switch (c->op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return tti_mpi_run_all_reduce(c);
    case TUTTI_OP_REDUCE_SCATTER:
        return tti_mpi_run_reduce_scatter(c);
    default:
        return tti_mpi_run_data_movement(c);
    }
}

/* release: what this thread did in MPI is done when the end of the process sees it gone */
static inline void end(struct tti_mpi_lane *lane)
{
    atomic_store_explicit(&lane->inside, 0, memory_order_release);
}

/* The next call of the lane, unless the group has failed. If it is OK, `end` follows. */
static inline tutti_status begin(struct tti_mpi_group *g, struct tti_mpi_lane *lane, tutti_op *op, tutti_error *error)
{
    op->sequence = atomic_load_explicit(&lane->calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&lane->calls, op->sequence, memory_order_relaxed);
    /* seq_cst: before the look at `failed`, see finalize.c */
    atomic_store_explicit(&lane->inside, op->kind, memory_order_seq_cst);
    if (__builtin_expect(tti_mpi_has_failed(g), 0)) {
        end(lane);
        return tti_mpi_check(g, false, error);
    }
    return TUTTI_OK;
}

static tutti_status run(struct tti_mpi_group *g, tutti_op *op, tutti_error *error)
{
    struct tti_mpi_lane *lane = &g->lane[op->lane];
    struct tti_mpi_call c = {.group = g, .lane = lane, .op = op, .error = error};
    tutti_status status = begin(g, lane, op, error);
    if (status != TUTTI_OK) {
        return status;
    }
    bool done = false;
    c.blocking = g->blocking;
    if (!c.blocking) {
        tti_mpi_poll_loop(&c.poll_loop, g, op->begun_ns, op->timeout_ms, op->background != 0);
        c.poll_loop.lane = lane;
        status = g->size > 1 ? tti_mpi_entry_barrier(&c, &done) : op->failed;
    }
    if (status == TUTTI_OK && !done) {
        status = dispatch(&c);
    }
    end(lane);
    return status;
}

/* MPI's call in `again` has failed. Apart, so that a call that succeeds needs no frame for it. */
__attribute__((noinline)) static tutti_status failed_prepared(struct tti_mpi_group *g, tutti_op *op, tutti_error *error,
                                                              int code)
{
    struct tti_mpi_call c = {.group = g, .lane = &g->lane[op->lane], .op = op, .error = error, .blocking = true};
    return tti_mpi_complete(&c, code, NULL, "MPI_Allreduce");
}

/* A blocking all_reduce like one before it, which has prepared the op. */
static inline tutti_status run_prepared(struct tti_mpi_group *g, tutti_op *op, tutti_error *error)
{
    struct tti_mpi_lane *lane = &g->lane[op->lane];
    const tutti_status status = begin(g, lane, op, error);
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        return status;
    }
    const int code = tti_mpi_all_reduce_prepared(lane, op);
    end(lane);
    return __builtin_expect(code == MPI_SUCCESS, 1) ? TUTTI_OK : failed_prepared(g, op, error, code);
}

static tutti_status profiled(struct tti_mpi_group *g, tutti_op *op, tutti_error *error)
{
    const int64_t begun_ns = tti_now_ns();
    const tutti_status status = run(g, op, error);
    if (status == TUTTI_OK) {
        tti_mpi_profile_add(g->profile, op->kind, tti_mpi_op_bytes(op, g->size), begun_ns);
    }
    return status;
}

/* Likewise apart. */
__attribute__((noinline)) static tutti_status run_slow(struct tti_mpi_group *g, tutti_op *op, tutti_error *error)
{
    return g->profile ? profiled(g, op, error) : run(g, op, error);
}

tutti_status tti_mpi_run(void *state, tutti_op *op, tutti_error *error)
{
    struct tti_mpi_group *g = state;
    if (__builtin_expect(op->prepared[TTI_MPI_PREPARED_TYPE] != 0, 0)) {
        return run_prepared(g, op, error);
    }
    return run_slow(g, op, error);
}
