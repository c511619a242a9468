/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The class of a call, by the bytes that the rank with the most data sends:
 *   line      up to TTI_PAYLOAD bytes: in the arrival line
 *   packets   up to the threshold of the tuning: in the packets beside it, too (packets.c)
 *   large     above: through the stages, or directly between tensors
 * The class is a function of the call and the group's size only, so all ranks find the same one without a message.
 */
#include "engine/arrival/class.h"

#include "engine/memory/parts.h"
#include "tensor/parts.h"

static size_t inline_limit(const struct tti_lane *lane, tutti_operation kind)
{
    const struct tti_tuning *t = &lane->engine->tuning;
    const bool root_sends = kind == TUTTI_OP_BROADCAST || kind == TUTTI_OP_SCATTER;
    const size_t packets = (size_t)(root_sends ? t->packets_root : t->packets);
    return packets > TTI_PAYLOAD ? packets : TTI_PAYLOAD;
}

/* A PREMUL_SUM also carries this rank's factor, behind the data. */
static size_t scale_bytes(const tutti_op *op)
{
    return op->redop == TUTTI_PREMUL_SUM ? sizeof(double) : 0;
}

size_t tti_inline_bytes(const struct tti_lane *lane, const tutti_op *op, int rank)
{
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return bytes + scale_bytes(op);
    case TUTTI_OP_GATHER:
        return bytes;
    case TUTTI_OP_BROADCAST:
        return rank == op->root ? bytes : 0;
    case TUTTI_OP_SCATTER:
        return rank == op->root ? bytes * (size_t)(lane->engine->size - 1) : 0;
    case TUTTI_OP_ALL_GATHER:
        return tti_parts_bytes(&op->recv_parts, rank);
    case TUTTI_OP_ALL_TO_ALL:
        return tti_parts_bytes(&op->send_parts, 0) * (size_t)(lane->engine->size - 1);
    case TUTTI_OP_REDUCE_SCATTER:
        return tti_parts_total(&op->send_parts, lane->engine->size) + scale_bytes(op);
    default:
        return 0;
    }
}

/* The most that any rank sends, or more than the limit. */
static size_t most_bytes(const struct tti_lane *lane, const tutti_op *op, size_t limit)
{
    int size = lane->engine->size;
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    size_t most;
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return bytes + scale_bytes(op);
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_GATHER:
        return bytes;
    case TUTTI_OP_BARRIER:
        return 0;
    case TUTTI_OP_SCATTER:
        return bytes > limit ? bytes : bytes * (size_t)(size - 1);
    case TUTTI_OP_ALL_GATHER:
        return tti_part_bytes_max(&op->recv_parts, size);
    case TUTTI_OP_ALL_TO_ALL:
        most = op->send_parts.counts ? SIZE_MAX : tti_parts_bytes(&op->send_parts, 0);
        return most > limit ? most : most * (size_t)(size - 1);
    case TUTTI_OP_REDUCE_SCATTER:
        most = tti_part_bytes_max(&op->send_parts, size);
        return most > limit ? most : tti_parts_total(&op->send_parts, size) + scale_bytes(op);
    default:
        return SIZE_MAX;
    }
}

enum tti_class tti_classify(const struct tti_lane *lane, const tutti_op *op)
{
    size_t limit = inline_limit(lane, op->kind);
    size_t most = most_bytes(lane, op, limit);
    return most <= TTI_PAYLOAD ? TTI_CLASS_LINE : most <= limit ? TTI_CLASS_PACKETS : TTI_CLASS_LARGE;
}

struct tti_range tti_inline_range(const struct tti_lane *lane, const tutti_op *op, int rank)
{
    struct tti_range all = {.from = 0, .end = tti_inline_bytes(lane, op, rank)};
    int me = lane->engine->rank;
    if (all.end == 0 || scale_bytes(op) != 0) {
        return all; /* the factor is at the end */
    }
    if (op->kind == TUTTI_OP_SCATTER || op->kind == TUTTI_OP_ALL_TO_ALL) {
        const size_t each = all.end / (size_t)(lane->engine->size - 1);
        const size_t from = each * tti_inline_place(lane, rank, me);
        return (struct tti_range){.from = from, .end = from + each};
    }
    if (op->kind == TUTTI_OP_REDUCE_SCATTER) {
        size_t from = tti_parts_total(&op->send_parts, me);
        return (struct tti_range){.from = from, .end = from + tti_parts_bytes(&op->send_parts, me)};
    }
    return all;
}

struct tti_range tti_inline_unread(const struct tti_lane *lane, const tutti_op *op)
{
    const bool some = op->kind == TUTTI_OP_REDUCE_SCATTER && scale_bytes(op) == 0;
    return some ? tti_inline_range(lane, op, lane->engine->rank) : (struct tti_range){0};
}
