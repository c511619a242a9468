/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One collective, from the call to its end.
 *
 *   1. Entry barrier (entry_barrier.c): every rank waits until all have made the same call. It can be left at the
 *      deadline, since MPI holds no tensor yet. Small calls end here.
 *   2. A large all_reduce runs in steps that can be left (all_reduce.c). All else is one non-blocking function of MPI.
 *
 * The deadline is each rank's own: no other rank depends on it. With mpi.blocking=always on all ranks MPI's blocking
 * functions run instead, without the entry barrier and without deadlines.
 */
#include "backends/mpi/plugin/collectives/collectives.h"

#include <string.h>

#include "backends/mpi/plugin/collectives/data_movement.h"
#include "backends/mpi/plugin/collectives/entry_barrier.h"
#include "backends/mpi/plugin/collectives/reductions.h"
#include "backends/mpi/plugin/failure.h"
#include "backends/mpi/plugin/library/datatypes.h"
#include "backends/mpi/plugin/profile.h"
#include "base/clock.h"
#include "base/error.h"
#include "kernels/dispatch.h"

/* Whether MPI reduces the tensor as it is, with a type and an operation of its own. */
static bool is_native(const struct tti_mpi_group *g, const tutti_op *op)
{
    struct tti_mpi_fold fold;
    tti_mpi_fold_of(op, g->size, &fold);
    return !fold.wide && !fold.scaled && fold.is_native;
}

/* Whether the op's tensors are handed to MPI in device memory. */
static bool takes_device_memory(const struct tti_mpi_group *g, const tutti_op *op)
{
    /* Open MPI's non-blocking functions take no device memory. */
    if (!g->device || g->size == 1 || !g->blocking) {
        return false;
    }
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return is_native(g, op);
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_BARRIER:
        return true;
    case TUTTI_OP_ALL_GATHER:
        return tti_mpi_is_plain(g, op, &op->recv_parts);
    case TUTTI_OP_ALL_TO_ALL:
        return tti_mpi_is_plain(g, op, &op->send_parts);
    default:
        return false;
    }
}

const char *tti_mpi_supports(void *state, const tutti_op *op)
{
    if (op->on_device && !takes_device_memory(state, op)) {
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

/* In the default floating-point environment, as Tutti's own folds: see kernels/dispatch.h. It holds for conversions,
 * and for sums that MPI does on this thread. */
static tutti_status reduce(struct tti_mpi_call *c)
{
    const tti_environment before = tti_environment_enter();
    const tutti_status status =
        c->op->kind == TUTTI_OP_REDUCE_SCATTER ? tti_mpi_run_reduce_scatter(c) : tti_mpi_run_all_reduce(c);
    tti_environment_leave(before);
    return status;
}

static tutti_status dispatch(struct tti_mpi_call *c)
{
    switch (c->op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_REDUCE_SCATTER:
        return reduce(c);
    default:
        return tti_mpi_run_data_movement(c);
    }
}

/* release: this thread's calls of MPI are over when collective_inside in finalize.c reads 0 */
static inline void end(struct tti_mpi_lane *lane)
{
    atomic_store_explicit(&lane->inside, 0, memory_order_release);
}

/* Counts the next call of the lane, unless the group has failed. OK: `end` is due. */
static inline tutti_status begin(struct tti_mpi_group *g, struct tti_mpi_lane *lane, tutti_op *op, tutti_error *error)
{
    op->sequence = atomic_load_explicit(&lane->calls, memory_order_relaxed) + 1;
    atomic_store_explicit(&lane->calls, op->sequence, memory_order_relaxed);
    /* seq_cst: before the load of `failed`; pairs with collective_inside in finalize.c */
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
        tti_mpi_poll_loop_init(&c.poll_loop, g, op->begun_ns, op->timeout_ms, op->background != 0);
        c.poll_loop.lane = lane;
        status = g->size > 1 ? tti_mpi_entry_barrier(&c, &done) : tti_mpi_cannot_take_part(&c);
    }
    if (status == TUTTI_OK && !done) {
        status = dispatch(&c);
        op->in_use = status != TUTTI_OK && !c.blocking; /* what is under way cannot be cancelled, receives neither */
    }
    lane->ended_well = status == TUTTI_OK;
    end(lane);
    return status;
}

/* MPI's call in run_prepared has failed. A function of its own, so that a call that succeeds needs no stack frame for
 * it. */
__attribute__((noinline)) static tutti_status failed_prepared(struct tti_mpi_group *g, tutti_op *op, tutti_error *error,
                                                              int code)
{
    struct tti_mpi_call c = {.group = g, .lane = &g->lane[op->lane], .op = op, .error = error, .blocking = true};
    return tti_mpi_complete(&c, code, NULL, "MPI_Allreduce");
}

/* The one call of MPI in a blocking all_reduce with arguments from the call cache; MPI's code. */
static inline int all_reduce_prepared(const struct tti_mpi_lane *lane, const tutti_op *op)
{
    MPI_Datatype type;
    MPI_Op how;
    memcpy(&type, &op->prepared[TTI_MPI_PREPARED_TYPE], sizeof(type));
    memcpy(&how, &op->prepared[TTI_MPI_PREPARED_OP], sizeof(how));
    return MPI_Allreduce(op->src == op->dst ? MPI_IN_PLACE : op->src, op->dst, (int)op->count, type, how, lane->comm);
}

/* A blocking all_reduce with arguments from the call cache: reductions.c has prepared the op in an earlier call. */
static inline tutti_status run_prepared(struct tti_mpi_group *g, tutti_op *op, tutti_error *error)
{
    struct tti_mpi_lane *lane = &g->lane[op->lane];
    const tutti_status status = begin(g, lane, op, error);
    if (__builtin_expect(status != TUTTI_OK, 0)) {
        return status;
    }
    const tti_environment before = tti_environment_enter(); /* as in reduce */
    const int code = all_reduce_prepared(lane, op);
    tti_environment_leave(before);
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

/* A function of its own for the same reason. */
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
