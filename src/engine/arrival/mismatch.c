/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that call different things in the same call of a lane. Each rank compares the peers' arrival lines with its own
 * before it writes any output, and returns MISMATCH.
 *
 * If all wait for all, every rank sees every line. So all ranks reach the same decision, and none runs the call. A root
 * that writes serves the readers that call the same, if there are any. Every rank ends the call by publishing
 * TTI_PHASE_FINAL, so no peer waits for it for ever.
 *
 * A rank that does not wait for a peer cannot compare. So each rooted call adds to the digest, and so does a call
 * without a root if another rank has called a rooted one instead. From the first difference on the digests of two ranks
 * differ, by a number that stays the same. A rank that waits for such a peer later sees that. It still runs that call,
 * since other ranks may see no difference in it, and then returns MISMATCH.
 *
 * Each difference is reported once. lane->reported_delta has what a rank has reported of a peer. One report covers all
 * calls so far, also of peers that the rank has not compared (lane->mismatch_reported). The first call in which all
 * wait for all makes the digests equal again.
 */
#include "engine/arrival/mismatch.h"

#include <string.h>

#include "engine/arrival/digest.h"
#include "engine/descriptor.h"
#include "engine/failure/corrupt.h"

static tutti_status mismatch(struct tti_lane *lane, int peer)
{
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    const uint64_t descriptor[2] = {line->descriptor[0], line->descriptor[1]};
    const struct tti_rank_call theirs = {
        .rank = peer, .failed = tti_descriptor_failed(descriptor), .descriptor = descriptor};
    const struct tti_rank_call own = {
        .rank = lane->engine->rank, .failed = tti_descriptor_failed(lane->descriptor), .descriptor = lane->descriptor};
    return tti_calls_differ(&theirs, &own, lane->call, lane->index, lane->error);
}

/* The same for an earlier call. The peer may have overwritten the line of that call; the own line is still there. */
static void mismatch_before(struct tti_lane *lane, int peer)
{
    const int rank = lane->engine->rank;
    char last[100];
    tti_descriptor_text(tti_arrival_of(lane, rank, lane->call - 1)->descriptor, last, sizeof(last));
    tti_error_set(
        lane->error, TUTTI_MISMATCH,
        "rank %d and rank %d called different things in an earlier call of lane %d, in which rank %d did not wait "
        "for rank %d (its call before this one was %s); it is reported by %s, call %llu, which has been carried out",
        peer, rank, lane->index, rank, peer, last, tutti_operation_name(lane->op->kind),
        (unsigned long long)lane->call);
    lane->error->suspect = peer;
    lane->late_mismatch = true;
    lane->announces = true; /* so that end_call() reads late_mismatch */
}

/* ---- what has been reported ------------------------------------------------------------------------------------- */

/* Whether a peer's digest shows a difference in an earlier call that this rank has not reported. Records it as
 * reported. */
static bool is_unreported(struct tti_lane *lane, int peer)
{
    const uint32_t beyond = tti_arrival_of(lane, peer, lane->call)->digest - lane->digest;
    const bool known = beyond == lane->reported_delta[peer] || lane->mismatch_reported[peer];
    lane->reported_delta[peer] = beyond;
    lane->mismatch_reported[peer] = false;
    lane->diverged = true;
    return !known;
}

/* This call reports its own difference: adds it to what is reported of the peer. */
static void add_reported(struct tti_lane *lane, int peer)
{
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    lane->reported_delta[peer] += tti_digest_of(lane->call, line->descriptor[0], line->descriptor[1]) -
                                  tti_digest_of(lane->call, lane->descriptor[0], lane->descriptor[1]);
}

/* In this call all ranks see the lines of all, so all begin a new digest. */
static void reset_digest(struct tti_lane *lane)
{
    const size_t size = (size_t)lane->engine->size;
    lane->digest = (uint32_t)lane->call;
    if (lane->diverged) {
        memset(lane->reported_delta, 0, size * sizeof(*lane->reported_delta));
        memset(lane->mismatch_reported, 0, size * sizeof(*lane->mismatch_reported));
        lane->diverged = false;
    }
}

void tti_mark_all_reported(struct tti_lane *lane)
{
    for (int r = 0; r < lane->engine->size; r++) {
        lane->mismatch_reported[r] = true;
    }
    lane->diverged = true;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

/* A line differs from the own one: whether its number, which the wait only compared, is possible. */
static tutti_status check_number(struct tti_lane *lane, int peer)
{
    /* relaxed: the wait loaded it with acquire, and it does not change in this call */
    const uint64_t number =
        atomic_load_explicit(&tti_arrival_of(lane, peer, lane->call)->sequence, memory_order_relaxed);
    return tti_arrival_is_possible(lane, number, lane->call)
               ? TUTTI_OK
               : tti_fault_corrupt(lane, peer, "the number of its call", number);
}

tutti_status tti_find_difference_of(struct tti_lane *lane, int peer)
{
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    const tutti_status status = check_number(lane, peer);
    if (status != TUTTI_OK) {
        return status;
    }
    const bool before = is_unreported(lane, peer);
    const bool now = line->descriptor[0] != lane->descriptor[0] || line->descriptor[1] != lane->descriptor[1];
    if (!before && !now) {
        return TUTTI_OK;
    }
    const uint32_t beyond = lane->reported_delta[peer];
    tti_mark_all_reported(lane); /* one report also covers the peers that are not compared here */
    lane->reported_delta[peer] = beyond;
    lane->mismatch_reported[peer] = false;
    if (!now) {
        mismatch_before(lane, peer);
        return TUTTI_OK;
    }
    add_reported(lane, peer);
    return mismatch(lane, peer);
}

static tutti_status cancelled(struct tti_lane *lane, int by)
{
    tutti_operation kind = lane->op->kind;
    tti_error_set(lane->error, TUTTI_CANCELLED, "rank %d has cancelled this %s (call %llu of lane %d)", by,
                  tutti_operation_name(kind), (unsigned long long)lane->call, lane->index);
    lane->error->suspect = by;
    return TUTTI_CANCELLED;
}

/* What the lines of all ranks have in common with this rank's; -1: there is no such rank. */
struct comparison {
    uint64_t own[2]; /* this rank's descriptor without the mark of a cancel */
    int different;   /* the lowest rank that calls something else */
    int diverged;    /* the lowest rank with an earlier difference that this rank has not reported */
    int cancelled;   /* the lowest rank that has cancelled */
    bool all_wait;   /* every rank waits for all, so every rank sees what this one sees */
};

static void keep_lowest(int *rank, bool counts, int r)
{
    *rank = counts && *rank < 0 ? r : *rank;
}

static tutti_status compare_with(struct tti_lane *lane, struct comparison *c, int peer)
{
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    uint64_t theirs[2] = {line->descriptor[0], line->descriptor[1]};
    const tutti_status status = check_number(lane, peer);
    if (status != TUTTI_OK) {
        return status;
    }
    keep_lowest(&c->cancelled, tti_descriptor_uncancel(theirs), peer);
    const bool differs = theirs[0] != c->own[0] || theirs[1] != c->own[1];
    c->all_wait = c->all_wait && (!differs || tti_kind_waits_for_all(tti_descriptor_kind(theirs)));
    keep_lowest(&c->different, differs, peer);
    keep_lowest(&c->diverged, is_unreported(lane, peer), peer);
    return TUTTI_OK;
}

tutti_status tti_find_difference(struct tti_lane *lane)
{
    const struct tti_engine *e = lane->engine;
    struct comparison c = {
        .own = {lane->descriptor[0], lane->descriptor[1]}, .different = -1, .diverged = -1, .cancelled = -1};
    const bool own_cancel = tti_descriptor_uncancel(c.own);
    const bool own_waits = tti_kind_waits_for_all(tti_descriptor_kind(c.own));
    c.all_wait = own_waits;
    for (int r = 0; r < e->size; r++) {
        tutti_status status = TUTTI_OK;
        if (r == e->rank) {
            keep_lowest(&c.cancelled, own_cancel, r);
        } else if ((status = compare_with(lane, &c, r)) != TUTTI_OK) {
            return status;
        }
    }
    for (int r = 0; r < e->size && c.different >= 0; r++) {
        if (r != e->rank) {
            add_reported(lane, r);
        }
    }
    if (c.all_wait) {
        reset_digest(lane);
    } else if (own_waits) {
        tti_digest_advance(lane);
    }
    if (c.different >= 0) {
        return mismatch(lane, c.different);
    }
    if (c.diverged >= 0) {
        mismatch_before(lane, c.diverged);
    }
    return c.cancelled < 0 ? TUTTI_OK : c.diverged < 0 ? cancelled(lane, c.cancelled) : TUTTI_MISMATCH;
}
