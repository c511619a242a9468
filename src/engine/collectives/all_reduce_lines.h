/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce of data that fit the arrival lines: every rank reads the lines of all ranks and folds all. One epoch. Not
 * for PREMUL_SUM, whose factor is behind the data. engine/run.c prepares the operation: TTI_PREPARED_FOLD is not
 * 0.
 */
#ifndef TTI_ENGINE_COLLECTIVES_ALL_REDUCE_LINES_H
#define TTI_ENGINE_COLLECTIVES_ALL_REDUCE_LINES_H

#include "engine/arrival/arrival.h"
#include "kernels/dispatch.h"

static inline size_t tti_all_reduce_line_bytes(const tutti_op *op)
{
    return (uint16_t)(op->prepared[TTI_PREPARED_CLASS] >> TTI_PREPARED_BYTES_FROM);
}

/* All ranks have arrived: folds their data. */
static inline void tti_all_reduce_fold_lines(struct tti_lane *lane, const tutti_op *op)
{
    tti_fold_function *const fold = (tti_fold_function *)(uintptr_t)op->prepared[TTI_PREPARED_FOLD];
    lane->bytes_copied += op->prepared[TTI_PREPARED_CLASS] >> TTI_PREPARED_COPIED_FROM;
    tti_fold_by(fold, op->dtype, op->dst, lane->sources, (size_t)lane->engine->size, op->count, NULL);
}

/* This rank has arrived. */
static inline tutti_status tti_all_reduce_await_lines(struct tti_lane *lane, const tutti_op *op)
{
    const tutti_status status = tti_await_every_peer(lane, true);
    if (status == TUTTI_OK) {
        tti_all_reduce_fold_lines(lane, op);
    }
    return status;
}

#endif
