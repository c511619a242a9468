/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stage: a ring buffer of bytes in a rank's segment, from which its peers read. A call takes spans of one size from
 * it, one after the other. A span never wraps, so a gap may stay at the end of the ring. Peers compute the place of a
 * span from the place of the call's first span, which is in the arrival, and from the size, which follows from
 * the call.
 *
 * Why a ring and not a few windows: a line should have left its reader's caches before the writer writes it again. Else
 * the writer has to take the line from another core, which costs more than the copy. The first ring is larger than the
 * second-level caches, for readers that share a third-level cache with this rank. There may be two others:
 *
 * far: larger, for far readers. Virtual CPUs move, so the distance is measured all the time, by the time to publish
 *   (wait/publish.c). Its spans are written past the caches: a line arrives sooner from memory than from the caches
 *   behind another third-level cache (docs/decisions/0024).
 * small: for small calls, and for larger rooted calls that the tuning names, on CPUs that take lines back from another
 *   core's second-level cache sooner than they fetch them from the third-level cache (docs/decisions/0043).
 *
 * Each span carries a stamp: the readers, and how far they must be before the writer may use the span again. A
 * peer that has arrived at a later call has ended the stamp's call. So calls in which all wait for all use
 * TTI_PHASE_NEXT and publish nothing at their end. Rooted calls end by publishing TTI_PHASE_FINAL, and so does every
 * call that ends in an error after which the group stays usable.
 *
 * No deadlock: before its own arrival a rank acquires span 0 only, and a stage holds TTI_STAGE_SPANS of the largest
 * spans. At most the last three spans of the call before are stamped TTI_PHASE_NEXT and not free, and span 0
 * of this call never overlaps them, because a stage has room for TTI_STAGE_SPANS. tests/models/stage.pml checks the
 * protocol.
 */
#include "engine/memory/stage.h"

#include "base/failure_checks.h"
#include "engine/failure/fault.h"
#include "engine/memory/expose.h"
#include "engine/wait/publish.h"
#include "engine/wait/wait.h"

#define FAR_NS      100.0 /* publishing takes longer: the readers have another third-level cache */
#define HYSTERESIS  1.2
#define SHARED_FROM ((size_t)16 << 10)
#define STEP        (UINT64_C(256) << 10) /* bytes made ready between two checks of the alarm: some 0.2 ms */

/* Larger spans begin at pages, where the hardware stops prefetching. Otherwise it would fetch lines of the next span
 * into the reader's cache while the writer is about to write them. For small spans that costs less than one more
 * page. */
static uint64_t rounded(size_t stride)
{
    size_t unit = stride < TTI_PAGE / 2 ? 64 : TTI_PAGE;
    return (stride + unit - 1) / unit * unit;
}

static uint64_t fitted(const struct tti_stage *s, uint64_t position)
{
    uint64_t place = position & (s->ring - 1);
    return place + s->stride <= s->ring ? position : position - place + s->ring;
}

/* The position of span `index`. Spans follow one another up to the gap at the end of the ring; each later round of the
 * ring holds ring / stride spans. `first` may be a position or a place: both differ by a multiple of `ring`. */
static uint64_t position_of(uint64_t ring, uint64_t stride, uint64_t first, size_t index)
{
    uint64_t place = first & (ring - 1);
    if (place + (index + 1) * stride <= ring) {
        return first + index * stride;
    }
    uint64_t before_gap = (ring - place) / stride;
    uint64_t per_round = ring / stride;
    uint64_t after_gap = index - before_gap;
    return first - place + ring + after_gap / per_round * ring + after_gap % per_round * stride;
}

static size_t offset_of(const struct tti_lane *lane, uint64_t place)
{
    const struct tti_layout *l = &lane->engine->layout;
    return l->stages + (size_t)lane->index * l->lane_stages + place;
}

static size_t bytes_of(const struct tti_layout *l, enum tti_stage_ring ring)
{
    return ring == TTI_RING_FIRST ? l->stage : ring == TTI_RING_FAR ? l->stage_far : l->stage_small;
}

static size_t base_of(const struct tti_layout *l, enum tti_stage_ring ring)
{
    return ring == TTI_RING_FIRST ? 0 : ring == TTI_RING_FAR ? l->stage : l->stage + l->stage_far;
}

/* The ring in which a place lies. */
static enum tti_stage_ring ring_at(const struct tti_layout *l, uint64_t place)
{
    return place < base_of(l, TTI_RING_FAR)     ? TTI_RING_FIRST
           : place < base_of(l, TTI_RING_SMALL) ? TTI_RING_FAR
                                                : TTI_RING_SMALL;
}

unsigned char *tti_stage_next(const struct tti_lane *lane, size_t *room)
{
    const struct tti_stage *s = lane->stage;
    const uint64_t place = fitted(s, s->head) & (s->ring - 1);
    *room = (size_t)(s->ring - place);
    return lane->engine->segments[lane->engine->rank] + offset_of(lane, s->base + place);
}

void tti_stage_prepare(struct tti_lane *lane)
{
    for (enum tti_stage_ring ring = TTI_RING_FIRST; ring < TTI_STAGE_RINGS; ring++) {
        lane->rings[ring].base = base_of(&lane->engine->layout, ring);
        lane->rings[ring].ring = bytes_of(&lane->engine->layout, ring);
    }
    lane->stage = &lane->rings[TTI_RING_FIRST];
}

static uint64_t step_at(uint64_t done, uint64_t ring)
{
    return ring - done < STEP ? ring - done : STEP;
}

static uint32_t alarm_now(const struct tti_lane *lane)
{
    /* acquire: pairs with tti_raise_alarm; the record of the rank that raised it is visible after */
    return TTI_FAULT_CHECKS ? atomic_load_explicit(tti_alarm(lane->engine), memory_order_acquire) : lane->alarm_seen;
}

/* OK if the group has not failed meanwhile. Without memory it returns OK with *resource_error. */
static tutti_status commit(struct tti_lane *lane, struct tti_stage *s, tutti_status *resource_error)
{
    struct tti_engine *e = lane->engine;
    tutti_status status = TUTTI_OK;
    *resource_error = TUTTI_OK;
    while (e->commit && s->committed < s->ring && status == TUTTI_OK && *resource_error == TUTTI_OK) {
        const uint64_t step = step_at(s->committed, s->ring);
        *resource_error = e->commit(e->commit_user, offset_of(lane, s->base + s->committed), step);
        s->committed += *resource_error == TUTTI_OK ? step : 0;
        status = tti_fault_check_alarm(lane, alarm_now(lane));
    }
    return status;
}

static bool readers_are_far(const struct tti_lane *lane)
{
    const double ns = lane->publish_ticks / lane->engine->ticks_per_ns;
    const bool is_far = tti_stage_is_far(lane);
    return ns > 0 ? ns >= (is_far ? FAR_NS / HYSTERESIS : FAR_NS * HYSTERESIS) : is_far;
}

/* Whether there is a ring for far readers, and it is better. Where ranks share CPUs small spans lose by it, since some
 * readers take them out of the caches of this very CPU (docs/decisions/0024). */
static bool far_ring_pays(const struct tti_lane *lane, size_t stride)
{
    return tti_stage_has_far(lane) && (lane->engine->ranks_per_cpu <= 1 || stride >= SHARED_FROM) &&
           readers_are_far(lane);
}

static bool suits_small_ring(const struct tti_lane *lane, size_t stride, bool small)
{
    return small && tti_stage_small_holds(lane, stride);
}

size_t tti_stage_spans(const struct tti_lane *lane, size_t stride, bool small)
{
    const bool in_small = suits_small_ring(lane, rounded(stride), small);
    const struct tti_stage *least = &lane->rings[in_small ? TTI_RING_SMALL : TTI_RING_FIRST];
    const uint64_t spans = least->ring / rounded(stride);
    return spans < TTI_STAMPS ? (size_t)spans : TTI_STAMPS;
}

/* Each ring keeps its positions and stamps, so no wait is needed. Without memory the ring stays, unless it is the small
 * one and holds fewer spans than the readers of this call count with: then the call takes the first one, and reports
 * the error if that has no memory either. */
static tutti_status choose_ring(struct tti_lane *lane, size_t stride, bool small)
{
    const bool suits_small = suits_small_ring(lane, stride, small);
    const enum tti_stage_ring ring = far_ring_pays(lane, stride) ? TTI_RING_FAR
                                     : suits_small               ? TTI_RING_SMALL
                                                                 : TTI_RING_FIRST;
    struct tti_stage *wanted = &lane->rings[ring];
    if (wanted == lane->stage) {
        return TUTTI_OK;
    }
    tutti_status resource_error;
    const tutti_status status = commit(lane, wanted, &resource_error);
    const bool suffices = suits_small || lane->stage != &lane->rings[TTI_RING_SMALL];
    if (status == TUTTI_OK && resource_error == TUTTI_OK) {
        lane->stage = wanted;
    } else if (status == TUTTI_OK && !suffices) {
        lane->stage = &lane->rings[TTI_RING_FIRST];
    }
    return status;
}

/* All ranks have the same numbers, except that a rank that exposes its tensors may have no steps. */
static tutti_status check_numbers(const struct tti_lane *lane, size_t phases)
{
    if (lane->call > TTI_CALLS_MOST) {
        return TUTTI_NO_RESOURCE;
    }
    return phases > TTI_PHASES_MOST && !lane->exposed ? TUTTI_UNSUPPORTED : TUTTI_OK;
}

tutti_status tti_stage_begin(struct tti_lane *lane, size_t stride, size_t phases, bool small,
                             tutti_status *resource_error)
{
    tutti_status status = choose_ring(lane, rounded(stride), small);
    struct tti_stage *s = lane->stage;
    s->stride = rounded(stride);
    s->first = fitted(s, s->head);
    *resource_error = check_numbers(lane, phases);
    return status == TUTTI_OK && *resource_error == TUTTI_OK ? commit(lane, s, resource_error) : status;
}

void tti_stage_start(struct tti_lane *lane, int peer, uint64_t place)
{
    struct tti_engine *e = lane->engine;
    const struct tti_layout *l = &e->layout;
    const enum tti_stage_ring in = ring_at(l, place);
    const uint64_t base = base_of(l, in);
    const uint64_t ring = bytes_of(l, in);
    lane->starts[peer] = place;
    if (place - base + lane->stage->stride > ring) { /* out of bounds: a peer's values are never trusted */
        lane->starts[peer] = 0;
    }
    const unsigned char bit = (unsigned char)(1u << in);
    if (!(lane->populated[peer] & bit)) { /* before the first read */
        const bool ahead = e->populate && peer != e->rank;
        for (uint64_t done = 0; ahead && done < ring && alarm_now(lane) == lane->alarm_seen;
             done += step_at(done, ring)) {
            e->populate(e->commit_user, peer, offset_of(lane, base + done), step_at(done, ring), e->size == 2);
        }
        lane->populated[peer] |= bit;
    }
}

bool tti_stage_peer_is_far(const struct tti_lane *lane, int peer)
{
    return ring_at(&lane->engine->layout, lane->starts[peer]) == TTI_RING_FAR;
}

void tti_stage_shape(struct tti_lane *lane, size_t stride)
{
    lane->stage->stride = rounded(stride);
    lane->stage->first = 0;
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
        if (r == lane->engine->rank || (stamp->reader >= 0 && stamp->reader != r) ||
            (stamp->call == lane->call && tti_is_mismatched(lane, r))) {
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
    struct tti_stage *s = lane->stage;
    const struct tti_stamp *oldest = &s->stamps[s->stamps_first % TTI_STAMPS];
    tutti_status status = await_stamp(lane, oldest);
    if (status == TUTTI_OK) {
        s->freed = oldest->end;
        s->stamps_first++;
        s->stamps_count--;
    }
    return status;
}

unsigned char *tti_stage_own(const struct tti_lane *lane, size_t index)
{
    const struct tti_engine *e = lane->engine;
    const struct tti_stage *s = lane->stage;
    const uint64_t position = position_of(s->ring, s->stride, s->first, index);
    return e->segments[e->rank] + offset_of(lane, s->base + (position & (s->ring - 1)));
}

tutti_status tti_stage_acquire(struct tti_lane *lane, size_t index, unsigned char **span)
{
    struct tti_stage *s = lane->stage;
    const uint64_t end = position_of(s->ring, s->stride, s->first, index) + s->stride;
    while (s->stamps_count > 0 && (end > s->freed + s->ring || s->stamps_count == TTI_STAMPS)) {
        tutti_status status = free_oldest(lane);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    s->head = end;
    *span = tti_stage_own(lane, index);
    return TUTTI_OK;
}

void tti_stage_stamp(struct tti_lane *lane, uint64_t phase, int reader)
{
    struct tti_stage *s = lane->stage;
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
    const uint64_t start = lane->starts[peer];
    const enum tti_stage_ring in = ring_at(&e->layout, start);
    const uint64_t base = base_of(&e->layout, in);
    const uint64_t ring = bytes_of(&e->layout, in);
    const uint64_t position = position_of(ring, lane->stage->stride, start - base, index);
    return e->segments[peer] + offset_of(lane, base + (position & (ring - 1)));
}

tutti_status tti_await_span(struct tti_lane *lane, int peer, size_t index, uint64_t phase)
{
    return index > 0 || tti_exposes(lane, peer) ? tti_wait_phase(lane, peer, phase) : TUTTI_OK;
}

void tti_advance(struct tti_lane *lane, uint64_t phase)
{
    tti_lane_publish(lane, tti_position_of(lane, lane->engine->rank), tti_position_at(lane, phase));
}

tutti_status tti_wait_phase(struct tti_lane *lane, int peer, uint64_t phase)
{
    return wait_position(lane, peer, tti_position_at(lane, phase));
}

tutti_status tti_wait_phase_all(struct tti_lane *lane, uint64_t phase)
{
    for (int r = 0; r < lane->engine->size; r++) {
        if (r != lane->engine->rank && !tti_is_mismatched(lane, r)) {
            tutti_status status = wait_position(lane, r, tti_position_at(lane, phase));
            if (status != TUTTI_OK) {
                return status;
            }
        }
    }
    return TUTTI_OK;
}
