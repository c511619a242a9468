/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * broadcast: the root puts window after window into its staging, the others copy out as windows appear. The root does not
 * wait for anybody until it comes to reuse a window, so small broadcasts follow one another without a round trip (inline
 * ones as many as the arrival ring holds). Bytes: 2n at the root and 2n at each leaf; one epoch a window.
 *
 * Phases: the root publishes k when window k is there (the arrival says 0); a leaf k + 1 when it has copied window k.
 */
#include "engine/internal.h"

static tutti_status as_root(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    size_t window = lane->engine->layout.window;
    tutti_status status = tti_stage_commit(lane);
    if (status != TUTTI_OK) {
        tutti_status arrived = tti_arrive_staged(lane, (uint32_t)status);
        return arrived != TUTTI_OK ? arrived : tti_attributes_one(lane, lane->engine->rank);
    }
    for (size_t k = 0; k * window < bytes; k++) {
        unsigned char *staging;
        if (k == TTI_WINDOWS && (status = tti_await_all_as_root(lane, true)) != TUTTI_OK) {
            return status; /* from here on this call waits for leaves: are they in the same one? */
        }
        if ((status = tti_stage_acquire(lane, (uint32_t)k, &staging)) != TUTTI_OK) {
            return status;
        }
        size_t n = bytes - k * window < window ? bytes - k * window : window;
        tti_copy(staging, (const unsigned char *)op->dst + k * window, n);
        tti_stage_stamp(lane, (uint32_t)k, k + 1, -1);
        if (k > 0) {
            tti_advance(lane, k);
        } else if ((status = tti_arrive_staged(lane, TUTTI_OK)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status as_leaf(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    size_t window = lane->engine->layout.window;
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK || (status = tti_await_one(lane, op->root)) != TUTTI_OK ||
        (status = tti_attributes_one(lane, op->root)) != TUTTI_OK) {
        return status;
    }
    for (size_t k = 0; k * window < bytes; k++) {
        if (k > 0 && (status = tti_wait_phase(lane, op->root, k)) != TUTTI_OK) {
            return status;
        }
        size_t n = bytes - k * window < window ? bytes - k * window : window;
        tti_copy((unsigned char *)op->dst + k * window, tti_stage_peer(lane, op->root, (uint32_t)k), n);
        if (n == window) {
            tti_advance(lane, k + 1);
        }
    }
    return TUTTI_OK;
}

tutti_status tti_run_broadcast(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    bool root = lane->engine->rank == op->root;
    if (!tti_is_inline(lane, op)) {
        return root ? as_root(lane, op, bytes) : as_leaf(lane, op, bytes);
    }
    tutti_status status = tti_arrive(lane, op->dst, root ? bytes : 0);
    if (status == TUTTI_OK && !root && (status = tti_await_one(lane, op->root)) == TUTTI_OK) {
        tti_copy(op->dst, tti_payload(lane, op->root), bytes);
    }
    return status;
}
