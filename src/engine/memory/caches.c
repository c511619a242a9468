/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that leave the caches anyway may be written past them: no store has to fetch its line first, and inputs and
 * stages stay where they are. That pays for copies from tensor to tensor, and in broadcast, gather and scatter, in
 * which a rank only writes its stage or only reads others. Other copies out of a stage gain on some CPUs only
 * (docs/decisions/0042 and 0055).
 */
#include "engine/memory/caches.h"

#include "engine/memory/parts.h"

/* Whether a fold writes the input that it has just read, which lies in its cache. Other operations do not write what is
 * in place. */
static bool folds_in_place(const struct tti_lane *lane, const tutti_op *op)
{
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return op->src == op->dst;
    case TUTTI_OP_REDUCE_SCATTER:
        return tti_part_direct(op->src, &op->send_parts, lane->engine->rank) == op->dst;
    default:
        return false;
    }
}

static enum tti_stream_kind kind_of(tutti_operation operation, bool from_stage)
{
    switch (operation) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
    case TUTTI_OP_REDUCE_SCATTER:
        return TTI_STREAM_FOLDED;
    case TUTTI_OP_ALL_GATHER:
        return from_stage ? TTI_STREAM_ALL_GATHER : TTI_STREAM_DIRECT;
    case TUTTI_OP_ALL_TO_ALL:
        return from_stage ? TTI_STREAM_ALL_TO_ALL : TTI_STREAM_EXCHANGED;
    default:
        return from_stage ? TTI_STREAM_ROOTED : TTI_STREAM_DIRECT;
    }
}

/* Tensors of the call's size that pass the caches: each rank's, or in gather and scatter the root's and all parts. */
static uint64_t tensors_of(const struct tti_lane *lane, tutti_operation kind)
{
    return kind == TUTTI_OP_GATHER || kind == TUTTI_OP_SCATTER ? 2 : (uint64_t)lane->engine->size;
}

void tti_choose_stores(struct tti_lane *lane, const tutti_op *op, bool from_stage)
{
    const uint64_t limit = lane->engine->tuning.streams[kind_of(op->kind, from_stage)];
    lane->streams = lane->bytes * tensors_of(lane, op->kind) >= limit && !folds_in_place(lane, op);
}
