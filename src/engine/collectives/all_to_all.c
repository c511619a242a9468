/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_to_all, plain and with parts of different length: an exchange of spans with a slot for each receiver. Every rank
 * stages what it sends, slot by slot, and copies its own slots out of the peers' spans. Bytes a rank: 4n - 2m (n all
 * parts, m one), the least that copying in and out allows.
 *
 * With different lengths a rank knows only its own row: bytes to each rank and bytes from each rank. So step 0 carries
 * each rank's row. Every rank reads all rows and compares them, so all ranks decide alike before any output is written,
 * and all compute the same number of steps. The data follow in steps 1, 2, ... Cost of step 0: P rows of 16 P bytes
 * read a rank.
 */
#include <stdio.h>

#include "engine/arrival/inline.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/exchange.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"

/* Steps before the first data. */
static size_t rows_steps(const struct tti_exchange *x)
{
    return x->op->send_parts.counts ? 1 : 0;
}

/* The two rows: bytes to each rank, then bytes from each rank. */
static void pack_rows(const struct tti_lane *lane, const struct tti_exchange *x, unsigned char *span)
{
    struct tti_engine *e = lane->engine;
    for (int r = 0; r < e->size; r++) {
        uint64_t to = tti_part_bytes(&x->op->send_parts, r);
        uint64_t from = tti_part_bytes(&x->op->recv_parts, r);
        memcpy(span + (size_t)r * sizeof(to), &to, sizeof(to));
        memcpy(span + (size_t)(e->size + r) * sizeof(from), &from, sizeof(from));
    }
}

static void pack(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span)
{
    if (k < rows_steps(x)) {
        pack_rows(lane, x, span);
        return;
    }
    k -= rows_steps(x);
    for (int r = 0; r < lane->engine->size; r++) {
        if (r != lane->engine->rank) {
            size_t n = tti_chunk_bytes(tti_part_bytes(&x->op->send_parts, r), x->chunk, k);
            tti_part_stage(lane, span + (size_t)r * x->chunk, x->op->src, &x->op->send_parts, r, k * x->chunk, n);
        }
    }
}

static void take(struct tti_lane *lane, const struct tti_exchange *x, size_t k, int peer)
{
    if (k < rows_steps(x)) {
        return; /* compare_rows has read them */
    }
    const unsigned char *slot = tti_stage_peer(lane, peer, k) + (size_t)lane->engine->rank * x->chunk;
    k -= rows_steps(x);
    size_t n = tti_chunk_bytes(tti_part_bytes(&x->op->recv_parts, peer), x->chunk, k);
    tti_part_write(lane, x->op->dst, &x->op->recv_parts, peer, k * x->chunk, slot, n);
}

/* Copies the own part of the input to the own part of the output. Both may have rows, of different lengths. */
static void copy_own(struct tti_lane *lane, const tutti_op *op)
{
    int rank = lane->engine->rank;
    unsigned char block[4096];
    size_t bytes = tti_part_bytes(&op->send_parts, rank);
    const unsigned char *direct = bytes > 0 ? tti_part_direct(op->src, &op->send_parts, rank) : NULL;
    if (direct) {
        tti_part_write(lane, op->dst, &op->recv_parts, rank, 0, direct, bytes);
        return;
    }
    for (size_t at = 0; at < bytes; at += sizeof(block)) {
        size_t n = bytes - at < sizeof(block) ? bytes - at : sizeof(block);
        tti_part_read(lane, block, op->src, &op->send_parts, rank, at, n);
        tti_part_write(lane, op->dst, &op->recv_parts, rank, at, block, n);
    }
}

static uint64_t row_entry(const struct tti_lane *lane, int rank, int side, int peer)
{
    uint64_t v;
    memcpy(&v, tti_stage_peer(lane, rank, 0) + ((size_t)side * (size_t)lane->engine->size + (size_t)peer) * sizeof(v),
           sizeof(v));
    return v;
}

/* Compares all ranks' rows, and computes the number of steps. */
static tutti_status compare_rows(struct tti_lane *lane, struct tti_exchange *x)
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
    x->steps = 1 + (size_t)((most + x->chunk - 1) / x->chunk);
    return TUTTI_OK;
}

static tutti_status inlined(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    unsigned char payload[TTI_INLINE_MOST];
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank) {
            tti_part_read(lane, payload + tti_inline_place(lane, e->rank, r) * bytes, op->src, &op->send_parts, r, 0,
                          bytes);
        }
    }
    tutti_status status = tti_arrive(lane, payload, (size_t)(e->size - 1) * bytes);
    if (status != TUTTI_OK || (status = tti_await_all(lane)) != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank) {
            const unsigned char *chunk = tti_payload(lane, r) + tti_inline_place(lane, r, e->rank) * bytes;
            tti_part_write(lane, op->dst, &op->recv_parts, r, 0, chunk, bytes);
        }
    }
    copy_own(lane, op);
    return TUTTI_OK;
}

static tutti_status agreed(struct tti_lane *lane, struct tti_exchange *x)
{
    tutti_status status = rows_steps(x) > 0 ? compare_rows(lane, x) : TUTTI_OK;
    if (status != TUTTI_OK) {
        return status;
    }
    /* Known only now: this call may use the span of the rows again. */
    if (rows_steps(x) > 0 && x->steps > 2) {
        tti_stage_stamp(lane, 3, -1);
    }
    copy_own(lane, x->op);
    return TUTTI_OK;
}

tutti_status tti_run_all_to_all(struct tti_lane *lane, const tutti_op *op)
{
    if (lane->class != TTI_CLASS_LARGE) {
        return inlined(lane, op, tti_part_bytes(&op->send_parts, 0));
    }
    bool variable = op->send_parts.counts != NULL;
    size_t most = variable ? lane->engine->tuning.window : tti_part_bytes(&op->send_parts, 0);
    struct tti_exchange x = {
        .op = op, .chunk = tti_slot_bytes(lane, most), .pack = pack, .take = take, .agreed = agreed};
    x.stride = x.chunk * (size_t)lane->engine->size;
    x.steps = variable ? 1 : (most + x.chunk - 1) / x.chunk;
    return tti_exchange_run(lane, &x);
}
