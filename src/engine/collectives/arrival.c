/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arrival ring: each call of a rank stores exactly one line, which says what it called (descriptor), what it had
 * called before (a digest) and either the data itself (small calls) or where they lie (attributes).
 *
 * A slot may be reused when nobody needs the call that it held. A rank has ended call c once it has arrived at c + 1, so
 * the credit for call n is every peer's arrival at n - 31; calls that wait for all ranks give it for free.
 *
 * A rank that waits for a peer compares descriptors first, before any output is written. In calls where all wait for all,
 * every rank sees every descriptor, so all come to the same conclusion, and none runs the call. A root that writes serves the
 * readers that called the same, if there are any. Whatever a rank called, it ends by announcing TTI_PHASE_FINAL, so no peer
 * waits for it for ever; all stay in step, since each call is one line in any case.
 *
 * A rank that does not wait cannot know. So a call that not all ranks have seen of all adds to the digest: each rooted one, and
 * one in which all wait for all if it met a rooted one. The digests of ranks that called different things differ from then on,
 * by a number that stays the same, and a rank that waits for another one later finds that out. It runs that call all the same, since others may have nothing to report there,
 * and ends it with MISMATCH. What it has reported it notes (lane->reported_delta), so it reports everything once. A report covers all
 * calls so far, also those of ranks that it has not looked at (lane->excused). The first call in which all wait for all makes
 * the digests equal again.
 */
#include <stdio.h>

#include "engine/collectives/arrival.h"

static inline tutti_status await_arrival(struct tti_lane *lane, int peer, uint64_t call)
{
    return tti_lane_wait(lane, &tti_arrival_of(lane, peer, call)->sequence, call, peer);
}

tutti_status tti_await_packets(struct tti_lane *lane, int peer)
{
    return tti_inline_bytes(lane, lane->op, peer) > TTI_PAYLOAD ? tti_packets_await(lane, peer)
                                                                : await_arrival(lane, peer, lane->call);
}

static bool all_arrived(const struct tti_lane *lane, uint64_t call)
{
    for (int r = 0; r < lane->engine->size; r++) {
        /* acquire: that the peer has ended call - 1 must be known before its data are overwritten */
        if (r != lane->engine->rank &&
            atomic_load_explicit(&tti_arrival_of(lane, r, call)->sequence, memory_order_acquire) < call) {
            return false;
        }
    }
    return true;
}

bool tti_has_credit(struct tti_lane *lane, uint64_t call)
{
    if (call < TTI_RING || lane->credit >= call - TTI_RING + 1) {
        return true;
    }
    uint64_t ahead = call - TTI_RING + 1 + TTI_RING / 2;
    if (all_arrived(lane, ahead)) {
        lane->credit = ahead;
    }
    return lane->credit >= call - TTI_RING + 1;
}

bool tti_arrivals_complete(const struct tti_lane *lane, const tutti_op *op)
{
    bool root = lane->engine->rank == op->root;
    switch (op->kind) {
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_GATHER:
        return !root || all_arrived(lane, lane->call);
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_SCATTER:
        return root || atomic_load_explicit(&tti_arrival_of(lane, op->root, lane->call)->sequence,
                                            memory_order_acquire) >= lane->call;
    default:
        return all_arrived(lane, lane->call);
    }
}

bool tti_laggard_left(const struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_engine *e = lane->engine;
    bool from_root = op->kind == TUTTI_OP_BROADCAST || op->kind == TUTTI_OP_SCATTER;
    for (int r = 0; r < e->size; r++) {
        /* acquire: a departure counts only if it was seen before the arrival was looked for */
        if (r != e->rank && (!from_root || r == op->root) && tti_has_left(e, r) &&
            atomic_load_explicit(&tti_arrival_of(lane, r, lane->call)->sequence, memory_order_acquire) < lane->call) {
            return true;
        }
    }
    return false;
}

tutti_status tti_await_credit(struct tti_lane *lane)
{
    if (tti_has_credit(lane, lane->call)) { /* usually true, and then good for the next 16 calls */
        return TUTTI_OK;
    }
    const uint64_t need = lane->call - TTI_RING + 1;
    tutti_status status = TUTTI_OK;
    lane->needed_call = need;
    for (int r = 0; r < lane->engine->size && status == TUTTI_OK; r++) {
        status = r != lane->engine->rank ? await_arrival(lane, r, need) : TUTTI_OK;
    }
    lane->needed_call = 0;
    lane->credit = status == TUTTI_OK ? need : lane->credit;
    return status;
}

/* The line of the sequence comes last: readers poll it, and would take it away while the others are still on their way. */
void tti_arrival_write(struct tti_lane *lane, struct tti_arrival *line, const unsigned char *payload, size_t bytes)
{
    const size_t n = bytes < TTI_PAYLOAD ? bytes : TTI_PAYLOAD;
    if (bytes > TTI_PAYLOAD) {
        tti_packets_write(lane, payload, bytes);
    }
    memcpy(line->payload + TTI_FIRST_LINE, payload + TTI_FIRST_LINE, n - TTI_FIRST_LINE);
    memcpy(line->payload, payload, TTI_FIRST_LINE);
}

tutti_status tti_arrive(struct tti_lane *lane, const void *payload, size_t bytes)
{
    return lane->half == TTI_HALF_REST ? TUTTI_OK : tti_arrive_now(lane, payload, bytes, false);
}

tutti_status tti_arrive_staged(struct tti_lane *lane, uint32_t mark)
{
    struct tti_attributes a = {.mark = mark,
                               .start = (uint32_t)(tti_stage_place(lane) / 64),
                               .scale = lane->op->scale,
                               .input = lane->input,
                               .output = lane->output};
    static_assert(offsetof(struct tti_arrival, payload) + sizeof(a) <= 64, "they travel in the sequence's cache line");
    return tti_arrive(lane, &a, sizeof(a));
}

static tutti_status mismatch(struct tti_lane *lane, int peer)
{
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    uint64_t own[2] = {lane->descriptor[0], lane->descriptor[1]};
    uint64_t theirs[2] = {line->descriptor[0], line->descriptor[1]};
    char here[100];
    char there[100];
    tti_descriptor_uncancel(own);
    tti_descriptor_uncancel(theirs);
    tti_descriptor_text(own, here, sizeof(here));
    tti_descriptor_text(theirs, there, sizeof(there));
    tti_error_set(lane->error, TUTTI_MISMATCH, "rank %d called %s, but rank %d called %s (call %llu of lane %d)", peer,
                  there, lane->engine->rank, here, (unsigned long long)lane->call, lane->index);
    lane->error->suspect = peer;
    return TUTTI_MISMATCH;
}

/* The same of an earlier call. What the peer called then is overwritten, perhaps; what this rank did is not. */
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
    lane->announces = true; /* so that end_call looks */
}

/* ---- what has been reported ---------------------------------------------------------------------------------------- */

/* Looks at a peer's digest: whether it tells of an earlier call that this rank has not reported. */
static bool is_unreported(struct tti_lane *lane, int peer)
{
    const uint32_t beyond = tti_arrival_of(lane, peer, lane->call)->digest - lane->digest;
    const bool known = beyond == lane->reported_delta[peer] || lane->mismatch_reported[peer];
    lane->reported_delta[peer] = beyond;
    lane->mismatch_reported[peer] = false;
    lane->diverged = true;
    return !known;
}

/* What this call adds to it is reported by this call. */
static void add_reported(struct tti_lane *lane, int peer)
{
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    lane->reported_delta[peer] += tti_digest_of(lane->call, line->descriptor[0], line->descriptor[1]) -
                                  tti_digest_of(lane->call, lane->descriptor[0], lane->descriptor[1]);
}

/* All ranks see the lines of all in this call: all forget what was before. */
static void forget(struct tti_lane *lane)
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

/* ---- comparing ----------------------------------------------------------------------------------------------------- */

/* Where the rest of a line is not what it should be: whether its number, which was only compared, can be. */
static tutti_status check_number(struct tti_lane *lane, int peer)
{
    /* relaxed: it has been awaited with acquire, and does not change in this call */
    const uint64_t number =
        atomic_load_explicit(&tti_arrival_of(lane, peer, lane->call)->sequence, memory_order_relaxed);
    return tti_arrival_is_possible(lane, number, lane->call)
               ? TUTTI_OK
               : tti_fault_corrupt(lane, peer, "the number of its call", number);
}

/* A peer that is waited for has called something else, now or before. */
__attribute__((noinline, cold)) static tutti_status find_difference_of(struct tti_lane *lane, int peer)
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
    tti_mark_all_reported(lane); /* what ranks that are not looked at have called until now: one report says it all */
    lane->reported_delta[peer] = beyond;
    lane->mismatch_reported[peer] = false;
    if (!now) {
        mismatch_before(lane, peer);
        return TUTTI_OK;
    }
    add_reported(lane, peer);
    return mismatch(lane, peer);
}

tutti_status tti_await_one(struct tti_lane *lane, int peer)
{
    if (lane->half == TTI_HALF_ARRIVAL) {
        return TUTTI_BUSY;
    }
    tutti_status status =
        lane->class == TTI_CLASS_PACKETS ? tti_await_packets(lane, peer) : await_arrival(lane, peer, lane->call);
    if (status != TUTTI_OK) {
        return status;
    }
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    const uint64_t differences = (line->descriptor[0] ^ lane->descriptor[0]) |
                                 (line->descriptor[1] ^ lane->descriptor[1]) | (line->digest ^ lane->digest) |
                                 lane->diverged;
    return __builtin_expect(differences == 0, 1) ? TUTTI_OK : find_difference_of(lane, peer);
}

static tutti_status cancelled(struct tti_lane *lane, int by)
{
    tutti_operation kind = lane->op->kind;
    tti_error_set(lane->error, TUTTI_CANCELLED, "rank %d has cancelled this %s (call %llu of lane %d)", by,
                  tutti_operation_name(kind), (unsigned long long)lane->call, lane->index);
    lane->error->suspect = by;
    return TUTTI_CANCELLED;
}

tutti_status tti_await_all(struct tti_lane *lane)
{
    return lane->half == TTI_HALF_ARRIVAL ? TUTTI_BUSY : tti_await_everybody(lane, false);
}

tutti_status tti_arrive_and_wait_half(struct tti_lane *lane, const void *payload, size_t bytes)
{
    if (lane->half == TTI_HALF_REST) {
        return tti_await_everybody(lane, true);
    }
    const tutti_status status = tti_arrive_now(lane, payload, bytes, true);
    return status == TUTTI_OK ? TUTTI_BUSY : status;
}

tutti_status tti_find_difference(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    int different = -1;
    int diverged = -1;
    int marked = -1; /* the lowest rank that has cancelled */
    uint64_t own[2] = {lane->descriptor[0], lane->descriptor[1]};
    const bool own_mark = tti_descriptor_uncancel(own);
    const bool own_waits = tti_kind_waits_for_all(tti_descriptor_kind(own));
    bool all_wait = own_waits; /* every rank: so every rank sees what this one sees */
    for (int r = 0; r < e->size; r++) {
        if (r == e->rank) {
            marked = own_mark && marked < 0 ? r : marked;
            continue;
        }
        const struct tti_arrival *line = tti_arrival_of(lane, r, lane->call);
        uint64_t d[2] = {line->descriptor[0], line->descriptor[1]};
        const tutti_status status = check_number(lane, r);
        if (status != TUTTI_OK) {
            return status;
        }
        marked = tti_descriptor_uncancel(d) && marked < 0 ? r : marked;
        if (d[0] != own[0] || d[1] != own[1]) {
            all_wait = all_wait && tti_kind_waits_for_all(tti_descriptor_kind(d));
            different = different < 0 ? r : different;
        }
        diverged = is_unreported(lane, r) && diverged < 0 ? r : diverged;
    }
    for (int r = 0; r < e->size && different >= 0; r++) {
        if (r != e->rank) {
            add_reported(lane, r);
        }
    }
    if (all_wait) {
        forget(lane);
    } else if (own_waits) {
        tti_digest_advance(lane);
    }
    if (different >= 0) {
        return mismatch(lane, different);
    }
    if (diverged >= 0) {
        mismatch_before(lane, diverged);
    }
    return marked < 0 ? TUTTI_OK : diverged < 0 ? cancelled(lane, marked) : TUTTI_MISMATCH;
}

tutti_status tti_agree_on_cancel(struct tti_lane *lane, const tutti_op *op)
{
    lane->class = TTI_CLASS_LINE;
    lane->advances = false; /* all wait for all in it */
    tti_descriptor_agree(lane->descriptor);
    if (op->failed == TUTTI_CANCELLED) {
        tti_descriptor_cancel(lane->descriptor);
    } else if (op->failed != TUTTI_OK) {
        tti_descriptor_fail(lane->descriptor);
    }
    tutti_status status = tti_arrive(lane, NULL, 0);
    return status == TUTTI_OK ? tti_await_all(lane) : status;
}

tutti_status tti_await_readers(struct tti_lane *lane)
{
    const tutti_status status = tti_await_all(lane);
    if (status != TUTTI_MISMATCH) {
        return status;
    }
    bool some = false;
    for (int r = 0; r < lane->engine->size; r++) {
        const struct tti_arrival *line = tti_arrival_of(lane, r, lane->call);
        lane->mismatched[r] = line->descriptor[0] != lane->descriptor[0] || line->descriptor[1] != lane->descriptor[1];
        some = some || (r != lane->engine->rank && !lane->mismatched[r]);
    }
    lane->has_mismatched = true;
    lane->late_mismatch = some;
    return some ? TUTTI_OK : status;
}

tutti_status tti_attributes_one(struct tti_lane *lane, int peer)
{
    struct tti_attributes a;
    memcpy(&a, tti_arrival_of(lane, peer, lane->call)->payload, sizeof(a));
    if (a.mark != TUTTI_OK && a.mark != TUTTI_NO_MEMORY) {
        return tti_fault_corrupt(lane, peer, "the mark of its stage", a.mark);
    }
    if (a.mark != TUTTI_OK) {
        tti_error_set(lane->error, TUTTI_NO_MEMORY, "rank %d has no memory for its stage (%zu bytes)", peer,
                      lane->engine->layout.stage);
        lane->error->suspect = peer;
        return TUTTI_NO_MEMORY;
    }
    tti_stage_start(lane, peer, (uint64_t)a.start * 64);
    lane->scales[peer] = a.scale;
    return tti_locate(lane, peer, a.input, a.output);
}

tutti_status tti_attributes_all(struct tti_lane *lane)
{
    for (int r = 0; r < lane->engine->size; r++) {
        tutti_status status = tti_attributes_one(lane, r); /* the own ones too: all ranks must reach the same verdict */
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

tutti_status tti_attributes_as_root(struct tti_lane *lane, bool others_wait)
{
    const tutti_status status = tti_attributes_all(lane);
    if (status != TUTTI_OK && others_wait && lane->error->scope != TUTTI_SCOPE_GROUP) {
        return tti_fault_raise_suspect(lane->engine, lane, lane->error->suspect, lane->error);
    }
    return status;
}
