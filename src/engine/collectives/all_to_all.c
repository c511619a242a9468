/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_to_all: an exchange of spans with a slot for each receiver. Every rank stages what it sends, slot by slot, and
 * copies its own slots out of the peers' spans. Bytes a rank: 4n - 2m (n all parts, m one), the least that copying in
 * and out allows. Parts of different length: all_to_all_v.c.
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/all_to_all_v.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/exchange.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"
#include "tensor/parts.h"

static void pack(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span)
{
    for (int r = 0; r < lane->engine->size; r++) {
        if (r != lane->engine->rank) {
            size_t n = tti_chunk_bytes(tti_parts_bytes(&x->op->send_parts, r), x->chunk, k);
            tti_part_stage(lane, span + (size_t)r * x->chunk, x->op->src, &x->op->send_parts, r, k * x->chunk, n);
        }
    }
}

static void take(struct tti_lane *lane, const struct tti_exchange *x, size_t k, int peer)
{
    const unsigned char *slot = tti_stage_peer(lane, peer, k) + (size_t)lane->engine->rank * x->chunk;
    size_t n = tti_chunk_bytes(tti_parts_bytes(&x->op->recv_parts, peer), x->chunk, k);
    tti_part_write(lane, x->op->dst, &x->op->recv_parts, peer, k * x->chunk, slot, n);
}

static void copy_own(struct tti_lane *lane, const tutti_op *op)
{
    tti_part_copy(lane, op->dst, &op->recv_parts, op->src, &op->send_parts, lane->engine->rank);
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
    copy_own(lane, x->op);
    return TUTTI_OK;
}

tutti_status tti_run_all_to_all(struct tti_lane *lane, const tutti_op *op)
{
    if (op->send_parts.counts) {
        return tti_run_all_to_all_v(lane, op);
    }
    const size_t part = tti_parts_bytes(&op->send_parts, 0);
    if (lane->class != TTI_CLASS_LARGE) {
        return inlined(lane, op, part);
    }
    struct tti_exchange x = {
        .op = op, .chunk = tti_slot_bytes(lane, part), .pack = pack, .take = take, .agreed = agreed};
    x.stride = x.chunk * (size_t)lane->engine->size;
    x.steps = (part + x.chunk - 1) / x.chunk;
    return tti_exchange_run(lane, &x);
}
