/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce: a stream of spans from each leaf; the root folds all of them and its own vector, in rank order, into the
 * output (flat tree, pipelined). A leaf returns when its last span is staged. Bytes: 2n at a leaf, (P + 1)n at the
 * root; one epoch a span.
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/rooted.h"
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

tutti_status tti_run_reduce(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    bool root = lane->engine->rank == op->root;
    if (lane->class == TTI_CLASS_LARGE) {
        struct tti_stream s = {.op = op, .pack = pack, .take_all = fold_all};
        tti_stream_cut(lane, &s, bytes, 1);
        return root ? tti_stream_read_leaves(lane, &s) : tti_stream_write(lane, &s, op->root);
    }
    tutti_status status = tti_inline_arrive(lane, op->src, bytes);
    if (status == TUTTI_OK && root && (status = tti_await_all(lane)) == TUTTI_OK) {
        tti_inline_fold(lane, op->dst, 0, op->count);
    }
    return status;
}
