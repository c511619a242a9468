/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arrival ring. Each call of a rank publishes exactly one line of 128 bytes: what it calls (the descriptor), a
 * digest of its earlier calls, and either the data themselves (small calls) or where they lie (attributes.h).
 *
 * Idea: a flag beside the data, as in NCCL's LL128 protocol. Cost: one cache-line hop; the misses of all peers' lines
 * overlap.
 *
 * A rank may reuse a slot when no peer needs the call that it holds. A rank has ended call c when it arrives at c + 1.
 * So the credit for call n is every peer's arrival at n - 31. Calls in which all wait for all give it without a check.
 *
 * In a small rooted call the writers do not wait, so they may be some calls ahead. So a reader requests the lines of a
 * peer's next call before it reads those of this one. If they are written already, their misses overlap. If not, its
 * own cache still has the old ones (docs/decisions/0046).
 *
 * A rank that waits for a peer compares the lines before it writes any output. If they differ, mismatch.c decides. All
 * ranks stay in step, since each call is one line in any case.
 */
#include "engine/arrival/arrival.h"

#include "base/host/cpu_prefetch.h"
#include "engine/arrival/class.h"
#include "engine/arrival/packets.h"

static inline void request_next(const struct tti_lane *lane, int peer)
{
    if (lane->class == TTI_CLASS_LARGE) {
        return;
    }
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call + 1);
    tti_prefetch_to_read(line);
    tti_prefetch_to_read(line->payload + TTI_FIRST_LINE);
}

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
        /* acquire: the peer has ended call - 1 before this rank overwrites data of that call */
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
        /* acquire: `left` is read first, so an arrival before the end of the rank is seen */
        if (r != e->rank && (!from_root || r == op->root) && tti_has_left(e, r) &&
            atomic_load_explicit(&tti_arrival_of(lane, r, lane->call)->sequence, memory_order_acquire) < lane->call) {
            return true;
        }
    }
    return false;
}

tutti_status tti_await_credit(struct tti_lane *lane)
{
    if (tti_has_credit(lane, lane->call)) { /* usually true, and then true for the next 16 calls */
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

/* Writes the cache line of the sequence last: readers poll it, and would take it away in the middle. */
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

tutti_status tti_await_one(struct tti_lane *lane, int peer)
{
    if (lane->half == TTI_HALF_ARRIVAL) {
        return TUTTI_BUSY;
    }
    request_next(lane, peer);
    tutti_status status =
        lane->class == TTI_CLASS_PACKETS ? tti_await_packets(lane, peer) : await_arrival(lane, peer, lane->call);
    if (status != TUTTI_OK) {
        return status;
    }
    const struct tti_arrival *line = tti_arrival_of(lane, peer, lane->call);
    const uint64_t differences = (line->descriptor[0] ^ lane->descriptor[0]) |
                                 (line->descriptor[1] ^ lane->descriptor[1]) | (line->digest ^ lane->digest) |
                                 lane->diverged;
    return __builtin_expect(differences == 0, 1) ? TUTTI_OK : tti_find_difference_of(lane, peer);
}

tutti_status tti_await_all(struct tti_lane *lane)
{
    if (lane->half == TTI_HALF_ARRIVAL) {
        return TUTTI_BUSY;
    }
    const bool rooted = lane->op->kind == TUTTI_OP_GATHER || lane->op->kind == TUTTI_OP_REDUCE;
    for (int r = 0; rooted && r < lane->engine->size; r++) {
        if (r != lane->engine->rank) {
            request_next(lane, r);
        }
    }
    return tti_await_every_peer(lane, false);
}

tutti_status tti_arrive_and_wait_half(struct tti_lane *lane, const void *payload, size_t bytes)
{
    if (lane->half == TTI_HALF_REST) {
        return tti_await_every_peer(lane, true);
    }
    const tutti_status status = tti_arrive_now(lane, payload, bytes, true);
    return status == TUTTI_OK ? TUTTI_BUSY : status;
}

tutti_status tti_agree_on_cancel(struct tti_lane *lane, const tutti_op *op)
{
    lane->class = TTI_CLASS_LINE;
    lane->advances = false; /* all ranks wait for all in this round */
    tti_descriptor_agree(lane->descriptor);
    if (op->failed == TUTTI_CANCELLED) {
        tti_descriptor_cancel(lane->descriptor);
    } else if (op->failed != TUTTI_OK) {
        tti_descriptor_fail(lane->descriptor, op->failed);
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
