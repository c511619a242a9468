/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stage of a lane, and the position that each rank publishes in a call: stage.c.
 *
 * A writer: tti_stage_begin, then for each span tti_stage_acquire, fill it, tti_stage_stamp, tti_advance. A reader:
 * tti_stage_shape, unless it writes, too; after tti_attributes_one, for each span tti_await_span, then tti_stage_peer.
 */
#ifndef TTI_ENGINE_MEMORY_STAGE_H
#define TTI_ENGINE_MEMORY_STAGE_H

#include "engine/lane.h"

/* Divides the lane's memory into its rings, once. */
void tti_stage_prepare(struct tti_lane *lane);

/* A call that stages no more, or all_gather twice as much in two steps, is small (measured, Zen 5:
 * docs/decisions/0043). Rooted calls, which follow one another without waiting, as many as a ring holds, have limits in
 * the tuning. */
#define TTI_SMALL_EXCHANGE ((size_t)64 << 10)

/* Before the arrival: sets the size of this call's spans, chooses a ring, and makes it usable. A `small` call takes the
 * small ring, if there is one and it holds TTI_STAGE_SPANS of its spans. The call publishes `phases` phases at most.
 * Without memory, or with more than positions can count, it returns OK with *resource_error, and the call goes on to
 * its arrival. A status that is not OK ends the call: the group has failed. */
tutti_status tti_stage_begin(struct tti_lane *lane, size_t stride, size_t phases, bool small,
                             tutti_status *resource_error);

/* The same for a rank that only reads. */
void tti_stage_shape(struct tti_lane *lane, size_t stride);

/* The place of this rank's own first span. */
static inline uint64_t tti_stage_place(const struct tti_lane *lane)
{
    return lane->stage->base + (lane->stage->first & (lane->stage->ring - 1));
}

/* Sets the place of a peer's first span (lane->starts), after checking it. Prepares its ring for the first read. */
void tti_stage_start(struct tti_lane *lane, int peer, uint64_t place);

/* Whether that place is in the peer's ring for far readers, which is written past the caches. */
bool tti_stage_peer_is_far(const struct tti_lane *lane, int peer);

/* Span number `index` of this call, free for writing. A call acquires its spans in order. */
tutti_status tti_stage_acquire(struct tti_lane *lane, size_t index, unsigned char **span);

/* A span of this call that is acquired. */
unsigned char *tti_stage_own(const struct tti_lane *lane, size_t index);

/* The span acquired last has been read by `reader` (-1: every peer) when that rank's position reaches `phase` of this
 * call. TTI_PHASE_NEXT: when it has arrived at the next call. A second stamp of a span replaces the first. */
void tti_stage_stamp(struct tti_lane *lane, uint64_t phase, int reader);

/* Span `index` of a peer, for reading. */
const unsigned char *tti_stage_peer(const struct tti_lane *lane, int peer, size_t index);

/* Waits until the peer has published `phase`, so that its span `index` is there. The arrival covers span 0, unless the
 * peer exposes its tensors: such a peer stages only when it knows that others do not expose theirs. */
tutti_status tti_await_span(struct tti_lane *lane, int peer, size_t index, uint64_t phase);

/* Where span 0 of the next call begins, if its spans are as long as those of this one, and the bytes from there to the
 * end of the ring. */
unsigned char *tti_stage_next(const struct tti_lane *lane, size_t *room);

/* Spans of that size that a writer can hold at least, whichever ring it chooses: one less if a gap lies between them.
 * No fewer than TTI_STAGE_SPANS. */
size_t tti_stage_spans(const struct tti_lane *lane, size_t stride, bool small);

/* Publishes how far this rank is in the call. */
void tti_advance(struct tti_lane *lane, uint64_t phase);
/* Waits until one peer / all peers are that far. */
tutti_status tti_wait_phase(struct tti_lane *lane, int peer, uint64_t phase);
tutti_status tti_wait_phase_all(struct tti_lane *lane, uint64_t phase);

#endif
