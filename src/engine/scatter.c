/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * scatter: the root stages a window that holds a piece of everybody's part, rank after rank; each leaf copies its own
 * piece out. The root returns as soon as its last window is staged. Bytes: 2n at the root, 2m at a leaf; one epoch a
 * window. Phases as in broadcast.
 */
#include "engine/internal.h"

static tutti_status as_root(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    size_t slot = tti_slot_bytes(lane->engine);
    tutti_status status = tti_stage_commit(lane);
    if (status != TUTTI_OK) {
        tutti_status arrived = tti_arrive_staged(lane, (uint32_t)status);
        return arrived != TUTTI_OK ? arrived : tti_attributes_one(lane, e->rank);
    }
    for (size_t k = 0; k * slot < bytes; k++) {
        unsigned char *staging;
        if (k == TTI_WINDOWS && (status = tti_await_all_as_root(lane, true)) != TUTTI_OK) {
            return status; /* from here on this call waits for leaves: are they in the same one? */
        }
        if ((status = tti_stage_acquire(lane, (uint32_t)k, &staging)) != TUTTI_OK) {
            return status;
        }
        size_t n = bytes - k * slot < slot ? bytes - k * slot : slot;
        for (int r = 0; r < e->size; r++) {
            if (r != e->rank) {
                tti_part_read(staging + (size_t)r * slot, op->src, &op->send_parts, r, k * slot, n);
            }
        }
        tti_stage_stamp(lane, (uint32_t)k, k + 1, -1);
        if (k > 0) {
            tti_advance(lane, k);
        } else if ((status = tti_arrive_staged(lane, TUTTI_OK)) != TUTTI_OK) {
            return status;
        }
    }
    const unsigned char *direct = tti_part_direct(op->src, &op->send_parts, e->rank);
    if (direct != op->dst) {
        tti_part_read(op->dst, op->src, &op->send_parts, e->rank, 0, bytes);
    }
    return TUTTI_OK;
}

static tutti_status as_leaf(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    size_t slot = tti_slot_bytes(lane->engine);
    tutti_status status = tti_arrive_staged(lane, TUTTI_OK);
    if (status != TUTTI_OK || (status = tti_await_one(lane, op->root)) != TUTTI_OK ||
        (status = tti_attributes_one(lane, op->root)) != TUTTI_OK) {
        return status;
    }
    for (size_t k = 0; k * slot < bytes; k++) {
        if (k > 0 && (status = tti_wait_phase(lane, op->root, k)) != TUTTI_OK) {
            return status;
        }
        size_t n = bytes - k * slot < slot ? bytes - k * slot : slot;
        const unsigned char *staging = tti_stage_peer(lane, op->root, (uint32_t)k);
        tti_copy((unsigned char *)op->dst + k * slot, staging + (size_t)lane->engine->rank * slot, n);
        if (n == slot) {
            tti_advance(lane, k + 1);
        }
    }
    return TUTTI_OK;
}

static tutti_status inlined(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    struct tti_engine *e = lane->engine;
    if (e->rank == op->root) {
        unsigned char payload[TTI_PAYLOAD];
        for (int r = 0; r < e->size; r++) {
            tti_part_read(payload + (size_t)r * bytes, op->src, &op->send_parts, r, 0, bytes);
        }
        tutti_status status = tti_arrive(lane, payload, (size_t)e->size * bytes);
        if (status == TUTTI_OK) {
            tti_copy(op->dst, payload + (size_t)e->rank * bytes, bytes);
        }
        return status;
    }
    tutti_status status = tti_arrive(lane, NULL, 0);
    if (status == TUTTI_OK && (status = tti_await_one(lane, op->root)) == TUTTI_OK) {
        tti_copy(op->dst, tti_payload(lane, op->root) + (size_t)e->rank * bytes, bytes);
    }
    return status;
}

tutti_status tti_run_scatter(struct tti_lane *lane, const tutti_op *op)
{
    size_t bytes = op->count * tutti_dtype_size(op->dtype);
    if (tti_is_inline(lane, op)) {
        return inlined(lane, op, bytes);
    }
    return lane->engine->rank == op->root ? as_root(lane, op, bytes) : as_leaf(lane, op, bytes);
}
