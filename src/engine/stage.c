/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Staging windows: where a rank puts what its peers shall read. Each window carries a stamp: who must have come how far
 * before it may be overwritten. A position says call and phase, so a stamp of an earlier call is passed by itself when
 * the reader goes on. Every call that uses windows ends by announcing TTI_PHASE_FINAL, also when it ends in an error
 * after which the group stays usable; otherwise a stamp could wait for ever.
 */
#include "engine/internal.h"

tutti_status tti_stage_commit(struct tti_lane *lane)
{
    struct tti_engine *e = lane->engine;
    if (!lane->committed && e->commit) {
        size_t bytes = (size_t)TTI_WINDOWS * e->layout.window;
        tutti_status status = e->commit(e->commit_user, e->layout.windows + (size_t)lane->index * bytes, bytes);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    lane->committed = true;
    return TUTTI_OK;
}

static tutti_status wait_position(struct tti_lane *lane, int peer, uint64_t position)
{
    return tti_lane_wait(lane, tti_position_of(lane, peer), position, peer);
}

tutti_status tti_stage_acquire(struct tti_lane *lane, uint32_t index, unsigned char **window)
{
    struct tti_engine *e = lane->engine;
    uint32_t slot = (lane->cursor + index) % TTI_WINDOWS;
    struct tti_stamp *stamp = &lane->stamps[slot];
    if (stamp->position != 0) {
        for (int r = 0; r < e->size; r++) {
            if (r == e->rank || (stamp->reader >= 0 && stamp->reader != r)) {
                continue;
            }
            tutti_status status = wait_position(lane, r, stamp->position);
            if (status != TUTTI_OK) {
                return status;
            }
        }
        stamp->position = 0;
    }
    *window = tti_window_of(lane, e->rank, slot);
    return TUTTI_OK;
}

void tti_stage_stamp(struct tti_lane *lane, uint32_t index, uint64_t phase, int reader)
{
    lane->stamps[(lane->cursor + index) % TTI_WINDOWS] =
        (struct tti_stamp){.position = tti_at(lane, phase), .reader = reader};
}

void tti_advance(struct tti_lane *lane, uint64_t phase)
{
    tti_publish(lane->engine, lane->index, tti_position_of(lane, lane->engine->rank), tti_at(lane, phase));
}

tutti_status tti_wait_phase(struct tti_lane *lane, int peer, uint64_t phase)
{
    return wait_position(lane, peer, tti_at(lane, phase));
}

tutti_status tti_wait_phase_all(struct tti_lane *lane, uint64_t phase)
{
    for (int r = 0; r < lane->engine->size; r++) {
        if (r != lane->engine->rank) {
            tutti_status status = wait_position(lane, r, tti_at(lane, phase));
            if (status != TUTTI_OK) {
                return status;
            }
        }
    }
    return TUTTI_OK;
}

tutti_status tti_stage_for_root(struct tti_lane *lane, const tutti_op *op, size_t bytes)
{
    size_t window = lane->engine->layout.window;
    tutti_status status = tti_stage_commit(lane);
    if (status != TUTTI_OK) {
        tutti_status arrived = tti_arrive_staged(lane, (uint32_t)status);
        return arrived != TUTTI_OK ? arrived : tti_attributes_one(lane, lane->engine->rank);
    }
    for (size_t k = 0; k * window < bytes; k++) {
        unsigned char *staging;
        if (k == TTI_WINDOWS && (status = tti_await_one(lane, op->root)) != TUTTI_OK) {
            return status; /* from here on this call waits for the root: is it in the same one? */
        }
        if ((status = tti_stage_acquire(lane, (uint32_t)k, &staging)) != TUTTI_OK) {
            return status;
        }
        size_t n = bytes - k * window < window ? bytes - k * window : window;
        tti_copy(staging, (const unsigned char *)op->src + k * window, n);
        tti_stage_stamp(lane, (uint32_t)k, k + 1, op->root);
        if (k > 0) {
            tti_advance(lane, k);
        } else if ((status = tti_arrive_staged(lane, TUTTI_OK)) != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}
