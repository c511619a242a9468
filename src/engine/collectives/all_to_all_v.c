/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_to_all with parts of different length: an exchange of spans with a slot for each receiver. A rank knows only its
 * own row: bytes to each rank and bytes from each rank. So step 0 carries each rank's row. Every rank reads all rows
 * and compares them, so all ranks decide alike before any output is written. Cost: 2 P^2 numbers read a rank, P^2 more
 * and as many divisions if more steps follow.
 *
 * Behind the row step 0 has the beginning of each part, in slots of one length. If nothing is left, that is all: one
 * epoch. Else, in each of S further steps, a rank stages 1 / S of what is left of each part, slot behind slot, and S
 * follows from the rank that sends the most in all. With slots of one length it would follow from the longest part:
 * P - 1 times as many steps where each rank sends to one other only. The rows tell every rank where its slots lie in
 * the spans of all peers. Bytes a rank: 4n - 2m, as without lengths.
 */
#include "engine/collectives/all_to_all_v.h"

#include <string.h>

#include "engine/collectives/exchange.h"
#include "engine/descriptor.h"
#include "engine/failure/fault.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"
#include "tensor/parts.h"

enum { BYTES_TO, BYTES_FROM, SIDES };

/* This rank's slots in the own span / in the spans of the peers. */
static struct tti_span_slot *sent(const struct tti_lane *lane)
{
    return lane->slots;
}

static struct tti_span_slot *received(const struct tti_lane *lane)
{
    return lane->slots + lane->engine->size;
}

static size_t row_bytes(const struct tti_lane *lane)
{
    return tti_whole_lines((size_t)lane->engine->size * SIDES * sizeof(uint64_t));
}

/* Rank r's slot in every span of step 0. */
static struct tti_span_slot first_slot(const struct tti_lane *lane, const struct tti_exchange *x, int r)
{
    return (struct tti_span_slot){.start = row_bytes(lane) + (size_t)r * x->chunk, .bytes = x->chunk};
}

static void pack_row(const struct tti_lane *lane, const tutti_op *op, unsigned char *span)
{
    const size_t size = (size_t)lane->engine->size;
    for (size_t r = 0; r < size; r++) {
        const uint64_t to = tti_parts_bytes(&op->send_parts, (int)r);
        const uint64_t from = tti_parts_bytes(&op->recv_parts, (int)r);
        memcpy(span + (BYTES_TO * size + r) * sizeof(to), &to, sizeof(to));
        memcpy(span + (BYTES_FROM * size + r) * sizeof(from), &from, sizeof(from));
    }
}

static uint64_t row_entry(const struct tti_lane *lane, int rank, int side, int peer)
{
    uint64_t v;
    const size_t at = (size_t)side * (size_t)lane->engine->size + (size_t)peer;
    memcpy(&v, tti_stage_peer(lane, rank, 0) + at * sizeof(v), sizeof(v));
    return v;
}

/* What step 0 leaves of a part of so many bytes. The own part is not staged. */
static uint64_t rest_of(const struct tti_exchange *x, int from, int to, uint64_t part)
{
    return from != to && part > x->chunk ? part - x->chunk : 0;
}

/* A peer may write anything into its row, also after it was compared. */
static tutti_status impossible(struct tti_lane *lane, int rank)
{
    tti_error_set(lane->error, TUTTI_PEER_CORRUPT,
                  "all_to_all_v: the lengths of the parts that rank %d sends are impossible (call %llu of lane %d)",
                  rank, (unsigned long long)lane->call, lane->index);
    return tti_fault_raise_suspect(lane->engine, lane, rank, lane->error);
}

/* Bytes of a rank that a step carries: as many as with equal parts, whose spans have an empty slot for the rank itself,
 * or fewer, if the ends of the slots' last lines take up too much. */
static uint64_t step_bytes(const struct tti_lane *lane, const struct tti_exchange *x)
{
    const uint64_t peers = (uint64_t)lane->engine->size - 1;
    const uint64_t equal = x->stride / (peers + 1) * peers;
    const uint64_t lines = x->stride - 64 * peers;
    const uint64_t room = equal < lines ? equal : lines;
    return room > 64 ? room : 64; /* the tuning's least slot leaves more */
}

/* Compares all rows. *steps: how many follow step 0. */
static tutti_status compare_rows(struct tti_lane *lane, const struct tti_exchange *x, uint64_t *steps)
{
    const int size = lane->engine->size;
    const uint64_t room = step_bytes(lane, x);
    *steps = 0;
    for (int from = 0; from < size; from++) {
        uint64_t left = 0;
        for (int to = 0; to < size; to++) {
            const uint64_t bytes = row_entry(lane, from, BYTES_TO, to);
            const uint64_t expected = row_entry(lane, to, BYTES_FROM, from);
            if (bytes != expected) {
                return tti_parts_differ(from, bytes, to, expected, lane->call, lane->index, lane->error);
            }
            if (__builtin_add_overflow(left, rest_of(x, from, to, bytes), &left)) {
                return impossible(lane, from);
            }
        }
        const uint64_t own = left / room + (left % room > 0);
        if (own >= TTI_PHASE_PUSH - 1) { /* phases count steps */
            return impossible(lane, from);
        }
        *steps = own > *steps ? own : *steps;
    }
    return TUTTI_OK;
}

/* A slot begins behind the slots of the ranks before. */
static tutti_status place_slots(struct tti_lane *lane, const struct tti_exchange *x, uint64_t steps)
{
    const int size = lane->engine->size;
    const int rank = lane->engine->rank;
    for (int from = 0; from < size; from++) {
        struct tti_span_slot slot = {0};
        for (int to = 0; to < size && (to <= rank || from == rank); to++) {
            const uint64_t rest = rest_of(x, from, to, row_entry(lane, from, BYTES_TO, to));
            slot.start += slot.bytes;
            slot.bytes = tti_whole_lines((rest + steps - 1) / steps);
            if (slot.bytes > x->stride - slot.start) { /* the row has changed meanwhile */
                return impossible(lane, from);
            }
            if (from == rank) {
                sent(lane)[to] = slot;
            }
            if (to == rank) {
                received(lane)[from] = slot;
            }
        }
    }
    return TUTTI_OK;
}

static tutti_status agreed(struct tti_lane *lane, struct tti_exchange *x)
{
    uint64_t steps;
    tutti_status status = compare_rows(lane, x, &steps);
    if (status == TUTTI_OK && steps > 0) {
        status = place_slots(lane, x, steps);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    x->steps = 1 + (size_t)steps;
    if (x->steps > 2) { /* known only now: this call may use the span of the rows again */
        tti_stage_stamp(lane, 3, -1);
    }
    tti_part_copy(lane, x->op->dst, &x->op->recv_parts, x->op->src, &x->op->send_parts, lane->engine->rank);
    return TUTTI_OK;
}

/* Where the range of a part that step k carries begins. */
static size_t range_at(const struct tti_exchange *x, size_t k, const struct tti_span_slot *slot)
{
    return k > 0 ? x->chunk + (k - 1) * slot->bytes : 0;
}

static size_t range_bytes(size_t part, size_t at, const struct tti_span_slot *slot)
{
    return at < part ? tti_chunk_bytes(part - at, slot->bytes, 0) : 0;
}

static void pack(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span)
{
    const tutti_parts *parts = &x->op->send_parts;
    if (k == 0) {
        pack_row(lane, x->op, span);
    }
    for (int r = 0; r < lane->engine->size; r++) {
        if (r != lane->engine->rank) {
            const struct tti_span_slot slot = k > 0 ? sent(lane)[r] : first_slot(lane, x, r);
            const size_t at = range_at(x, k, &slot);
            const size_t n = range_bytes(tti_parts_bytes(parts, r), at, &slot);
            tti_part_stage(lane, span + slot.start, x->op->src, parts, r, at, n);
        }
    }
}

static void take(struct tti_lane *lane, const struct tti_exchange *x, size_t k, int peer)
{
    const tutti_parts *parts = &x->op->recv_parts;
    const struct tti_span_slot slot = k > 0 ? received(lane)[peer] : first_slot(lane, x, lane->engine->rank);
    const size_t at = range_at(x, k, &slot);
    const size_t n = range_bytes(tti_parts_bytes(parts, peer), at, &slot);
    tti_part_write(lane, x->op->dst, parts, peer, at, tti_stage_peer(lane, peer, k) + slot.start, n);
}

tutti_status tti_run_all_to_all_v(struct tti_lane *lane, const tutti_op *op)
{
    const size_t size = (size_t)lane->engine->size;
    struct tti_exchange x = {.op = op,
                             .stride = tti_slot_bytes(lane, lane->engine->tuning.window) * size,
                             .steps = 1,
                             .pack = pack,
                             .take = take,
                             .agreed = agreed};
    x.chunk = (x.stride - row_bytes(lane)) / size / 64 * 64;
    return tti_exchange_run(lane, &x);
}
