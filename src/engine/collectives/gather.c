/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather: a stream of spans from each leaf; the root copies the parts to their places (flat tree, pipelined). A leaf
 * returns when its last span is staged. If the root's output and all inputs are exposed, the leaves copy their parts to
 * their places, all at the same time. Bytes: 2m at a leaf, 2n at the root (n all parts, m one); one epoch a span.
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
    tti_copy_to_stage(lane, span, (const unsigned char *)s->op->src + k * s->chunk,
                      tti_chunk_bytes(s->bytes, s->chunk, k));
}

static void take(struct tti_lane *lane, const struct tti_stream *s, size_t k, int peer)
{
    tti_part_write(lane, s->op->dst, &s->op->recv_parts, peer, k * s->chunk, tti_stage_peer(lane, peer, k),
                   tti_chunk_bytes(s->bytes, s->chunk, k));
}

static tutti_status pull(struct tti_lane *lane, const struct tti_stream *s, int peer, size_t n)
{
    return tti_pull(lane, peer, s->op->dst, &s->op->recv_parts, peer, lane->inputs[peer], NULL, 0, n);
}

static tutti_status push(struct tti_lane *lane, const struct tti_stream *s, int peer, size_t from)
{
    unsigned char *part = lane->outputs[peer] + (size_t)lane->engine->rank * s->bytes;
    return tti_push(lane, part + from, (const unsigned char *)s->op->src + from, s->bytes - from);
}

static void own(struct tti_lane *lane, const struct tti_stream *s, size_t k)
{
    const tutti_op *op = s->op;
    tti_part_write(lane, op->dst, &op->recv_parts, op->root, k * s->chunk,
                   (const unsigned char *)op->src + k * s->chunk, tti_chunk_bytes(s->bytes, s->chunk, k));
}

static tutti_status staged(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_stream s = {.op = op, .pack = pack, .take = take, .pull = pull, .push = push};
    tti_stream_cut(lane, &s, bytes, 1);
    if (lane->engine->rank != op->root) {
        return tti_stream_write(lane, &s, op->root);
    }
    s.own = tti_part_direct(op->dst, &op->recv_parts, op->root) != op->src ? own : NULL;
    return tti_stream_read_leaves(lane, &s);
}

tutti_status tti_run_gather(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    if (lane->class == TTI_CLASS_LARGE) {
        return staged(lane, op, bytes);
    }
    tutti_status status = tti_arrive(lane, op->src, bytes);
    if (status == TUTTI_OK && e->rank == op->root && (status = tti_await_all(lane)) == TUTTI_OK) {
        for (int r = 0; r < e->size; r++) {
            tti_part_write(lane, op->dst, &op->recv_parts, r, 0, tti_payload(lane, r), bytes);
        }
    }
    return status;
}
