/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce: chooses the algorithm by the bytes of the vector. P ranks, n bytes.
 *   inline      up to some hundred bytes: the root reads every arrival and folds all. One epoch
 *   flat tree   a stream of spans from each leaf. The root folds all of them and its own vector, in rank order, into
 *   the
 *               output, pipelined. A leaf returns when its last span is staged. 2n bytes at a leaf, (P + 1)n at the
 *               root; one epoch a span
 *   two-shot    two_shot.c, from tuning.reduce_sliced on: every rank folds a slice, and all wait for all. 3n bytes at a
 *               leaf, 5n at the root; two epochs a window
 *   zero-copy   zero_copy.c, instead of the last two, if all ranks expose their tensors
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/rooted.h"
#include "engine/collectives/two_shot.h"
#include "engine/memory/copy.h"
#include "engine/memory/fold.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"

static void pack(struct tti_lane *lane, const struct tti_stream *s, size_t k, unsigned char *span)
{
    tti_copy_to_stage(lane, span, (const unsigned char *)s->op->src + k * s->chunk,
                      tti_chunk_bytes(s->bytes, s->chunk, k));
}

static void fold_all(struct tti_lane *lane, const struct tti_stream *s, size_t k)
{
    struct tti_engine *e = lane->engine;
    for (int r = 0; r < e->size; r++) {
        lane->sources[r] = tti_stage_peer(lane, r, k);
    }
    lane->sources[e->rank] = (const unsigned char *)s->op->src + k * s->chunk;
    tti_reduce_out(lane, (unsigned char *)s->op->dst + k * s->chunk, tti_chunk_bytes(s->bytes, s->chunk, k));
}

static tutti_status streamed(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_stream s = {.op = op, .pack = pack, .take_all = fold_all};
    tti_stream_cut(lane, &s, bytes, 1);
    return lane->engine->rank == op->root ? tti_stream_read_leaves(lane, &s) : tti_stream_write(lane, &s, op->root);
}

tutti_status tti_run_reduce(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    bool root = lane->engine->rank == op->root;
    if (lane->class == TTI_CLASS_LARGE) {
        return bytes >= lane->engine->tuning.reduce_sliced ? tti_two_shot(lane, op) : streamed(lane, op, bytes);
    }
    tutti_status status = tti_inline_arrive(lane, op->src, bytes);
    if (status == TUTTI_OK && root && (status = tti_await_all(lane)) == TUTTI_OK) {
        tti_inline_fold(lane, op->dst, 0, op->count);
    }
    return status;
}
