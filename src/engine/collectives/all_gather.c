/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather, plain and with parts of different length: an exchange in which every rank stages its part and copies the
 * peers' parts to their places. Bytes a rank: 2n + m (n all parts, m the own one; 2n in place), the least that copying
 * in and out allows. The first step of the own part is read twice, since no output is written before all agree on the
 * call.
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/exchange.h"
#include "engine/memory/copy.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"
#include "tensor/parts.h"

/* Also copies the own part to its place, while the first-level cache has it; but not before all ranks agree on the
 * call. */
static void pack(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span)
{
    const tutti_op *op = x->op;
    const int rank = lane->engine->rank;
    const size_t from = k * x->chunk;
    const size_t n = tti_chunk_bytes(tti_parts_bytes(&op->recv_parts, rank), x->chunk, k);
    const bool both = (k > 0 || lane->exposed) && tti_part_direct(op->dst, &op->recv_parts, rank) != op->src;
    const size_t chunk = both ? TTI_TWICE_BYTES : n;
    for (size_t at = 0; at < n; at += chunk) {
        const unsigned char *src = (const unsigned char *)op->src + from + at;
        const size_t bytes = tti_chunk_bytes(n - at, chunk, 0);
        tti_copy_to_stage(lane, span + at, src, bytes);
        if (both) {
            tti_part_write(lane, op->dst, &op->recv_parts, rank, from + at, src, bytes);
            lane->bytes_copied -= bytes; /* not loaded again */
        }
    }
}

static void take(struct tti_lane *lane, const struct tti_exchange *x, size_t k, int peer)
{
    const tutti_parts *parts = &x->op->recv_parts;
    size_t n = tti_chunk_bytes(tti_parts_bytes(parts, peer), x->chunk, k);
    tti_part_write(lane, x->op->dst, parts, peer, k * x->chunk, tti_stage_peer(lane, peer, k), n);
}

/* Copies the own part of step 0, which is staged already, to its place. */
static tutti_status write_own(struct tti_lane *lane, struct tti_exchange *x)
{
    const tutti_parts *parts = &x->op->recv_parts;
    const int rank = lane->engine->rank;
    if (!lane->exposed) {
        tti_part_write(lane, x->op->dst, parts, rank, 0, x->op->src,
                       tti_chunk_bytes(tti_parts_bytes(parts, rank), x->chunk, 0));
    }
    return TUTTI_OK;
}

/* Where broadcasts of any size use the small ring, as two ranks with a CPU each do, parts of up to two small spans do
 * so, too, in two steps, if it holds those (docs/decisions/0043). */
static size_t chunk_of(const struct tti_lane *lane, size_t most)
{
    const struct tti_tuning *t = &lane->engine->tuning;
    const bool small = t->small_from_root == TTI_TUNING_NEVER && tti_stage_small_holds(lane, TTI_SMALL_EXCHANGE) &&
                       most > TTI_SMALL_EXCHANGE && most <= 2 * TTI_SMALL_EXCHANGE;
    const size_t chunk = small && TTI_SMALL_EXCHANGE < t->window ? TTI_SMALL_EXCHANGE : t->window;
    return most < chunk ? most : chunk;
}

static tutti_status staged(struct tti_lane *lane, const tutti_op *op, size_t most)
{
    const size_t chunk = chunk_of(lane, most);
    struct tti_exchange x = {.op = op,
                             .stride = chunk,
                             .steps = (most + chunk - 1) / chunk,
                             .chunk = chunk,
                             .pack = pack,
                             .take = take,
                             .agreed = write_own};
    return tti_exchange_run(lane, &x);
}

tutti_status tti_run_all_gather(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    if (lane->class == TTI_CLASS_LARGE) {
        return staged(lane, op, tti_part_bytes_max(&op->recv_parts, e->size));
    }
    tutti_status status = tti_arrive(lane, op->src, tti_parts_bytes(&op->recv_parts, e->rank));
    if (status != TUTTI_OK || (status = tti_await_all(lane)) != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < e->size; r++) {
        tti_part_write(lane, op->dst, &op->recv_parts, r, 0, tti_payload(lane, r), tti_parts_bytes(&op->recv_parts, r));
    }
    return TUTTI_OK;
}
