/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gather: the leaves stage their parts, the root copies them to their places. A leaf returns as soon as its last window
 * is staged. Bytes: 2m at a leaf, 2n at the root; one epoch a window. Phases as in reduce.
 */
#include "engine/internal.h"

static tutti_status as_root(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    size_t window = e->layout.window;
    bool leaves_wait = bytes > TTI_WINDOWS * window;
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK || (status = tti_await_all_as_root(lane, leaves_wait)) != TUTTI_OK ||
        (status = tti_attributes_as_root(lane, leaves_wait)) != TUTTI_OK) {
        return status;
    }
    for (size_t k = 0; k * window < bytes; k++) {
        size_t n = bytes - k * window < window ? bytes - k * window : window;
        for (int i = 1; i < e->size; i++) {
            int peer = (e->rank + i) % e->size;
            if (k > 0 && (status = tti_wait_phase(lane, peer, k)) != TUTTI_OK) {
                return status;
            }
            tti_part_write(op->dst, &op->recv_parts, peer, k * window, tti_stage_peer(lane, peer, (uint32_t)k), n);
        }
        if (n == window) {
            tti_advance(lane, k + 1);
        }
    }
    tti_part_write(op->dst, &op->recv_parts, e->rank, 0, op->src, bytes);
    return TUTTI_OK;
}

tutti_status tti_run_gather(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    bool root = e->rank == op->root;
    if (!tti_is_inline(lane, op)) {
        return root ? as_root(lane, op, bytes) : tti_stage_for_root(lane, op, bytes);
    }
    tutti_status status = tti_arrive(lane, op->src, bytes);
    if (status == TUTTI_OK && root && (status = tti_await_all_as_root(lane, false)) == TUTTI_OK) {
        for (int r = 0; r < e->size; r++) {
            tti_part_write(op->dst, &op->recv_parts, r, 0, tti_payload(lane, r), bytes);
        }
    }
    return status;
}
