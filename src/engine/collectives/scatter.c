/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter: a stream of spans from the root, each with a chunk of every rank's part; each leaf copies its own chunk out
 * (flat tree, pipelined). Bytes: 2n at the root, 2m at a leaf (n all parts, m one); one epoch a span.
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
    struct tti_engine *e = lane->engine;
    size_t n = tti_chunk_bytes(s->bytes, s->chunk, k);
    for (int r = 0; r < e->size; r++) {
        if (r != e->rank) {
            tti_part_stage(lane, span + (size_t)r * s->chunk, s->op->src, &s->op->send_parts, r, k * s->chunk, n);
        }
    }
}

static void take(struct tti_lane *lane, const struct tti_stream *s, size_t k, int peer)
{
    const unsigned char *chunk = tti_stage_peer(lane, peer, k) + (size_t)lane->engine->rank * s->chunk;
    tti_copy_to_output(lane, (unsigned char *)s->op->dst + k * s->chunk, chunk, tti_chunk_bytes(s->bytes, s->chunk, k));
}

static tutti_status pull(struct tti_lane *lane, const struct tti_stream *s, int peer, size_t n)
{
    const unsigned char *part = lane->inputs[peer] + (size_t)lane->engine->rank * s->bytes;
    return tti_pull(lane, peer, s->op->dst, NULL, 0, part, NULL, 0, n);
}

static void own(struct tti_lane *lane, const struct tti_stream *s, size_t k)
{
    const tutti_op *op = s->op;
    tti_part_read(lane, (unsigned char *)op->dst + k * s->chunk, op->src, &op->send_parts, op->root, k * s->chunk,
                  tti_chunk_bytes(s->bytes, s->chunk, k));
}

static tutti_status staged(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    struct tti_stream s = {.op = op, .pack = pack, .take = take, .pull = pull};
    tti_stream_cut(lane, &s, bytes, (size_t)e->size);
    if (e->rank != op->root) {
        return tti_stream_read_root(lane, &s);
    }
    s.own = tti_part_direct(op->src, &op->send_parts, e->rank) != op->dst ? own : NULL;
    return tti_stream_write(lane, &s, -1);
}

static tutti_status inlined(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    if (e->rank == op->root) {
        unsigned char payload[TTI_INLINE_MOST];
        for (int r = 0; r < e->size; r++) {
            if (r != e->rank) {
                tti_part_read(lane, payload + tti_inline_place(lane, e->rank, r) * bytes, op->src, &op->send_parts, r,
                              0, bytes);
            }
        }
        tutti_status status = tti_arrive(lane, payload, (size_t)(e->size - 1) * bytes);
        if (status == TUTTI_OK && bytes > 0 && tti_part_direct(op->src, &op->send_parts, e->rank) != op->dst) {
            tti_part_read(lane, op->dst, op->src, &op->send_parts, e->rank, 0, bytes);
        }
        return status;
    }
    tutti_status status = tti_arrive(lane, NULL, 0);
    if (status == TUTTI_OK && (status = tti_await_one(lane, op->root)) == TUTTI_OK) {
        const size_t place = tti_inline_place(lane, op->root, e->rank);
        tti_copy_counted(lane, op->dst, tti_payload(lane, op->root) + place * bytes, bytes);
    }
    return status;
}

tutti_status tti_run_scatter(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    return lane->class != TTI_CLASS_LARGE ? inlined(lane, op, bytes) : staged(lane, op, bytes);
}
