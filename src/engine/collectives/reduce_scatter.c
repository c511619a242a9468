/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_scatter, plain and with parts of different length. n bytes are all parts, m is one.
 *
 * Small (direct): all parts are in the arrival, and each rank folds its own one from all lines. One epoch.
 *
 * Large (pairwise, pipelined): an exchange of spans that hold, rank after rank, the same range of every rank's part.
 * Every rank stages all parts but its own. It folds its own part from all ranks' stages into the output. Bytes a rank:
 * 3n - m, the least that copying in allows.
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/exchange.h"
#include "engine/memory/fold.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"

static void pack(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span)
{
    struct tti_engine *e = lane->engine;
    const tutti_parts *parts = &x->op->send_parts;
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank || parts->outer > 1) { /* else the fold reads it in place */
            size_t n = tti_chunk_bytes(tti_part_bytes(parts, r), x->chunk, k);
            tti_part_stage(lane, span + (size_t)r * x->chunk, x->op->src, parts, r, k * x->chunk, n);
        }
    }
}

static void fold_own(struct tti_lane *lane, const struct tti_exchange *x, size_t k)
{
    struct tti_engine *e = lane->engine;
    const tutti_op *op = x->op;
    size_t n = tti_chunk_bytes(tti_part_bytes(&op->send_parts, e->rank), x->chunk, k);
    if (n == 0) {
        return;
    }
    for (int r = 0; r < e->size; r++) {
        lane->sources[r] = tti_stage_peer(lane, r, k) + (size_t)e->rank * x->chunk;
    }
    const unsigned char *direct = tti_part_direct(op->src, &op->send_parts, e->rank);
    if (direct) {
        lane->sources[e->rank] = direct + k * x->chunk;
    }
    tti_reduce_out(lane, (unsigned char *)op->dst + k * x->chunk, n);
}

static tutti_status run_large(struct tti_lane *lane, const tutti_op *op)
{
    size_t size = (size_t)lane->engine->size;
    size_t most = tti_part_bytes_max(&op->send_parts, (int)size);
    size_t chunk = tti_slot_bytes(lane, most);
    struct tti_exchange x = {.op = op,
                             .stride = chunk * size,
                             .steps = (most + chunk - 1) / chunk,
                             .chunk = chunk,
                             .pack = pack,
                             .take_all = fold_own};
    return tti_exchange_run(lane, &x);
}

static tutti_status run_small(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    unsigned char payload[TTI_INLINE_MOST];
    size_t total = 0;
    size_t before = 0; /* bytes of the parts before the own one */
    for (int r = 0; r < e->size; r++) {
        size_t n = tti_part_bytes(&op->send_parts, r);
        before = r == e->rank ? total : before;
        tti_part_read(lane, payload + total, op->src, &op->send_parts, r, 0, n);
        total += n;
    }
    tutti_status status = tti_inline_arrive(lane, payload, total);
    if (status == TUTTI_OK && (status = tti_await_all(lane)) == TUTTI_OK) {
        size_t own = tti_part_bytes(&op->send_parts, e->rank);
        tti_inline_fold(lane, op->dst, before, own / tti_dtype_size(op->dtype));
    }
    return status;
}

tutti_status tti_run_reduce_scatter(struct tti_lane *lane, const tutti_op *op)
{
    return lane->class == TTI_CLASS_LARGE ? run_large(lane, op) : run_small(lane, op);
}
