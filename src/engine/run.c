/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Runs a collective.
 *
 * tti_engine_run prepares an operation once (descriptor, class), begins the lane's call, and calls the collective's
 * function. A small call that succeeds runs in this file, in that function and in arrival/, and nothing else. The most
 * frequent one, an all_reduce of a few numbers that has run before, runs in run_in_lines alone. Calls that may be
 * cancelled, have failed before they begin, or run alone take run_unusual.
 */
#include "engine/run.h"

#include "base/failure_checks.h"
#include "engine/arrival/arrival.h"
#include "engine/arrival/class.h"
#include "engine/arrival/digest.h"
#include "engine/collectives/all_reduce_lines.h"
#include "engine/collectives/collectives.h"
#include "engine/failure/agreement.h"
#include "engine/failure/fault.h"
#include "engine/memory/caches.h"
#include "engine/memory/expose.h"
#include "engine/memory/intent.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"
#include "engine/wait/policy.h"
#include "engine/wait/publish.h"
#include "kernels/dispatch.h"
#include "kernels/wire_format.h"
#include "tensor/solo.h"

/* Keeps rare code out of the functions that every small call runs, and their parts in. */
#define TTI_RARE __attribute__((noinline))
#define TTI_PART __attribute__((always_inline)) static inline

typedef tutti_status (*run_function)(struct tti_lane *lane, const tutti_op *op);

static const run_function runners[] = {
    [TUTTI_OP_ALL_REDUCE] = tti_run_all_reduce, [TUTTI_OP_REDUCE] = tti_run_reduce,
    [TUTTI_OP_BROADCAST] = tti_run_broadcast,   [TUTTI_OP_ALL_GATHER] = tti_run_all_gather,
    [TUTTI_OP_GATHER] = tti_run_gather,         [TUTTI_OP_SCATTER] = tti_run_scatter,
    [TUTTI_OP_ALL_TO_ALL] = tti_run_all_to_all, [TUTTI_OP_REDUCE_SCATTER] = tti_run_reduce_scatter,
    [TUTTI_OP_BARRIER] = tti_run_barrier};

/* NULL: the operation is no collective. */
static inline run_function runner(tutti_operation kind)
{
    return (size_t)kind < sizeof(runners) / sizeof(runners[0]) ? runners[kind] : NULL;
}

/* This rank cannot take part, because it has no scratch memory or has cancelled, but its peers can. It arrives with a
 * marked descriptor, which differs from its peers', and so stays in step. */
static tutti_status run_failed(struct tti_lane *lane, const tutti_op *op)
{
    bool cancelled = op->failed == TUTTI_CANCELLED;
    lane->class = TTI_CLASS_LINE; /* the arrival carries no data */
    if (cancelled) {
        tti_descriptor_cancel(lane->descriptor);
    } else {
        tti_descriptor_fail(lane->descriptor, op->failed);
    }
    tutti_status status = tti_arrive(lane, NULL, 0);
    if (status == TUTTI_OK && tti_kind_waits_for_all(op->kind)) {
        status = tti_await_all(lane);
    } else if (status == TUTTI_OK) {
        tti_mark_all_reported(lane); /* this rank knows that its call differs */
    }
    return !cancelled && (status == TUTTI_OK || status == TUTTI_MISMATCH) ? op->failed : status;
}

const char *tti_engine_supports(const struct tti_engine *e, const tutti_op *op)
{
    if (op->wire != TUTTI_WIRE_FULL) { /* smaller ones the core converts */
        const size_t bytes = tti_wire_bytes(tti_wire_format(op->wire), op->count);
        return e->size > 1 && bytes > e->tuning.one_shot && bytes > TTI_INLINE_MOST ? "native" : NULL;
    }
    return runner(op->kind) || op->kind == TUTTI_OP_SEND || op->kind == TUTTI_OP_RECV ? "native" : NULL;
}

TTI_RARE static tutti_status poll_for_failure_slow(struct tti_lane *lane, uint32_t alarm, tutti_error *error)
{
    tutti_status status = tti_fault_check(lane->engine, NULL, -1, error);
    if (status == TUTTI_OK) {
        lane->alarm_seen = alarm;
    }
    return status;
}

/* Whether this lane knows the present alarm, and the group has not failed. */
static inline bool is_quiet(const struct tti_lane *lane, uint32_t alarm)
{
    /* acquire: pairs with remember() in failure/fault.c */
    return alarm == lane->alarm_seen && atomic_load_explicit(&lane->engine->failed, memory_order_acquire) == TUTTI_OK;
}

/* acquire: pairs with tti_raise_alarm */
static inline uint32_t read_alarm(const struct tti_engine *e)
{
    return atomic_load_explicit(tti_alarm(e), memory_order_acquire);
}

/* Before a call begins: OK if the group has not failed. */
static inline tutti_status poll_for_failure(struct tti_lane *lane, tutti_error *error)
{
    if (!TTI_FAULT_CHECKS) {
        return TUTTI_OK;
    }
    const uint32_t alarm = read_alarm(lane->engine);
    return __builtin_expect(is_quiet(lane, alarm), 1) ? TUTTI_OK : poll_for_failure_slow(lane, alarm, error);
}

/* Fills op->prepared. False: there is no such collective. */
TTI_RARE static bool prepare(const struct tti_lane *lane, tutti_op *op)
{
    if (!runner(op->kind)) {
        return false;
    }
    tti_descriptor_make(op, lane->engine->size, op->prepared); /* never 0: it holds the kind */
    const bool alone = lane->engine->size == 1;
    const enum tti_class class = alone ? TTI_CLASS_LARGE : tti_classify(lane, op);
    op->prepared[TTI_PREPARED_CLASS] = class | (alone || tti_kind_waits_for_all(op->kind) ? 0 : TTI_PREPARED_ANNOUNCES);
    op->prepared[TTI_PREPARED_FOLD] = 0;
    if (class == TTI_CLASS_LINE && op->kind == TUTTI_OP_ALL_REDUCE && op->redop != TUTTI_PREMUL_SUM && op->count > 0) {
        const uint64_t bytes = op->count << tti_dtype_shift(op->dtype);
        const uint64_t copied = ((uint64_t)lane->engine->size + 1) * bytes;
        op->prepared[TTI_PREPARED_CLASS] |= bytes << TTI_PREPARED_BYTES_FROM | copied << TTI_PREPARED_COPIED_FROM;
        op->prepared[TTI_PREPARED_FOLD] = (uintptr_t)tti_fold_table()->ops[op->dtype][op->redop];
    }
    return true;
}

static inline bool is_prepared(const struct tti_lane *lane, tutti_op *op)
{
    return __builtin_expect(op->prepared[0] != 0, 1) || prepare(lane, op);
}

static inline void describe_call(struct tti_lane *lane, const tutti_op *op, enum tti_class class, bool announces)
{
    lane->op = op;
    lane->started_ns = op->begun_ns;
    lane->deadline_ns = 0; /* set at the first read of the clock */
    lane->descriptor[0] = op->prepared[0];
    lane->descriptor[1] = op->prepared[1];
    lane->class = class;
    lane->announces = announces;
    lane->advances = announces;
    if (op->background != lane->background) {
        tti_wait_begin(lane);
    }
}

static inline void begin_call(struct tti_lane *lane, const tutti_op *op)
{
    lane->call++;
    describe_call(lane, op, (enum tti_class)(op->prepared[TTI_PREPARED_CLASS] & TTI_PREPARED_CLASSES),
                  (op->prepared[TTI_PREPARED_CLASS] & TTI_PREPARED_ANNOUNCES) != 0);
}

/* Publishes TTI_PHASE_FINAL, so that no peer waits for further phases of this call: see memory/stage.c. A rank that has
 * failed with the group publishes nothing, because its spans do not hold what its peers wait for; they see the alarm.
 * Rooted calls publish it even if they used no span: a peer may have called something else, with spans, and returned
 * without noticing. */
TTI_RARE static tutti_status publish_end(struct tti_lane *lane, tutti_status status)
{
    const bool late_mismatch = lane->late_mismatch;
    lane->late_mismatch = false;
    lane->has_mismatched = false;
    if (lane->advances) {
        tti_digest_advance(lane);
    }
    if (status != TUTTI_OK && atomic_load_explicit(&lane->engine->failed, memory_order_acquire) != TUTTI_OK) {
        return status;
    }
    if (lane->class == TTI_CLASS_LARGE || status != TUTTI_OK) {
        tti_advance(lane, TTI_PHASE_FINAL);
    } else { /* only a peer in another call waits for it, so no wake-up; release: as in tti_advance */
        atomic_store_explicit(tti_position_of(lane, lane->engine->rank), tti_position_at(lane, TTI_PHASE_FINAL),
                              memory_order_release);
    }
    return late_mismatch && status == TUTTI_OK ? TUTTI_MISMATCH : status;
}

static inline tutti_status end_call(struct tti_lane *lane, tutti_status status)
{
    lane->op = NULL;
    return __builtin_expect(status == TUTTI_OK && !lane->announces, 1) ? status : publish_end(lane, status);
}

static bool needs_agreement(const struct tti_lane *lane, const tutti_op *op)
{
    return (op->flags & TUTTI_CANCELLABLE) && lane->engine->size > 1 && !tti_kind_waits_for_all(op->kind);
}

TTI_RARE static tutti_status run_solo(struct tti_lane *lane, const tutti_op *op)
{
    lane->op = NULL;
    if (op->failed == TUTTI_CANCELLED) {
        return tti_error_set(lane->error, TUTTI_CANCELLED, "rank 0 has cancelled this %s (call %llu of lane %d)",
                             tutti_operation_name(op->kind), (unsigned long long)lane->call, lane->index);
    }
    if (op->failed == TUTTI_OK) {
        tti_run_solo(op);
    }
    return op->failed;
}

TTI_RARE static tutti_status run_large(struct tti_lane *lane, const tutti_op *op)
{
    if (lane->engine->size == 1) {
        return run_solo(lane, op);
    }
    lane->algorithm = TTI_ALGORITHM_UNDECIDED;
    lane->bytes = tti_call_bytes(lane, op);
    tti_probe_distance(lane, lane->bytes);
    tti_expose(lane, op);
    tti_choose_stores(lane, op, true);
    tutti_status status = runners[op->kind](lane, op);
    tti_release_heap(lane);
    if (status != TUTTI_OK && status != TUTTI_MISMATCH && lane->exposed) {
        tti_raise_alarm(lane->engine); /* the rank that failed first may not have raised it yet */
        tti_await_intents(lane);
    }
    return status;
}

static inline tutti_status run_call(struct tti_lane *lane, const tutti_op *op)
{
    return end_call(lane, lane->class == TTI_CLASS_LARGE ? run_large(lane, op) : runners[op->kind](lane, op));
}

/* A call in which this rank does not take part, or that may be cancelled. */
TTI_RARE static tutti_status run_unusual(struct tti_lane *lane, tutti_op *op)
{
    if (lane->engine->size == 1) {
        return run_solo(lane, op);
    }
    if (needs_agreement(lane, op)) {
        tutti_status status = tti_agree_on_cancel(lane, op);
        if (status != TUTTI_OK) {
            bool own = op->failed != TUTTI_OK && op->failed != TUTTI_CANCELLED && status == TUTTI_MISMATCH;
            return end_call(lane, own ? op->failed : status);
        }
        begin_call(lane, op);
    }
    return op->failed != TUTTI_OK ? end_call(lane, run_failed(lane, op)) : run_call(lane, op);
}

/* Any call: its own function, so that tti_engine_run saves no register. */
__attribute__((noinline)) static tutti_status run_any(struct tti_engine *e, tutti_op *op, tutti_error *error)
{
    struct tti_lane *lane =
        &e->lanes[op->lane]; /* the only pointer that lives on, so that a small call saves no other registers */
    lane->error = error;
    if (!is_prepared(lane, op)) {
        return tti_error_set(lane->error, TUTTI_UNSUPPORTED, "the shared-memory engine has no operation %d", op->kind);
    }
    tutti_status status = poll_for_failure(lane, lane->error);
    if (status != TUTTI_OK) {
        return status;
    }
    begin_call(lane, op);
    op->sequence = (int64_t)lane->call;
    return (op->flags | (uint32_t)op->failed) == 0 ? run_call(lane, op) : run_unusual(lane, op);
}

/* What run_in_lines has begun: a peer has not arrived, or calls something else. */
TTI_RARE static tutti_status finish_in_lines(struct tti_lane *lane, tutti_op *op, tutti_error *error)
{
    lane->error = error;
    describe_call(lane, op, TTI_CLASS_LINE, false);
    return end_call(lane, tti_all_reduce_await_lines(lane, op));
}

TTI_RARE static tutti_status wake_and_finish(struct tti_lane *lane, tutti_op *op, tutti_error *error)
{
    tti_wake_sleepers(lane->engine, lane->sleepers, &tti_arrival_of(lane, lane->engine->rank, lane->call)->sequence);
    return finish_in_lines(lane, op, error);
}

/* Whether data of a prepared all_reduce fit the first cache line of the arrival, and `call`, the next one, can arrive
 * without waiting. */
TTI_PART bool can_arrive_in_line(const struct tti_engine *e, const struct tti_lane *lane, uint64_t call, size_t bytes)
{
    return (!TTI_FAULT_CHECKS || is_quiet(lane, read_alarm(e))) && tti_has_old_credit(lane, call) &&
           bytes <= TTI_FIRST_LINE && e->publishes_unfenced;
}

/* Arrives. True: ranks sleep on the arrival. */
TTI_PART bool arrive_in_line(const struct tti_engine *e, struct tti_lane *lane, tutti_op *op, uint64_t call,
                             size_t bytes)
{
    lane->call = call;
    lane->class = TTI_CLASS_LINE;
    op->sequence = (int64_t)call;
    struct tti_arrival *own = tti_arrival_of(lane, e->rank, call);
    tti_copy_first_line(own->payload, op->src, bytes);
    own->descriptor[0] = op->prepared[0];
    own->descriptor[1] = op->prepared[1];
    own->digest = lane->digest;
    lane->sources[e->rank] = own->payload;
    return tti_publish_unfenced(lane->sleepers, &own->sequence, call);
}

/* This rank has arrived, and its data are in its line: reads the lines of the others and folds. */
TTI_PART tutti_status end_in_lines(const struct tti_engine *e, struct tti_lane *lane, tutti_op *op, uint64_t call,
                                   tutti_error *error)
{
    uint64_t differences = 0;
    int r = 0;
    do {
        if (r != e->rank) {
            const struct tti_arrival *line = tti_arrival_of(lane, r, call);
            /* acquire: pairs with the release in tti_publish_unfenced */
            if (atomic_load_explicit(&line->sequence, memory_order_acquire) < call) {
                return finish_in_lines(lane, op, error);
            }
            lane->sources[r] = line->payload;
            differences |= (line->descriptor[0] ^ op->prepared[0]) | (line->descriptor[1] ^ op->prepared[1]) |
                           (line->digest ^ lane->digest);
        }
    } while (++r < e->size);
    if (__builtin_expect(differences != 0, 0)) {
        return finish_in_lines(lane, op, error);
    }
    lane->credit = call;
    tti_all_reduce_fold_lines(lane, op);
    return TUTTI_OK;
}

/* A prepared all_reduce that fits the first cache line of the arrival. What only a wait, a difference or an error needs
 * is not stored before there is one. So every call in this function but the fold's is at its end, and it saves no
 * register. Other cases, of which nothing has begun, go to run_any. */
__attribute__((noinline)) static tutti_status run_in_lines(struct tti_engine *e, tutti_op *op, tutti_error *error)
{
    struct tti_lane *lane = &e->lanes[op->lane];
    const uint64_t call = lane->call + 1;
    const size_t bytes = tti_all_reduce_line_bytes(op);
    if (op->background != lane->background || !can_arrive_in_line(e, lane, call, bytes)) {
        return run_any(e, op, error);
    }
    return arrive_in_line(e, lane, op, call, bytes) ? wake_and_finish(lane, op, error)
                                                    : end_in_lines(e, lane, op, call, error);
}

/* Whether an operation is an all_reduce whose data fit the arrival line, prepared by an earlier call, with nothing
 * unusual about it. */
static inline bool is_in_lines(const tutti_op *op)
{
    return op->prepared[TTI_PREPARED_FOLD] != 0 && (op->flags | (uint32_t)op->failed) == 0;
}

tutti_status tti_engine_run(struct tti_engine *e, tutti_op *op, tutti_error *error)
{
    return is_in_lines(op) ? run_in_lines(e, op, error) : run_any(e, op, error);
}

/* ---- small calls in two steps ----------------------------------------------------------------------------------- */

/* Any call: its own function, as run_any. */
__attribute__((noinline)) static int32_t start_any(struct tti_engine *e, tutti_op *op)
{
    struct tti_lane *lane = &e->lanes[op->lane];
    tutti_error unused;
    if (op->failed != TUTTI_OK || !is_prepared(lane, op)) {
        return 0;
    }
    const bool large = (op->prepared[TTI_PREPARED_CLASS] & TTI_PREPARED_CLASSES) == TTI_CLASS_LARGE;
    if ((e->size > 1 && (large || needs_agreement(lane, op) || !tti_has_credit(lane, lane->call + 1))) ||
        poll_for_failure(lane, NULL) != TUTTI_OK) {
        return 0;
    }
    lane->error = &unused; /* nothing before the first wait can fail */
    begin_call(lane, op);
    op->sequence = (int64_t)lane->call;
    if (e->size > 1) {
        lane->half = TTI_HALF_ARRIVAL;
        runners[op->kind](lane, op);
        lane->half = TTI_HALF_BOTH;
    }
    lane->error = NULL;
    return 1;
}

int32_t tti_engine_start(struct tti_engine *e, tutti_op *op)
{
    struct tti_lane *lane = &e->lanes[op->lane];
    const uint64_t call = lane->call + 1;
    const size_t bytes = tti_all_reduce_line_bytes(op);
    if (!is_in_lines(op) || !can_arrive_in_line(e, lane, call, bytes)) {
        return start_any(e, op);
    }
    if (arrive_in_line(e, lane, op, call, bytes)) {
        tti_wake_sleepers(e, lane->sleepers, &tti_arrival_of(lane, e->rank, lane->call)->sequence);
    }
    return 1;
}

int32_t tti_engine_poll(struct tti_engine *e, const tutti_op *op)
{
    struct tti_lane *lane = &e->lanes[op->lane];
    if (e->size == 1 || tti_arrivals_complete(lane, op)) {
        return 1;
    }
    /* 1: tti_engine_finish returns at once, with the arrivals or with an error. A rank that has left counts only if
     * needed */
    return poll_for_failure(lane, NULL) != TUTTI_OK || tti_laggard_left(lane, op) ||
           (op->begun_ns != 0 && tti_now_ns() >= tti_deadline_ns(op->begun_ns, op->timeout_ms));
}

tutti_status tti_engine_finish(struct tti_engine *e, tutti_op *op, tutti_error *error)
{
    struct tti_lane *lane = &e->lanes[op->lane];
    if (is_in_lines(op)) { /* whether or not start has gone the short way */
        lane->op = NULL;
        return end_in_lines(e, lane, op, lane->call, error);
    }
    lane->error = error;
    if (e->size == 1) {
        return run_solo(lane, op);
    }
    lane->half = TTI_HALF_REST;
    tti_wait_begin(lane); /* this may be another thread than at the start */
    tutti_status status = runners[op->kind](lane, op);
    lane->half = TTI_HALF_BOTH;
    return end_call(lane, status);
}
