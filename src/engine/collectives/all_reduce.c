/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_reduce: chooses the algorithm by the bytes of the vector. P ranks, n bytes.
 *   inline      up to some hundred bytes: every rank reads every arrival and folds all. One epoch
 *   one-shot    all_reduce_one_shot.c: up to tuning.one_shot. One epoch, (P + 3)n bytes a rank
 *   two-shot    two_shot.c: above. Two epochs, 5n bytes a rank
 *   zero-copy   zero_copy.c, instead of the last two, if all ranks expose their tensors. 2n bytes a rank
 * Every fold takes all P sources at once and in rank order, so every rank gets the same bits, whatever the algorithm.
 */
#include "engine/arrival/inline.h"
#include "engine/collectives/all_reduce_algorithms.h"
#include "engine/collectives/all_reduce_lines.h"
#include "engine/collectives/collectives.h"
#include "engine/collectives/two_shot.h"

/* The first call of an operation, and one that runs in two steps or may be cancelled: engine/run.c runs the others. */
static tutti_status in_lines(struct tti_lane *lane, const tutti_op *op)
{
    const tutti_status status = tti_arrive_and_wait(lane, op->src, tti_all_reduce_line_bytes(op));
    if (status == TUTTI_OK) {
        tti_all_reduce_fold_lines(lane, op);
    }
    return status;
}

tutti_status tti_run_all_reduce(struct tti_lane *lane, const tutti_op *op)
{
    if (op->prepared[TTI_PREPARED_FOLD] != 0) {
        return in_lines(lane, op);
    }
    if (lane->class == TTI_CLASS_LARGE) {
        const size_t bytes = op->count * tti_dtype_size(op->dtype);
        const bool is_long = op->wire != TUTTI_WIRE_FULL || /* long ones only: see tti_engine_supports */
                             bytes > lane->engine->tuning.one_shot;
        return is_long ? tti_two_shot(lane, op) : tti_all_reduce_one_shot(lane, op, bytes);
    }
    tutti_status status = tti_inline_arrive(lane, op->src, op->count << tti_dtype_shift(op->dtype));
    if (status == TUTTI_OK && (status = tti_await_all(lane)) == TUTTI_OK) {
        tti_inline_fold(lane, op->dst, 0, op->count);
    }
    return status;
}
