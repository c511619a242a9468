/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, from the call to its end. A group without deadlines of its own uses MPI's blocking functions, which
 * are the fastest, and cannot be left before they return. With a deadline, the ranks first wait for one another at a
 * gate that can be left (gate.c), so that no tensor is in MPI's hands while somebody is missing; then the
 * non-blocking function runs. Which of the two is decided by what all ranks know: MPI's blocking and non-blocking
 * collectives do not match.
 */
#include <stdlib.h>

#include "backends/mpi/plugin/plugin.h"
#include "base/clock.h"
#include "base/error.h"

const char *tti_mpi_supports(void *state, const tutti_op *op)
{
    if (op->on_device && !tti_mpi_takes(state, op)) {
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
    const int64_t elapsed = tti_mpi_elapsed_ms(&c->vigil);
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

tutti_status tti_mpi_complete(struct tti_mpi_call *c, int code, MPI_Request *request, const char *what)
{
    int done = c->blocking;
    while (code == MPI_SUCCESS && !done) {
        tti_mpi_enter();
        code = MPI_Test(request, &done, MPI_STATUS_IGNORE);
        tti_mpi_leave();
        if (code == MPI_SUCCESS && !done) {
            const tutti_status status = tti_mpi_pause(&c->vigil, c->error);
            if (status != TUTTI_OK) {
                return status == TUTTI_TIMEOUT ? too_late(c, what) : status;
            }
        }
    }
    if (__builtin_expect(code == MPI_SUCCESS, 1)) {
        return TUTTI_OK;
    }
    tutti_status status = tti_mpi_check(c->group, true, c->error); /* an abort has made it fail */
    if (status == TUTTI_OK) {
        status = tti_mpi_error(c->error, code, what);
        c->error->scope = TUTTI_SCOPE_GROUP;
        tti_mpi_fail(c->group, c->error);
    }
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
        return tti_mpi_run_move(c);
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
    /* seq_cst: before the look at `failed`, see end.c */
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
    c.blocking = g->blocking && op->timeout_ms == g->timeout_ms;
    if (c.blocking) {
        status = dispatch(&c);
    } else {
        tti_mpi_vigil(&c.vigil, g, op->begun_ns, op->timeout_ms, op->background != 0);
        if (g->size == 1 || (status = tti_mpi_gate(&c)) == TUTTI_OK) {
            status = op->failed != TUTTI_OK ? op->failed : dispatch(&c);
        }
    }
    end(lane);
    return status;
}

/* MPI's call in `again` has failed. Apart, so that a call that succeeds needs no frame for it. */
__attribute__((noinline)) static tutti_status failed_again(struct tti_mpi_group *g, tutti_op *op, tutti_error *error,
                                                           int code)
{
    struct tti_mpi_call c = {.group = g, .lane = &g->lane[op->lane], .op = op, .error = error, .blocking = true};
    return tti_mpi_complete(&c, code, NULL, "MPI_Allreduce");
}

/* A blocking all_reduce like one before it, which has prepared the op. */
static inline tutti_status again(struct tti_mpi_group *g, tutti_op *op, tutti_error *error)
{
    struct tti_mpi_lane *lane = &g->lane[op->lane];
    const tutti_status status = begin(g, lane, op, error);
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        return status;
    }
    const int code = tti_mpi_all_reduce_again(lane, op);
    end(lane);
    return __builtin_expect(code == MPI_SUCCESS, 1) ? TUTTI_OK : failed_again(g, op, error, code);
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
__attribute__((noinline)) static tutti_status run_anew(struct tti_mpi_group *g, tutti_op *op, tutti_error *error)
{
    return g->profile ? profiled(g, op, error) : run(g, op, error);
}

tutti_status tti_mpi_run(void *state, tutti_op *op, tutti_error *error)
{
    struct tti_mpi_group *g = state;
    if (__builtin_expect(op->prepared[TTI_MPI_PREPARED_TYPE] != 0 && op->timeout_ms == g->timeout_ms, 1)) {
        return again(g, op, error);
    }
    return run_anew(g, op, error);
}
