/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast: a stream of spans from the root, which all leaves read (flat tree, pipelined). Bytes: 2n at the root and
 * 2n at each leaf; one epoch a span. Small ones follow one another without a round trip, as many as the arrival ring
 * holds. Of two ranks with a CPU each that expose their tensors each copies a half.
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/rooted.h"
#include "engine/collectives/zero_copy.h"
#include "engine/memory/copy.h"
#include "engine/memory/parts.h"
#include "engine/memory/stage.h"

static void pack(struct tti_lane *lane, const struct tti_stream *s, size_t k, unsigned char *span)
{
    tti_copy_to_stage(lane, span, (const unsigned char *)s->op->dst + k * s->chunk,
                      tti_chunk_bytes(s->bytes, s->chunk, k));
}

static void take(struct tti_lane *lane, const struct tti_stream *s, size_t k, int peer)
{
    unsigned char *dst = (unsigned char *)s->op->dst + k * s->chunk;
    tti_copy_to_output(lane, dst, tti_stage_peer(lane, peer, k), tti_chunk_bytes(s->bytes, s->chunk, k));
}

static tutti_status pull(struct tti_lane *lane, const struct tti_stream *s, int peer, size_t n)
{
    return tti_pull(lane, peer, s->op->dst, NULL, 0, lane->outputs[peer], NULL, 0, n);
}

static tutti_status push(struct tti_lane *lane, const struct tti_stream *s, int peer, size_t from)
{
    return tti_push(lane, lane->outputs[peer] + from, (const unsigned char *)s->op->dst + from, s->bytes - from);
}

tutti_status tti_run_broadcast(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    bool root = lane->engine->rank == op->root;
    if (lane->class == TTI_CLASS_LARGE) {
        struct tti_stream s = {.op = op, .pack = pack, .take = take, .pull = pull, .push = push};
        tti_stream_cut(lane, &s, bytes, 1);
        return root ? tti_stream_write(lane, &s, -1) : tti_stream_read_root(lane, &s);
    }
    tutti_status status = tti_arrive(lane, op->dst, root ? bytes : 0);
    if (status == TUTTI_OK && !root && (status = tti_await_one(lane, op->root)) == TUTTI_OK) {
        tti_copy_counted(lane, op->dst, tti_payload(lane, op->root), bytes);
    }
    return status;
}
