/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Results that leave the caches anyway may be written past them: no store has to fetch its line first, and inputs and
 * stages stay where they are. That pays for copies from tensor to tensor, and in broadcast, gather and scatter, in
 * which a rank only writes its stage or only reads others. Other copies out of a stage gain on some CPUs only
 * (docs/decisions/0042 and 0055). Smaller results that come out of a stage go past the caches, too, if their tensor
 * lies in none of them (residency.c).
 */
#include "engine/memory/caches.h"

#include "engine/memory/parts.h"
#include "engine/memory/residency.h"
#include "tensor/parts.h"

#define SAMPLES 8

/* From this share of cold lines on stores past the caches gain, with a CPU for each rank and where ranks share CPUs.
 * There they have to gain more, since a CPU that waits for them does nothing for its other ranks. */
#define COLD        0.3
#define COLD_SHARED 0.5

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

/* Bytes of the output that peers send. The own part does not count: in place, the program has just written it. False
 * if there are none, or rows so short that their stores never pass the caches. */
static bool sample(struct tti_lane *lane, const tutti_op *op, unsigned char *bytes[SAMPLES])
{
    const struct tti_engine *e = lane->engine;
    const bool is_root = op->root == e->rank;
    const bool from_root = op->kind == TUTTI_OP_BROADCAST || op->kind == TUTTI_OP_SCATTER;
    if ((from_root && is_root) || (op->kind == TUTTI_OP_GATHER && !is_root)) {
        return false;
    }
    for (int i = 0; i < SAMPLES; i++) {
        const int peer = (e->rank + 1 + (int)tti_residency_pick(&lane->residency, (uint64_t)e->size - 1)) % e->size;
        const size_t row = from_root ? op->count * tti_dtype_size(op->dtype) : tti_parts_width(&op->recv_parts, peer);
        if (row < TTI_PAGE) {
            return false;
        }
        const size_t at =
            tti_residency_pick(&lane->residency, from_root ? row : tti_parts_bytes(&op->recv_parts, peer));
        size_t one = 1;
        bytes[i] = from_root ? (unsigned char *)op->dst + at : tti_parts_at(&op->recv_parts, peer, op->dst, at, &one);
    }
    return true;
}

static bool output_is_cold(struct tti_lane *lane, const tutti_op *op)
{
    const struct tti_engine *e = lane->engine;
    unsigned char *bytes[SAMPLES];
    return !lane->exposed && sample(lane, op, bytes) &&
           tti_residency_decide(&lane->residency, tti_residency_measure(bytes, SAMPLES, e->ticks_per_ns),
                                e->ranks_per_cpu > 1 ? COLD_SHARED : COLD);
}

void tti_choose_stores(struct tti_lane *lane, const tutti_op *op, bool from_stage)
{
    const struct tti_tuning *t = &lane->engine->tuning;
    const enum tti_stream_kind kind = kind_of(op->kind, from_stage);
    const uint64_t bytes = lane->bytes * tensors_of(lane, op->kind);
    lane->cold = bytes < t->streams[kind] && bytes >= t->streams_if_cold[kind] && output_is_cold(lane, op);
    lane->streams = (bytes >= t->streams[kind] || lane->cold) && !folds_in_place(lane, op);
}
