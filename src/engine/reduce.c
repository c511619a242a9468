/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce: the leaves put their windows into staging, the root folds all of them, its own vector where it lies, straight
 * into the output. A leaf returns as soon as its last window is staged. Bytes: 2n at a leaf, (P + 1)n at the root; one
 * epoch a window.
 *
 * Phases: a leaf publishes k when window k is there (the arrival says 0); the root k + 1 when it has folded window k.
 */
#include "engine/internal.h"
#include "kernels/kernels.h"

static tutti_status as_root(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    size_t window = e->layout.window;
    size_t element = tutti_dtype_size(op->dtype);
    bool leaves_wait = bytes > TTI_WINDOWS * window;
    struct tti_fold fold = {
        .dtype = op->dtype, .op = op->redop, .scales = op->redop == TUTTI_PREMUL_SUM ? lane->scales : NULL};
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK || (status = tti_await_all_as_root(lane, leaves_wait)) != TUTTI_OK ||
        (status = tti_attributes_as_root(lane, leaves_wait)) != TUTTI_OK) {
        return status;
    }
    for (size_t k = 0; k * window < bytes; k++) {
        if (k > 0 && (status = tti_wait_phase_all(lane, k)) != TUTTI_OK) {
            return status;
        }
        for (int r = 0; r < e->size; r++) {
            lane->sources[r] = tti_stage_peer(lane, r, (uint32_t)k);
        }
        lane->sources[e->rank] = (const unsigned char *)op->src + k * window;
        size_t n = bytes - k * window < window ? bytes - k * window : window;
        tti_fold((unsigned char *)op->dst + k * window, lane->sources, (size_t)e->size, n / element, &fold);
        if (n == window) {
            tti_advance(lane, k + 1);
        }
    }
    return TUTTI_OK;
}

tutti_status tti_run_reduce(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    bool root = lane->engine->rank == op->root;
    if (!tti_is_inline(lane, op)) {
        return root ? as_root(lane, op, bytes) : tti_stage_for_root(lane, op, bytes);
    }
    tutti_status status = tti_inline_arrive(lane, op->src, bytes);
    if (status == TUTTI_OK && root && (status = tti_await_all_as_root(lane, false)) == TUTTI_OK) {
        tti_inline_fold(lane, op->dst, 0, op->count);
    }
    return status;
}
