/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The inline class: the data travel in the arrival line, behind the sequence number. One epoch and one cache-line hop per
 * peer, all of them overlapping; everybody reads what it needs and folds in rank order. Cost: (P - 1) line reads a rank,
 * 2 lines each above 36 bytes.
 */
#include "engine/internal.h"

#define SCALE_AT (TTI_PAYLOAD - sizeof(double))

size_t tti_inline_limit(const tutti_op *op)
{
    return op->redop == TUTTI_PREMUL_SUM ? SCALE_AT : TTI_PAYLOAD;
}

size_t tti_call_bytes(const struct tti_lane *lane, const tutti_op *op)
{
    size_t size = (size_t)lane->engine->size;
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    switch (op->kind) {
    case TUTTI_OP_BARRIER:
        return 0;
    case TUTTI_OP_GATHER:
    case TUTTI_OP_SCATTER:
        return bytes * size;
    case TUTTI_OP_ALL_GATHER:
        return tti_part_bytes_max(&op->recv_parts, (int)size) * size;
    case TUTTI_OP_REDUCE_SCATTER:
    case TUTTI_OP_ALL_TO_ALL:
        return tti_part_bytes_max(&op->send_parts, (int)size) * size;
    default:
        return bytes;
    }
}

bool tti_is_inline(const struct tti_lane *lane, const tutti_op *op)
{
    size_t size = (size_t)lane->engine->size;
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    size_t total = 0;
    switch (op->kind) {
    case TUTTI_OP_BARRIER:
        return true;
    case TUTTI_OP_ALL_REDUCE:
    case TUTTI_OP_REDUCE:
        return bytes <= tti_inline_limit(op);
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_GATHER:
        return bytes <= TTI_PAYLOAD;
    case TUTTI_OP_SCATTER:
        return bytes <= TTI_PAYLOAD / size;
    case TUTTI_OP_ALL_GATHER:
        return tti_part_bytes_max(&op->recv_parts, (int)size) <= TTI_PAYLOAD;
    case TUTTI_OP_ALL_TO_ALL:
        return !op->send_parts.counts && tti_part_bytes(&op->send_parts, 0) <= TTI_PAYLOAD / size;
    case TUTTI_OP_REDUCE_SCATTER:
        for (size_t r = 0; r < size && total <= TTI_PAYLOAD; r++) {
            total += tti_part_bytes(&op->send_parts, (int)r);
        }
        return total <= tti_inline_limit(op);
    default:
        return false;
    }
}

tutti_status tti_inline_arrive(struct tti_lane *lane, const void *data, size_t bytes)
{
    if (lane->op->redop != TUTTI_PREMUL_SUM) {
        return tti_arrive(lane, data, bytes);
    }
    unsigned char payload[TTI_PAYLOAD] = {0};
    tti_copy(payload, data, bytes);
    memcpy(payload + SCALE_AT, &lane->op->scale, sizeof(double));
    return tti_arrive(lane, payload, sizeof(payload));
}

void tti_inline_fold(struct tti_lane *lane, void *dst, size_t from, size_t count)
{
    int size = lane->engine->size;
    bool scaled = lane->op->redop == TUTTI_PREMUL_SUM;
    if (count == 0) {
        return;
    }
    for (int r = 0; r < size; r++) {
        const unsigned char *payload = tti_payload(lane, r);
        lane->sources[r] = payload + from;
        if (scaled) {
            memcpy(&lane->scales[r], payload + SCALE_AT, sizeof(double));
        }
    }
    struct tti_fold fold = {.dtype = lane->op->dtype, .op = lane->op->redop, .scales = scaled ? lane->scales : NULL};
    tti_fold(dst, lane->sources, (size_t)size, count, &fold);
}
