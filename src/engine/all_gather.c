/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * all_gather, plain and with parts of different length: everybody stages its part window by window and copies the
 * others' windows to their places. Bytes a rank: 2m in, 2(n - m) out, 2m for the own part (m the part, n all parts); one
 * epoch a window. Window k+1 is staged before the others' window k is copied.
 *
 * Phases: k when window k is there (the arrival says 0). Window k has been read by all when they publish k + 2, which
 * they do after copying it.
 */
#include "engine/internal.h"

static tutti_status copy_in(struct tti_lane *lane, const tutti_op *op, size_t bytes, size_t windows, size_t k)
{
    size_t window = lane->engine->layout.window;
    unsigned char *staging;
    tutti_status status = tti_stage_acquire(lane, (uint32_t)k, &staging);
    if (status == TUTTI_OK) {
        size_t n = tti_cut(bytes, window, k);
        tti_copy(staging, n ? (const unsigned char *)op->src + k * window : NULL, n);
        tti_stage_stamp(lane, (uint32_t)k, k + 2 < windows ? k + 2 : TTI_PHASE_FINAL, -1);
    }
    return status;
}

static tutti_status staged(struct tti_lane *lane, const tutti_op *op, size_t most)
{
    struct tti_engine *e = lane->engine;
    size_t window = e->layout.window;
    size_t windows = (most + window - 1) / window;
    size_t own = tti_part_bytes(&op->recv_parts, e->rank);
    tutti_status ready = tti_stage_commit(lane);
    tutti_status status = ready == TUTTI_OK ? copy_in(lane, op, own, windows, 0) : TUTTI_OK;
    if (status != TUTTI_OK || (status = tti_arrive_staged(lane, (uint32_t)ready)) != TUTTI_OK ||
        (status = tti_await_all(lane)) != TUTTI_OK || (status = tti_attributes_all(lane)) != TUTTI_OK) {
        return status;
    }
    for (size_t k = 0; k < windows; k++) {
        if (k + 1 < windows) {
            if ((status = copy_in(lane, op, own, windows, k + 1)) != TUTTI_OK) {
                return status;
            }
            tti_advance(lane, k + 1);
        }
        for (int i = 1; i < e->size; i++) {
            int peer = (e->rank + i) % e->size;
            if (k > 0 && (status = tti_wait_phase(lane, peer, k)) != TUTTI_OK) {
                return status;
            }
            size_t n = tti_cut(tti_part_bytes(&op->recv_parts, peer), window, k);
            tti_part_write(op->dst, &op->recv_parts, peer, k * window, tti_stage_peer(lane, peer, (uint32_t)k), n);
        }
    }
    tti_part_write(op->dst, &op->recv_parts, e->rank, 0, op->src, own);
    return TUTTI_OK;
}

tutti_status tti_run_all_gather(struct tti_lane *lane, const tutti_op *op)
{
    struct tti_engine *e = lane->engine;
    if (!tti_is_inline(lane, op)) {
        return staged(lane, op, tti_part_bytes_max(&op->recv_parts, e->size));
    }
    tutti_status status = tti_arrive(lane, op->src, tti_part_bytes(&op->recv_parts, e->rank));
    if (status != TUTTI_OK || (status = tti_await_all(lane)) != TUTTI_OK) {
        return status;
    }
    for (int r = 0; r < e->size; r++) {
        tti_part_write(op->dst, &op->recv_parts, r, 0, tti_payload(lane, r), tti_part_bytes(&op->recv_parts, r));
    }
    return TUTTI_OK;
}
