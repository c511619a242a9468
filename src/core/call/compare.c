/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Before a collective that is compared, every rank puts a description of its call into a ticket, and the ranks exchange
 * their tickets by an all_gather on the engine that takes host memory. All ranks read the same tickets, so all make the
 * same decision before anything is written, and stay in step. A ticket also carries the cancel of its rank. The lists
 * of all_to_all_v are in no ticket; they take a second all_gather.
 *
 * Cost: one all_gather of 40 bytes a rank, so calls with a root wait for every rank, too. Calls pay it with the setting
 * check_calls, which finds mistakes, or with the flag TUTTI_CANCELLABLE.
 */
#include "core/call/compare.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/kept_memory.h"
#include "core/group/backend/engines.h"
#include "core/group/group_state.h"
#include "engine/descriptor.h"

/* Fixed layout: it is sent between processes. */
struct ticket {
    uint64_t descriptor[2];
    uint64_t call;
    int32_t failed; /* a status: the rank cannot take part */
    int32_t rank;
    uint32_t flags;
    uint32_t reserved;
};

/* Of one lane; used by the thread that owns the lane. */
struct lane {
    uint64_t calls;
    struct ticket own;
    struct ticket *all; /* of every rank */
    uint64_t *lists;    /* of all_to_all_v: the own ones, then those of all ranks; NULL until they are needed */
    bool in_use;        /* the engine may access tickets and lists until the process ends (tutti_op) */
};

struct tti_comparison {
    struct ticket *tickets; /* of all lanes */
    struct lane lanes[TUTTI_MAX_LANES];
};

bool tti_compares(const struct tti_group *g, const tutti_op *op)
{
    return g->compares_all || (g->comparison && (op->flags & TUTTI_CANCELLABLE));
}

tutti_status tti_comparison_open(struct tti_group *g, tutti_error *error)
{
    const uint32_t has = tti_group_capabilities(g);
    /* An engine that compares calls itself reports a mismatch of a rooted call later to ranks that do not wait in
     * it. */
    const bool all = g->size > 1 && tti_setting_number(g->settings, TTI_SET_CHECK_CALLS) &&
                     (g->host_backend || !(has & TUTTI_CAP_CHECKS_CALLS));
    const bool flagged = g->size > 1 && g->host_backend && !(has & TUTTI_CAP_CANCEL);
    if (!all && !flagged) {
        return TUTTI_OK;
    }
    if (!g->host_backend) {
        return tti_error_set(
            error, TUTTI_UNSUPPORTED,
            "check_calls is on, but backend %s does not compare calls, and there is no engine for host "
            "memory that could do it: leave check_calls off, or make one available (gloo, mpi)",
            g->backend->name);
    }
    struct tti_comparison *x = calloc(1, sizeof(*x));
    if (x) {
        x->tickets = calloc((size_t)g->size * (size_t)g->lanes, sizeof(*x->tickets));
    }
    if (!x || !x->tickets) {
        free(x);
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory to compare the calls of %d ranks", g->size);
    }
    for (int32_t i = 0; i < g->lanes; i++) {
        x->lanes[i].all = x->tickets + (size_t)i * (size_t)g->size;
    }
    g->comparison = x;
    g->compares_all = all;
    return TUTTI_OK;
}

void tti_comparison_close(struct tti_comparison *x)
{
    if (!x) {
        return;
    }
    bool in_use = false;
    for (int32_t i = 0; i < TUTTI_MAX_LANES; i++) {
        in_use = in_use || x->lanes[i].in_use;
    }
    if (in_use) { /* keeps x, so tickets and lists stay reachable */
        tti_memory_keep(x);
        return;
    }
    for (int32_t i = 0; i < TUTTI_MAX_LANES; i++) {
        free(x->lanes[i].lists);
    }
    free(x->tickets);
    free(x);
}

/* `bytes` bytes of every rank to all, within the deadline of the operation. */
static tutti_status gather(const struct tti_group *g, const tutti_op *op, const void *own, void *all, size_t bytes,
                           tutti_error *error)
{
    tutti_op round = {.size = sizeof(round),
                      .kind = TUTTI_OP_ALL_GATHER,
                      .dtype = TUTTI_U8,
                      .lane = op->lane,
                      .src = own,
                      .dst = all,
                      .count = bytes,
                      .scale = 1,
                      .timeout_ms = op->timeout_ms,
                      .begun_ns = op->begun_ns,
                      .background = op->background,
                      .recv_parts = {.outer = 1, .pitch = bytes * (size_t)g->size, .unit = 1, .each = (int64_t)bytes}};
    const tutti_status status = g->host_backend->ops->run(g->host_state, &round, error);
    if (status != TUTTI_OK) {
        struct lane *lane = &g->comparison->lanes[op->lane];
        lane->in_use = round.in_use;
        const tutti_error cause = *error;
        snprintf(error->message, sizeof(error->message), "before %s (%s): %.380s", tutti_operation_name(op->kind),
                 g->compares_all ? "check_calls" : "TUTTI_CANCELLABLE", cause.message);
    }
    return status;
}

static bool equal(const struct ticket *a, const struct ticket *b)
{
    return a->descriptor[0] == b->descriptor[0] && a->descriptor[1] == b->descriptor[1] && a->call == b->call &&
           a->flags == b->flags;
}

static struct tti_rank_call call_of(const struct ticket *t)
{
    return (struct tti_rank_call){.rank = t->rank, .failed = t->failed, .descriptor = t->descriptor};
}

/* Finds the first rank that cannot take part or has called something else; else the first that has cancelled. Ranks
 * with the same call find the same rank. */
static tutti_status decide(const struct tti_group *g, const struct lane *lane, const tutti_op *op, tutti_error *error)
{
    int32_t canceller = -1;
    for (int32_t r = 0; r < g->size; r++) {
        const struct ticket *other = &lane->all[r];
        const bool cancels = other->failed == TUTTI_CANCELLED;
        if (r != g->rank && ((other->failed && !cancels) || !equal(other, &lane->own))) {
            const struct tti_rank_call theirs = call_of(other);
            const struct tti_rank_call own = call_of(&lane->own);
            tutti_status status = tti_calls_differ(&theirs, &own, lane->own.call, op->lane, error);
            if (op->failed != TUTTI_OK) { /* this rank's own cause; the sentence names the other rank's call */
                status = op->failed;
                if (error) {
                    error->status = status;
                }
            }
            return status;
        }
        if (cancels && canceller < 0) {
            canceller = r;
        }
    }
    if (canceller >= 0 && (op->failed == TUTTI_OK || op->failed == TUTTI_CANCELLED)) {
        return tti_comparison_cancelled(op, canceller, error);
    }
    if (op->failed != TUTTI_OK) {
        return tti_error_set(error, op->failed, "%s: rank %d cannot take part: %s", tutti_operation_name(op->kind),
                             g->rank, tutti_status_string(op->failed));
    }
    return TUTTI_OK;
}

tutti_status tti_comparison_cancelled(const tutti_op *op, int32_t by, tutti_error *error)
{
    tti_error_set(error, TUTTI_CANCELLED, "%s: cancelled by rank %d before it began", tutti_operation_name(op->kind),
                  by);
    error->suspect = by;
    return TUTTI_CANCELLED;
}

/* ---- all_to_all_v ----------------------------------------------------------------------------------------------- */

static uint64_t bytes_of(const tutti_parts *parts, int32_t r)
{
    return (uint64_t)parts->outer * (uint64_t)parts->counts[r] * parts->unit;
}

static tutti_status compare_lists(struct tti_group *g, struct lane *lane, const tutti_op *op, tutti_error *error)
{
    const size_t n = (size_t)g->size;
    if (!lane->lists && !(lane->lists = malloc(2 * n * (n + 1) * sizeof(*lane->lists)))) {
        tti_error_set(error, TUTTI_NO_MEMORY, "all_to_all_v: no memory to compare the counts of %d ranks (check_calls)",
                      g->size);
        tti_group_abort(g, op->lane, error); /* the other ranks wait for this rank's lists */
        return TUTTI_NO_MEMORY;
    }
    uint64_t *all = lane->lists + 2 * n;
    for (int32_t r = 0; r < g->size; r++) {
        lane->lists[r] = bytes_of(&op->send_parts, r);
        lane->lists[n + (size_t)r] = bytes_of(&op->recv_parts, r);
    }
    const tutti_status status = gather(g, op, lane->lists, all, 2 * n * sizeof(*all), error);
    for (size_t from = 0; from < n && status == TUTTI_OK; from++) {
        for (size_t to = 0; to < n; to++) {
            const uint64_t sent = all[2 * n * from + to];
            const uint64_t expected = all[2 * n * to + n + from];
            if (sent != expected) {
                return tti_parts_differ((int32_t)from, sent, (int32_t)to, expected, lane->calls, op->lane, error);
            }
        }
    }
    return status;
}

tutti_status tti_compare(struct tti_group *g, tutti_op *op, tutti_error *error)
{
    struct lane *lane = &g->comparison->lanes[op->lane];
    if (lane->in_use) {
        return tti_group_revoked(g, error);
    }
    lane->own = (struct ticket){
        .call = ++lane->calls, .failed = op->failed, .rank = g->rank, .flags = op->flags & TUTTI_CANCELLABLE};
    op->sequence = (int64_t)lane->calls;
    tti_descriptor_make(op, g->size, lane->own.descriptor);
    tutti_status status = gather(g, op, &lane->own, lane->all, sizeof(lane->own), error);
    if (status == TUTTI_OK) {
        status = decide(g, lane, op, error);
    }
    if (status == TUTTI_OK && op->kind == TUTTI_OP_ALL_TO_ALL && op->send_parts.counts) {
        status = compare_lists(g, lane, op, error);
    }
    return status;
}
