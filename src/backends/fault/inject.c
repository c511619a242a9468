/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation has up to three steps: a delay, the inner operation, and a sleep that fills the time which the bandwidth
 * asks for. An error replaces the inner operation, a drop replaces all three.
 *
 * All waits sleep, because the CPU belongs to the application, and in slices, so that a failure of the group ends them.
 * A delay ends at the deadline of the operation at the latest. Then the inner operation, which has the same deadline,
 * succeeds if all other ranks have arrived, and fails otherwise.
 */
#include "backends/fault/inject.h"

#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "tensor/parts.h"

#define SLICE_NS INT64_C(20000000)
#define GRACE_NS INT64_C(250000000) /* after the deadline, for a rank that drops: see drop() */

/* Whether to stop waiting. `failure` reports what this rank has recorded; a probe also polls the other ranks'
 * reports. */
static bool group_failed(struct tti_fault_group *s)
{
    if (tti_fault_group_failure(s, NULL) != TUTTI_OK) {
        return true;
    }
    int32_t found = 0;
    tutti_message message = TUTTI_MESSAGE_INIT;
    tutti_error error;
    return s->backend->ops->probe &&
           s->backend->ops->probe(s->inner, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, &found, &message, &error) > TUTTI_MISMATCH;
}

/* Sleeps until that time, or until the group has failed. */
static void sleep_until(struct tti_fault_group *s, int64_t until_ns)
{
    for (int64_t now = tti_now_ns(); now < until_ns; now = tti_now_ns()) {
        int64_t next = until_ns - now > SLICE_NS ? now + SLICE_NS : until_ns;
        struct timespec t = {.tv_sec = next / 1000000000, .tv_nsec = next % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
        if (next < until_ns && group_failed(s)) {
            return;
        }
    }
}

/* ---- errors and drops -------------------------------------------------------------------------------------------- */

/* Fails the group on this rank and, if the inner backend can notify them, on the other ranks. */
static tutti_status abort_with(struct tti_fault_group *s, const tutti_op *op, const tutti_error *cause,
                               tutti_error *error)
{
    bool message = op->kind == TUTTI_OP_SEND || op->kind == TUTTI_OP_RECV;
    tutti_error e = *cause;
    e.scope = TUTTI_SCOPE_GROUP;
    e.operation = op->kind;
    e.rank = s->rank;
    e.suspect = s->rank;
    tti_fault_group_record(s, &e);
    if (error) {
        *error = e;
    }
    tutti_status status = e.status;
    /* an error inside one rank means REVOKED to the other ranks */
    e.status = status < TUTTI_TIMEOUT ? TUTTI_REVOKED : status;
    tti_fault_group_abort(s, message ? TUTTI_LANE_MESSAGES : op->lane, &e);
    return status;
}

/*
 * This rank does not take part, like a rank that hangs: the other ranks detect it by their deadlines. Those pass at
 * about the same time as this rank's, so this rank waits a moment longer. Otherwise chance would decide whether the
 * other ranks report it missing or receive its abort.
 */
static tutti_status drop(struct tti_fault_group *s, const tutti_op *op, const struct tti_fault_effect *v,
                         int64_t deadline_ns, tutti_error *error)
{
    int64_t begun_ns = tti_now_ns();
    sleep_until(s, deadline_ns < TTI_NEVER - GRACE_NS ? deadline_ns + GRACE_NS : TTI_NEVER);
    int64_t waited_ms = (tti_now_ns() - begun_ns) / 1000000;
    tutti_error e;
    tti_error_set(&e, TUTTI_TIMEOUT,
                  "%s: rank %d did not take part, by rule %d of fault.rules (match %lld), for %lld ms",
                  tutti_operation_name(op->kind), s->rank, v->rule, (long long)v->match, (long long)waited_ms);
    e.elapsed_ms = waited_ms;
    return abort_with(s, op, &e, error);
}

static tutti_status injected(const struct tti_fault_group *s, const tutti_op *op, const struct tti_fault_effect *v,
                             tutti_error *error)
{
    tti_error_set(error, v->status, "%s: rank %d fails with %s, by rule %d of fault.rules (match %lld)",
                  tutti_operation_name(op->kind), s->rank, tutti_status_name(v->status), v->rule, (long long)v->match);
    if (error) {
        error->suspect = s->rank;
    }
    return v->status;
}

static tutti_status fail_group(struct tti_fault_group *s, const tutti_op *op, const struct tti_fault_effect *v,
                               tutti_error *error)
{
    tutti_error e;
    injected(s, op, v, &e);
    return abort_with(s, op, &e, error);
}

/* Only the call fails, and the ranks stay in step, if the inner backend passes op->failed on to the other ranks. */
static tutti_status fail_in_step(struct tti_fault_group *s, tutti_op *op, const struct tti_fault_effect *v,
                                 tutti_error *error)
{
    if (tti_fault_group_capabilities(s) & TUTTI_CAP_CHECKS_CALLS) {
        op->failed = v->status;
        tutti_status status = s->backend->ops->run(s->inner, op, error);
        op->failed = TUTTI_OK;
        if (status != v->status) {
            return status;
        }
    }
    return injected(s, op, v, error);
}

/* ---- bandwidth --------------------------------------------------------------------------------------------------- */

/* The bytes that this rank sends or receives in one operation, whichever are more. Sums cannot overflow: the tensors
 * exist. */
static size_t payload(const struct tti_fault_group *s, const tutti_op *op)
{
    size_t own = op->count * tutti_dtype_size(op->dtype);
    size_t in = 0;
    size_t out = 0;
    switch (op->kind) {
    case TUTTI_OP_BARRIER:
    case TUTTI_OP_RECV: /* its bandwidth counts at the sender */
        return 0;
    case TUTTI_OP_ALL_TO_ALL:
        in = tti_parts_total(&op->send_parts, s->size);
        out = tti_parts_total(&op->recv_parts, s->size);
        return in > out ? in : out;
    case TUTTI_OP_ALL_GATHER:
        return tti_parts_total(&op->recv_parts, s->size);
    case TUTTI_OP_REDUCE_SCATTER:
        return tti_parts_total(&op->send_parts, s->size);
    case TUTTI_OP_GATHER:
        return s->rank == op->root ? tti_parts_total(&op->recv_parts, s->size) : own;
    case TUTTI_OP_SCATTER:
        return s->rank == op->root ? tti_parts_total(&op->send_parts, s->size) : own;
    default:
        return own;
    }
}

/* The least time for the payload, rounded up; 0 without a limit. */
static int64_t transfer_ns(const struct tti_fault_group *s, const tutti_op *op, int64_t bandwidth)
{
    const double year = 365.0 * 24 * 3600 * 1e9; /* a longest time, so that sums do not overflow */
    double ns = bandwidth > 0 ? (double)payload(s, op) / (double)bandwidth * 1e9 : 0;
    return ns > year ? (int64_t)year : (int64_t)ns + (ns > 0);
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- the operations ---------------------------------------------------------------------------------------------- */

static bool in_step(tutti_status status)
{
    return status <= TUTTI_MISMATCH;
}

static tutti_status run_with(struct tti_fault_group *s, tutti_op *op, const struct tti_fault_effect *v,
                             tutti_error *error)
{
    const int64_t deadline_ns = tti_deadline_ns(op->begun_ns, op->timeout_ms);
    if (v->drop) {
        return drop(s, op, v, deadline_ns, error);
    }
    const int64_t start_ns = tti_now_ns() + v->delay_ns;
    sleep_until(s, earlier(start_ns, deadline_ns));
    if (v->status != TUTTI_OK && op->failed == TUTTI_OK) { /* a call that fails already has an error of its own */
        return in_step(v->status) ? fail_in_step(s, op, v, error) : fail_group(s, op, v, error);
    }
    const tutti_status status = s->backend->ops->run(s->inner, op, error);
    if (status == TUTTI_OK) {
        sleep_until(s, earlier(start_ns + transfer_ns(s, op, v->bandwidth), deadline_ns));
    }
    return status;
}

tutti_status tti_inject_run(struct tti_fault_group *s, tutti_op *op, tutti_error *error)
{
    tutti_status status = tti_fault_group_check(s, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const struct tti_fault_effect v = tti_rules_evaluate(&s->rules, s->rank, op->kind);
    const bool nothing = v.delay_ns == 0 && v.bandwidth == 0 && v.rule == 0;
    if (nothing || tti_fault_group_failure(s, NULL) != TUTTI_OK) { /* a group fails once */
        return s->backend->ops->run(s->inner, op, error);
    }
    const int64_t begun_ns = op->begun_ns;
    op->begun_ns = begun_ns != 0 ? begun_ns : tti_now_ns(); /* the delay is part of the operation's time */
    status = run_with(s, op, &v, error);
    op->begun_ns = begun_ns; /* the caller may run the same operation again */
    return status;
}

/* Messages that are posted together have the longest of their delays, and share the bandwidth. */
static tutti_status delay_messages(struct tti_fault_group *s, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                   tutti_error *error)
{
    struct tti_fault_effect first = {0}; /* the first error or drop */
    const tutti_op *failing = NULL;
    int64_t delay_ns = 0;
    int64_t transfers_ns = 0;
    for (size_t i = 0; i < count; i++) {
        struct tti_fault_effect v = tti_rules_evaluate(&s->rules, s->rank, ops[i]->kind);
        int64_t more_ns = transfer_ns(s, ops[i], v.bandwidth);
        delay_ns = v.delay_ns > delay_ns ? v.delay_ns : delay_ns;
        transfers_ns = earlier(transfers_ns + more_ns, INT64_MAX / 4);
        if (v.rule != 0 && !failing) {
            first = v;
            failing = ops[i];
        }
    }
    bool nothing = delay_ns == 0 && transfers_ns == 0 && !failing;
    if (nothing || tti_fault_group_failure(s, NULL) != TUTTI_OK) {
        return TUTTI_OK;
    }
    int64_t now = tti_now_ns();
    int64_t deadline_ns = TTI_NEVER;
    for (size_t i = 0; i < count; i++) {
        ops[i]->begun_ns = ops[i]->begun_ns != 0 ? ops[i]->begun_ns : now;
        deadline_ns = earlier(deadline_ns, tti_deadline_ns(ops[i]->begun_ns, timeout_ms));
    }
    if (first.drop) {
        return drop(s, failing, &first, deadline_ns, error);
    }
    sleep_until(s, earlier(now + delay_ns + transfers_ns, deadline_ns));
    if (!failing) {
        return TUTTI_OK;
    }
    return in_step(first.status) ? injected(s, failing, &first, error) : fail_group(s, failing, &first, error);
}

tutti_status tti_inject_messages(struct tti_fault_group *s, tutti_op *const *ops, size_t count, int64_t timeout_ms,
                                 tutti_error *error)
{
    tutti_status status = tti_fault_group_check(s, error);
    status = status == TUTTI_OK ? delay_messages(s, ops, count, timeout_ms, error) : status;
    for (size_t i = 0; i < count && status != TUTTI_OK; i++) {
        ops[i]->status = status;
    }
    return status;
}
