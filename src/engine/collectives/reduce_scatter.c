/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_scatter, plain and with parts of different length. n bytes are all parts, m is one.
 *
 * Small (direct): all parts are in the arrival, and each rank folds its own one from all lines. One epoch.
 *
 * Large (pairwise, pipelined): an exchange of spans that hold, rank after rank, the same share of every rank's part, so
 * that parts of different length end with the same step. Every rank stages all parts but its own. It folds its own part
 * from all ranks' stages into the output. Bytes a rank: 3n - m, the least that copying in allows.
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/exchange.h"
#include "engine/memory/fold.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"
#include "tensor/parts.h"

static void pack(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span)
{
    struct tti_engine *e = lane->engine;
    const tutti_parts *parts = &x->op->send_parts;
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank || parts->outer > 1) { /* else the fold reads it in place */
            const struct tti_span_slot slot = lane->slots[r];
            const size_t n = tti_chunk_bytes(tti_parts_bytes(parts, r), slot.bytes, k);
            tti_part_stage(lane, span + slot.start, x->op->src, parts, r, k * slot.bytes, n);
        }
    }
}

static void fold_own(struct tti_lane *lane, const struct tti_exchange *x, size_t k)
{
    struct tti_engine *e = lane->engine;
    const tutti_op *op = x->op;
    const struct tti_span_slot slot = lane->slots[e->rank];
    const size_t n = tti_chunk_bytes(tti_parts_bytes(&op->send_parts, e->rank), slot.bytes, k);
    if (n == 0) {
        return;
    }
    for (int r = 0; r < e->size; r++) {
        lane->sources[r] = tti_stage_peer(lane, r, k) + slot.start;
    }
    const unsigned char *direct = tti_part_direct(op->src, &op->send_parts, e->rank);
    if (direct) {
        lane->sources[e->rank] = direct + k * slot.bytes;
    }
    tti_reduce_out(lane, (unsigned char *)op->dst + k * slot.bytes, n);
}

/* Places slots of 1 / steps of each part. Returns the bytes of all. */
static size_t place_slots(const struct tti_lane *lane, const tutti_parts *parts, size_t steps)
{
    size_t start = 0;
    for (int r = 0; r < lane->engine->size; r++) {
        const size_t bytes = tti_whole_lines((tti_parts_bytes(parts, r) + steps - 1) / steps);
        lane->slots[r] = (struct tti_span_slot){.start = start, .bytes = bytes};
        start += bytes;
    }
    return start;
}

static size_t steps_for(size_t bytes, size_t room)
{
    return (bytes + room - 1) / room;
}

static tutti_status run_large(struct tti_lane *lane, const tutti_op *op)
{
    const size_t size = (size_t)lane->engine->size;
    const size_t window = (size_t)lane->engine->tuning.window;
    const tutti_parts *parts = &op->send_parts;
    const size_t total = tti_parts_total(parts, lane->engine->size);
    struct tti_exchange x = {.op = op, .steps = steps_for(total, window), .pack = pack, .take_all = fold_own};
    x.stride = place_slots(lane, parts, x.steps);
    if (x.stride > window) { /* the slots' last lines have empty ends */
        x.steps = steps_for(total, window - 64 * size);
        x.stride = place_slots(lane, parts, x.steps);
    }
    return tti_exchange_run(lane, &x);
}

static tutti_status run_small(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    unsigned char payload[TTI_INLINE_MOST];
    size_t total = 0;
    size_t before = 0; /* bytes of the parts before the own one */
    for (int r = 0; r < e->size; r++) {
        size_t n = tti_parts_bytes(&op->send_parts, r);
        before = r == e->rank ? total : before;
        tti_part_read(lane, payload + total, op->src, &op->send_parts, r, 0, n);
        total += n;
    }
    tutti_status status = tti_inline_arrive(lane, payload, total);
    if (status == TUTTI_OK && (status = tti_await_all(lane)) == TUTTI_OK) {
        size_t own = tti_parts_bytes(&op->send_parts, e->rank);
        tti_inline_fold(lane, op->dst, before, own / tti_dtype_size(op->dtype));
    }
    return status;
}

tutti_status tti_run_reduce_scatter(struct tti_lane *lane, const tutti_op *op)
{
    return lane->class == TTI_CLASS_LARGE ? run_large(lane, op) : run_small(lane, op);
}
