/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_to_all, plain and with parts of different length. A window holds a slot for each receiver; everybody stages what it
 * sends, slot by slot, and copies its own slots out of the others' windows. Bytes a rank: 4n - 2m; one epoch a window.
 *
 * With different lengths no rank knows who sends what to whom. Window 0 then carries the sender's two rows (bytes to
 * and from each rank); everybody reads all rows, so all ranks reach the same verdict before any output is written, and
 * all know how many windows there are. The data follow in windows 1, 2, ...
 *
 * Phases: j when window j is there (the arrival says 0). Window j has been read by all when they publish j + 2.
 */
#include <stdio.h>

#include "engine/internal.h"

struct exchange {
    const tutti_op *op;
    size_t slot;
    size_t first;   /* window of the first data: 0, or 1 behind the rows */
    size_t windows; /* windows in all */
};

static uint64_t read_by_all(const struct exchange *x, size_t window)
{
    return window + 2 < x->windows ? window + 2 : TTI_PHASE_FINAL;
}

static tutti_status copy_in(struct tti_lane *lane, const struct exchange *x, size_t k)
{
    struct tti_engine *e = lane->engine;
    uint32_t window = (uint32_t)(x->first + k);
    unsigned char *staging;
    tutti_status status = tti_stage_acquire(lane, window, &staging);
    if (status != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank) {
            size_t n = tti_cut(tti_part_bytes(&x->op->send_parts, r), x->slot, k);
            tti_part_read(staging + (size_t)r * x->slot, x->op->src, &x->op->send_parts, r, k * x->slot, n);
        }
    }
    tti_stage_stamp(lane, window, read_by_all(x, window), -1);
    return TUTTI_OK;
}

static tutti_status copy_out(struct tti_lane *lane, const struct exchange *x, size_t k)
{
    struct tti_engine *e = lane->engine;
    size_t window = x->first + k;
    for (int i = 1; i < e->size; i++) {
        int peer = (e->rank + i) % e->size;
        tutti_status status = window > 0 ? tti_wait_phase(lane, peer, window) : TUTTI_OK;
        if (status != TUTTI_OK) {
            return status;
        }
        size_t n = tti_cut(tti_part_bytes(&x->op->recv_parts, peer), x->slot, k);
        const unsigned char *staging = tti_stage_peer(lane, peer, (uint32_t)window);
        tti_part_write(x->op->dst, &x->op->recv_parts, peer, k * x->slot, staging + (size_t)e->rank * x->slot, n);
    }
    return TUTTI_OK;
}

/* From the own part of the input to the own part of the output; both may be cut into rows of different length. */
static void copy_own(struct tti_lane *lane, const tutti_op *op)
{
    int rank = lane->engine->rank;
    unsigned char block[4096];
    size_t bytes = tti_part_bytes(&op->send_parts, rank);
    const unsigned char *direct = bytes > 0 ? tti_part_direct(op->src, &op->send_parts, rank) : NULL;
    if (direct) {
        tti_part_write(op->dst, &op->recv_parts, rank, 0, direct, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += sizeof(block)) {
        size_t n = bytes - at < sizeof(block) ? bytes - at : sizeof(block);
        tti_part_read(block, op->src, &op->send_parts, rank, at, n);
        tti_part_write(op->dst, &op->recv_parts, rank, at, block, n);
    }
}

/* Data windows from the first one on; the arrival has announced window 0. */
static tutti_status exchange_windows(struct tti_lane *lane, const struct exchange *x)
{
    for (size_t window = x->first; window < x->windows; window++) {
        size_t k = window - x->first;
        if (window == x->first && x->first > 0) {
            tutti_status status = copy_in(lane, x, k);
            if (status != TUTTI_OK) {
                return status;
            }
            tti_advance(lane, window);
        }
        if (window + 1 < x->windows) {
            tutti_status status = copy_in(lane, x, k + 1);
            if (status != TUTTI_OK) {
                return status;
            }
            tti_advance(lane, window + 1);
        }
        tutti_status status = copy_out(lane, x, k);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    copy_own(lane, x->op);
    return TUTTI_OK;
}

static tutti_status plain(struct tti_lane *lane, struct exchange *x)
{
    size_t bytes = tti_part_bytes(&x->op->send_parts, 0);
    x->windows = (bytes + x->slot - 1) / x->slot;
    tutti_status ready = tti_stage_commit(lane);
    tutti_status status = ready == TUTTI_OK ? copy_in(lane, x, 0) : TUTTI_OK;
    if (status != TUTTI_OK || (status = tti_arrive_staged(lane, (uint32_t)ready)) != TUTTI_OK ||
        (status = tti_await_all(lane)) != TUTTI_OK || (status = tti_attributes_all(lane)) != TUTTI_OK) {
        return status;
    }
    return exchange_windows(lane, x);
}

/* The rows of a rank in its window 0: bytes to each rank, then bytes from each rank. */
static uint64_t row_entry(const struct tti_lane *lane, int rank, int side, int peer)
{
    uint64_t v;
    memcpy(&v, tti_stage_peer(lane, rank, 0) + ((size_t)side * (size_t)lane->engine->size + (size_t)peer) * sizeof(v),
           sizeof(v));
    return v;
}

static tutti_status stage_rows(struct tti_lane *lane, const struct exchange *x)
{
    struct tti_engine *e = lane->engine;
    unsigned char *staging;
    tutti_status status = tti_stage_acquire(lane, 0, &staging);
    if (status != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < e->size; r++) {
        uint64_t to = tti_part_bytes(&x->op->send_parts, r);
        uint64_t from = tti_part_bytes(&x->op->recv_parts, r);
        memcpy(staging + (size_t)r * sizeof(to), &to, sizeof(to));
        memcpy(staging + (size_t)(e->size + r) * sizeof(from), &from, sizeof(from));
    }
    /* The number of windows is not known yet, so this is the most careful stamp; see variable(). */
    tti_stage_stamp(lane, 0, TTI_PHASE_FINAL, -1);
    return TUTTI_OK;
}

static tutti_status compare_rows(struct tti_lane *lane, struct exchange *x)
{
    struct tti_engine *e = lane->engine;
    uint64_t most = 0;
    for (int from = 0; from < e->size; from++) {
        for (int to = 0; to < e->size; to++) {
            uint64_t sent = row_entry(lane, from, 0, to);
            uint64_t expected = row_entry(lane, to, 1, from);
            if (sent != expected) {
                tti_error_set(
                    lane->error, TUTTI_MISMATCH,
                    "all_to_all_v: rank %d sends %llu bytes to rank %d, which expects %llu (call %llu of lane "
                    "%d)",
                    from, (unsigned long long)sent, to, (unsigned long long)expected, (unsigned long long)lane->call,
                    lane->index);
                lane->error->suspect = from;
                return TUTTI_MISMATCH;
            }
            most = from != to && sent > most ? sent : most; /* the own part is not staged */
        }
    }
    x->windows = 1 + (size_t)((most + x->slot - 1) / x->slot);
    return TUTTI_OK;
}

static tutti_status variable(struct tti_lane *lane, struct exchange *x)
{
    x->first = 1;
    tutti_status ready = tti_stage_commit(lane);
    tutti_status status = ready == TUTTI_OK ? stage_rows(lane, x) : TUTTI_OK;
    if (status != TUTTI_OK || (status = tti_arrive_staged(lane, (uint32_t)ready)) != TUTTI_OK ||
        (status = tti_await_all(lane)) != TUTTI_OK || (status = tti_attributes_all(lane)) != TUTTI_OK ||
        (status = compare_rows(lane, x)) != TUTTI_OK) {
        return status;
    }
    tti_stage_stamp(lane, 0, read_by_all(x, 0), -1); /* now it is known; this very call may come to reuse window 0 */
    return exchange_windows(lane, x);
}

static tutti_status inlined(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    unsigned char payload[TTI_PAYLOAD];
    for (int r = 0; r < e->size; r++) {
        tti_part_read(payload + (size_t)r * bytes, op->src, &op->send_parts, r, 0, bytes);
    }
    tutti_status status = tti_arrive(lane, payload, (size_t)e->size * bytes);
    if (status != TUTTI_OK || (status = tti_await_all(lane)) != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < e->size; r++) {
        const unsigned char *piece = tti_payload(lane, r) + (size_t)e->rank * bytes;
        tti_part_write(op->dst, &op->recv_parts, r, 0, piece, bytes);
    }
    return TUTTI_OK;
}

tutti_status tti_run_all_to_all(struct tti_lane *lane, const tutti_op *op)
{
    struct exchange x = {.op = op, .slot = tti_slot_bytes(lane->engine)};
    if (op->send_parts.counts) {
        return variable(lane, &x);
    }
    return tti_is_inline(lane, op) ? inlined(lane, op, tti_part_bytes(&op->send_parts, 0)) : plain(lane, &x);
}
