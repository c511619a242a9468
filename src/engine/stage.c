/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stage: a ring of bytes in a rank's segment, where it puts what its peers shall read. A call takes spans of one size
 * from it, one after the other; a span never wraps, so a gap may stay at the end of the ring. Peers compute where a span
 * lies from the place of the call's first one, which travels with the arrival, and from the size, which follows from the
 * call.
 *
 * Why a ring and not a few windows: a line that is written again should have left its reader's private cache meanwhile.
 * Else the writer has to take it away from another core, which costs more than the copy.
 *
 * Each span carries a stamp: who must have come how far before it may be written again. Stamps are asked in the order of
 * the spans. A peer that has arrived at a later call has ended the stamp's call, so calls in which all wait for all free
 * their spans by themselves: they use TTI_PHASE_NEXT, and end without a word. Calls with a root end by announcing
 * TTI_PHASE_FINAL, as does every call that ends in an error after which the group stays usable.
 *
 * Nobody waits for ever: before its own arrival a rank acquires span 0 only, and a stage holds TTI_STAGE_SPANS of the
 * largest spans. The last three spans of the call before, all that may be stamped TTI_PHASE_NEXT and not be free yet, are
 * never in the way of that one.
 */
#include "engine/internal.h"

/* Larger spans begin at pages, where hardware prefetching of the one before ends: it would fetch lines of the next span into
 * the reader's cache while the writer is about to write them. For small ones that costs less than one more page. */
static uint64_t rounded(size_t stride)
{
    size_t unit = stride < TTI_PAGE / 2 ? 64 : TTI_PAGE;
    return (stride + unit - 1) / unit * unit;
}

static uint64_t fitted(const struct tti_lane *lane, uint64_t position)
{
    uint64_t ring = lane->engine->layout.stage;
    uint64_t place = position % ring;
    return place + lane->stage.stride <= ring ? position : position - place + ring;
}

/* From the position of a call's first span to that of span `index`. Only differences of `ring` are added to what is left
 * of the place, so this serves positions and places alike. */
static uint64_t position_of(const struct tti_lane *lane, uint64_t first, size_t index)
{
    uint64_t ring = lane->engine->layout.stage;
    uint64_t stride = lane->stage.stride;
    uint64_t place = first % ring;
    uint64_t before_gap = (ring - place) / stride;
    if (index < before_gap) {
        return first + index * stride;
    }
    uint64_t each = ring / stride;
    uint64_t behind = index - before_gap;
    return first - place + ring + behind / each * ring + behind % each * stride;
}

tutti_status tti_stage_begin(struct tti_lane *lane, size_t stride)
{
    struct tti_engine *e = lane->engine;
    struct tti_stage *s = &lane->stage;
    s->stride = rounded(stride);
    s->first = fitted(lane, s->head);
    if (!s->committed && e->commit) {
        size_t offset = e->layout.stages + (size_t)lane->index * e->layout.stage;
        tutti_status status = e->commit(e->commit_user, offset, e->layout.stage);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    s->committed = true;
    return TUTTI_OK;
}

void tti_stage_populate(struct tti_lane *lane, int peer)
{
    struct tti_engine *e = lane->engine;
    if (e->populate && peer != e->rank) {
        e->populate(e->commit_user, peer, e->layout.stages + (size_t)lane->index * e->layout.stage, e->layout.stage);
    }
    lane->populated[peer] = true;
}

void tti_stage_shape(struct tti_lane *lane, size_t stride)
{
    lane->stage.stride = rounded(stride);
    lane->stage.first = 0;
}

static tutti_status wait_position(struct tti_lane *lane, int peer, uint64_t position)
{
    return tti_lane_wait(lane, tti_position_of(lane, peer), position, peer);
}

static tutti_status await_stamp(struct tti_lane *lane, const struct tti_stamp *stamp)
{
    if (lane->credit > stamp->call) {
        return TUTTI_OK;
    }
    for (int r = 0; r < lane->engine->size; r++) {
        if (r == lane->engine->rank || (stamp->reader >= 0 && stamp->reader != r)) {
            continue;
        }
        tutti_status status =
            stamp->phase == TTI_PHASE_NEXT
                ? tti_lane_wait(lane, &tti_arrival_of(lane, r, stamp->call + 1)->sequence, stamp->call + 1, r)
                : wait_position(lane, r, stamp->call << TTI_PHASE_BITS | stamp->phase);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}

static tutti_status free_oldest(struct tti_lane *lane)
{
    struct tti_stage *s = &lane->stage;
    const struct tti_stamp *oldest = &s->stamps[s->stamps_first % TTI_STAMPS];
    tutti_status status = await_stamp(lane, oldest);
    if (status == TUTTI_OK) {
        s->freed = oldest->end;
        s->stamps_first++;
        s->stamps_count--;
    }
    return status;
}

tutti_status tti_stage_acquire(struct tti_lane *lane, size_t index, unsigned char **span)
{
    struct tti_engine *e = lane->engine;
    struct tti_stage *s = &lane->stage;
    uint64_t position = position_of(lane, s->first, index);
    uint64_t end = position + s->stride;
    while (s->stamps_count > 0 && (end > s->freed + e->layout.stage || s->stamps_count == TTI_STAMPS)) {
        tutti_status status = free_oldest(lane);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    s->head = end;
    *span =
        e->segments[e->rank] + e->layout.stages + (size_t)lane->index * e->layout.stage + position % e->layout.stage;
    return TUTTI_OK;
}

void tti_stage_stamp(struct tti_lane *lane, uint64_t phase, int reader)
{
    struct tti_stage *s = &lane->stage;
    const struct tti_stamp stamp = {.end = s->head, .call = lane->call, .phase = phase, .reader = reader};
    struct tti_stamp *newest = &s->stamps[(s->stamps_first + s->stamps_count - 1) % TTI_STAMPS];
    if (s->stamps_count > 0 && newest->end == s->head) {
        *newest = stamp;
    } else {
        s->stamps[(s->stamps_first + s->stamps_count++) % TTI_STAMPS] = stamp;
    }
}

const unsigned char *tti_stage_peer(const struct tti_lane *lane, int peer, size_t index)
{
    const struct tti_engine *e = lane->engine;
    uint64_t place = position_of(lane, lane->starts[peer], index) % e->layout.stage;
    return e->segments[peer] + e->layout.stages + (size_t)lane->index * e->layout.stage + place;
}

tutti_status tti_await_span(struct tti_lane *lane, int peer, size_t index, uint64_t phase)
{
    return index > 0 || tti_exposes(lane, peer) ? tti_wait_phase(lane, peer, phase) : TUTTI_OK;
}

size_t tti_stage_room(const struct tti_lane *lane)
{
    return (size_t)(lane->engine->layout.stage / lane->stage.stride / 2);
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
