/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_scatter, plain and with parts of different length. A window holds, rank after rank, the same range of every
 * rank's part. Everybody stages all parts but its own, and folds its own from everybody's staging straight into the
 * output. Bytes a rank: 3n - m (m the part, n all parts), the least that copying in allows; one epoch a window.
 *
 * Phases: k when window k is there (the arrival says 0). Window k has been read by all when they publish k + 2, which
 * they do after folding it.
 */
#include "engine/internal.h"
#include "kernels/kernels.h"

static tutti_status copy_in(struct tti_lane *lane, const tutti_op *op, size_t slot, size_t windows, size_t k)
{
    struct tti_engine *e = lane->engine;
    unsigned char *staging;
    tutti_status status = tti_stage_acquire(lane, (uint32_t)k, &staging);
    if (status != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < e->size; r++) {
        if (r == e->rank && op->send_parts.outer <= 1) {
            continue; /* read where it lies */
        }
        size_t n = tti_cut(tti_part_bytes(&op->send_parts, r), slot, k);
        tti_part_read(staging + (size_t)r * slot, op->src, &op->send_parts, r, k * slot, n);
    }
    tti_stage_stamp(lane, (uint32_t)k, k + 2 < windows ? k + 2 : TTI_PHASE_FINAL, -1);
    return TUTTI_OK;
}

static void fold_own(struct tti_lane *lane, const tutti_op *op, size_t slot, size_t k)
{
    struct tti_engine *e = lane->engine;
    size_t n = tti_cut(tti_part_bytes(&op->send_parts, e->rank), slot, k);
    if (n == 0) {
        return;
    }
    for (int r = 0; r < e->size; r++) {
        lane->sources[r] = tti_stage_peer(lane, r, (uint32_t)k) + (size_t)e->rank * slot;
    }
    const unsigned char *direct = tti_part_direct(op->src, &op->send_parts, e->rank);
    if (direct) {
        lane->sources[e->rank] = direct + k * slot;
    }
    struct tti_fold fold = {
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
    tti_fold((unsigned char *)op->dst + k * slot, lane->sources, (size_t)e->size, n / tutti_dtype_size(op->dtype),
             &fold);
}

static tutti_status staged(struct tti_lane *lane, const tutti_op *op, size_t most)
{
    struct tti_engine *e = lane->engine;
    size_t slot = tti_slot_bytes(e);
    size_t windows = (most + slot - 1) / slot;
    tutti_status ready = tti_stage_commit(lane);
    tutti_status status = ready == TUTTI_OK ? copy_in(lane, op, slot, windows, 0) : TUTTI_OK;
    if (status != TUTTI_OK || (status = tti_arrive_staged(lane, (uint32_t)ready)) != TUTTI_OK ||
        (status = tti_await_all(lane)) != TUTTI_OK || (status = tti_attributes_all(lane)) != TUTTI_OK) {
        return status;
    }
    for (size_t k = 0; k < windows; k++) {
        if (k + 1 < windows) {
            if ((status = copy_in(lane, op, slot, windows, k + 1)) != TUTTI_OK) {
                return status;
            }
            tti_advance(lane, k + 1);
        }
        if (k > 0 && (status = tti_wait_phase_all(lane, k)) != TUTTI_OK) {
            return status;
        }
        fold_own(lane, op, slot, k);
    }
    return TUTTI_OK;
}

tutti_status tti_run_reduce_scatter(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    if (!tti_is_inline(lane, op)) {
        return staged(lane, op, tti_part_bytes_max(&op->send_parts, e->size));
    }
    unsigned char payload[TTI_PAYLOAD];
    size_t total = 0;
    size_t before = 0;
    for (int r = 0; r < e->size; r++) {
        size_t n = tti_part_bytes(&op->send_parts, r);
        before = r == e->rank ? total : before;
        tti_part_read(payload + total, op->src, &op->send_parts, r, 0, n);
        total += n;
    }
    tutti_status status = tti_inline_arrive(lane, payload, total);
    if (status == TUTTI_OK && (status = tti_await_all(lane)) == TUTTI_OK) {
        size_t own = tti_part_bytes(&op->send_parts, e->rank);
        tti_inline_fold(lane, op->dst, before, own / tutti_dtype_size(op->dtype));
    }
    return status;
}
