/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * All collectives in a group of one rank: no wait. Reductions still fold, so that factors, AVG and canonical NaNs are
 * the same as with many ranks. The others copy from the own part to the own part.
 */
#include "engine/collectives/collectives.h"
#include "engine/memory/parts.h"
#include "kernels/kernels.h"
#include "tensor/parts.h"

tutti_status tti_run_solo(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tti_dtype_size(op->dtype);
    if (op->kind == TUTTI_OP_BARRIER || op->kind == TUTTI_OP_BROADCAST) {
        return TUTTI_OK;
    }
    if (op->kind == TUTTI_OP_ALL_GATHER || op->kind == TUTTI_OP_GATHER) {
        tti_part_write(lane, op->dst, &op->recv_parts, 0, 0, op->src, tti_parts_bytes(&op->recv_parts, 0));
        return TUTTI_OK;
    }
    if (op->kind == TUTTI_OP_SCATTER) {
        tti_part_read(lane, op->dst, op->src, &op->send_parts, 0, 0, bytes);
        return TUTTI_OK;
    }
    if (op->kind == TUTTI_OP_ALL_TO_ALL) {
        tti_part_copy(lane, op->dst, &op->recv_parts, op->src, &op->send_parts, 0);
        return TUTTI_OK;
    }
    if (bytes == 0) {
        return TUTTI_OK;
    }
    const void *source = op->kind == TUTTI_OP_REDUCE_SCATTER ? tti_part_direct(op->src, &op->send_parts, 0) : op->src;
    if (!source) { /* the only part has rows: it is the whole tensor */
        source = op->src;
    }
    struct tti_fold fold = {
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? &op->scale : NULL};
    tti_fold(op->dst, &source, 1, op->count, &fold);
    return TUTTI_OK;
}
