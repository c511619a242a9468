/* SPDX-License-Identifier: BSD-3-Clause */
/* What the ranks tell one another in a call: what they called, where their data lie, how far they have come. */
#ifndef TTI_ENGINE_PROTOCOL_H
#define TTI_ENGINE_PROTOCOL_H

#include "base/clock.h"
#include "engine/collectives/descriptor.h"
#include "engine/failure/peers.h"
#include "engine/wait/wait.h"

/* ---- arrival.c: the arrival ring --------------------------------------------------------------------------------------- */

/* What a call that is not inline tells beside its descriptor: all of it fits the cache line of the sequence. */
struct tti_attributes {
    uint32_t mark;  /* tutti_status: this rank cannot take part */
    uint32_t start; /* place of its first span in its stage, in units of 64 bytes */
    double scale;
    uint64_t input; /* of the tensors that it exposes: see direct.c */
    uint64_t output;
};

/* Puts the own arrival into the ring, with `bytes` of payload. */
tutti_status tti_arrive(struct tti_lane *lane, const void *payload, size_t bytes);
tutti_status tti_arrive_staged(struct tti_lane *lane, uint32_t mark);

/* Whether the current call, or the next one, can put its arrival into the ring without waiting. */
bool tti_has_credit(struct tti_lane *lane, uint64_t call);

/* Whether the current call will not have to wait for an arrival. */
bool tti_arrivals_complete(const struct tti_lane *lane, const tutti_op *op);

/* Whether a rank that the current call waits for has left without arriving. */
bool tti_laggard_left(const struct tti_lane *lane, const tutti_op *op);

/* For rooted calls that may be cancelled: a round in which everybody hears whether somebody does not want to. */
tutti_status tti_agree_on_cancel(struct tti_lane *lane, const tutti_op *op);

/* Waits for the arrival of one peer / of all, and compares the calls: MISMATCH if one has called something else. If that was
 * in an earlier call, this one goes on, and ends with MISMATCH. The group stays usable. */
tutti_status tti_await_one(struct tti_lane *lane, int peer);
tutti_status tti_await_all(struct tti_lane *lane);

/* tti_await_all for a root that writes. Readers that have called the same rely on it, so it goes on for them while there are
 * any, waits for the others no more (lane->mismatched), and ends with MISMATCH. */
tutti_status tti_await_readers(struct tti_lane *lane);

/* Whether a rank has called something else in this call, so that it will never do what is expected here. */
static inline bool tti_is_mismatched(const struct tti_lane *lane, int rank)
{
    return __builtin_expect(lane->has_mismatched, 0) && lane->mismatched[rank];
}

/* This rank knows that the others have called something else than it has: it will not report that. */
void tti_mark_all_reported(struct tti_lane *lane);

/* After await: the peer's attributes (checked; fills lane->starts and lane->scales). */
tutti_status tti_attributes_one(struct tti_lane *lane, int peer);
tutti_status tti_attributes_all(struct tti_lane *lane);
tutti_status tti_attributes_as_root(struct tti_lane *lane, bool others_wait);

/* ---- stage.c: what peers shall read -------------------------------------------------------------------------------------- */

/* Divides the lane's memory into its two rings, once. */
void tti_stage_prepare(struct tti_lane *lane);

/* Says how large the spans of this call are; before it arrives. Makes the stage usable: if there is no memory for it, the call
 * goes on with *mark as its mark. What it returns otherwise ends the call: the group has failed meanwhile. */
tutti_status tti_stage_begin(struct tti_lane *lane, size_t stride, tutti_status *mark);

/* Takes the place of a peer's first span from its arrival: lane->starts. */
void tti_stage_start(struct tti_lane *lane, int peer, uint64_t place);

/* The place of this rank's own first span. */
static inline uint64_t tti_stage_place(const struct tti_lane *lane)
{
    return lane->stage.base + (lane->stage.first & (lane->stage.ring - 1));
}

/* Whether this call's spans lie in the ring for readers that are far away. */
static inline bool tti_stage_is_far(const struct tti_lane *lane)
{
    return lane->stage.base != 0;
}

/* tti_stage_begin for a rank that only reads. */
void tti_stage_shape(struct tti_lane *lane, size_t stride);

/* Span number `index` of this call, free for writing. Spans are taken in order. */
tutti_status tti_stage_acquire(struct tti_lane *lane, size_t index, unsigned char **span);

/* A span of this call that has been acquired. */
unsigned char *tti_stage_own(const struct tti_lane *lane, size_t index);

/* The span acquired last will have been read by `reader` (-1 = every peer) when its position reaches `phase` of this call,
 * or TTI_PHASE_NEXT: when it has arrived at the next call. Said again, it replaces what was said before. */
void tti_stage_stamp(struct tti_lane *lane, uint64_t phase, int reader);

/* The same span of a peer, to read; after tti_attributes. */
const unsigned char *tti_stage_peer(const struct tti_lane *lane, int peer, size_t index);

/* Waits until the peer has published `phase`: its span `index` is there. Its arrival has said so of span 0, unless it exposes
 * its tensors: then it did not know yet whether it has to stage at all. */
tutti_status tti_await_span(struct tti_lane *lane, int peer, size_t index, uint64_t phase);

/* Spans that a call surely can acquire without waiting for others in the same call. */
size_t tti_stage_room(const struct tti_lane *lane);

/* Tells the others how far this rank has come in the call / waits until peers have come that far. */
void tti_advance(struct tti_lane *lane, uint64_t phase);
tutti_status tti_wait_phase(struct tti_lane *lane, int peer, uint64_t phase);
tutti_status tti_wait_phase_all(struct tti_lane *lane, uint64_t phase);

/* ---- direct.c: the zero-copy class ---------------------------------------------------------------------------------------- */

/* Whether this call may go without staging: a function of call, bytes and group only, so that all ranks decide alike. */
bool tti_is_direct(const struct tti_lane *lane, const tutti_op *op);

/* Before the arrival: finds out whether what others need of this rank's tensors can be reached (lane->exposed), and how
 * they are told (lane->input, lane->output). */
void tti_expose(struct tti_lane *lane, const tutti_op *op);

/* After it: what a peer told (fills lane->inputs and lane->outputs); whether that suffices, from one / from all. */
tutti_status tti_locate(struct tti_lane *lane, int peer, uint64_t input, uint64_t output);

/* The call has ended: it uses nothing any more that it has located. */
void tti_release_heap(struct tti_lane *lane);
bool tti_exposes_all_needed(const struct tti_lane *lane, int rank);
static inline bool tti_exposes(const struct tti_lane *lane, int rank)
{
    return lane->named && tti_exposes_all_needed(lane, rank);
}
bool tti_all_expose(const struct tti_lane *lane);

/* The way of a call that stages nothing, as far as this rank's own tensors tell. */
enum tti_algorithm tti_algorithm_in_place(const struct tti_lane *lane);

/* When all expose: this rank's share of the work, and the end that all wait for. Not for broadcast, gather and scatter. */
tutti_status tti_run_direct(struct tti_lane *lane, const tutti_op *op);

/* Copies a part of a peer's tensor to a joined or compact place of this rank; NULL parts mean compact. If the kernel does it,
 * that is the call's way. */
tutti_status tti_pull(struct tti_lane *lane, int peer, void *dst, const tutti_parts *dst_parts, int dst_rank,
                      const void *src, const tutti_parts *src_parts, int src_rank, size_t bytes);

/* ---- single_copy.c: private memory of other processes ----------------------------------------------------------------------------- */

#define TTI_SINGLE_COPY_NAME  (UINT64_C(1) << 63) /* marks the name of a tensor as an address in its owner's process */
#define TTI_SINGLE_COPY_CHUNK ((size_t)1 << 20)

/* What others need to find out whether they can read this process / whether this rank can read all others, for them to see. */
void tti_single_copy_offer(struct tti_segment_header *header);
void tti_single_copy_detect(struct tti_engine *e);
/* Whether all have said that they can read all others. Who does not know it yet does without, and nothing hangs on when a rank
 * learns it. */
bool tti_single_copy_all_can(struct tti_engine *e);
/* Whether this rank wants its private tensors to be read like that / whether a peer may want it. */
bool tti_single_copy_wanted(struct tti_lane *lane, const tutti_op *op);
bool tti_single_copy_allowed(const struct tti_lane *lane);
/* Whether others read this rank's tensors like that in this call. */
bool tti_single_copy_offered(const struct tti_lane *lane);
/* Reads n bytes at src in the peer's process, into the bytes from `from` on of a part, or of dst if parts is NULL. */
tutti_status tti_single_copy_read(struct tti_lane *lane, int peer, void *dst, const tutti_parts *parts, int rank,
                                  size_t from, const unsigned char *src, size_t n);
/* The name of private memory of this rank, 0 if it cannot have one / whether that may be the name of so many bytes. */
uint64_t tti_single_copy_name(const void *memory, uint64_t bytes);
bool tti_single_copy_is_name(uint64_t name, uint64_t bytes);
/* Reads n bytes from where a peer's name points. False, and dst undefined, if the kernel does not want to. */
bool tti_single_copy_fetch(const struct tti_engine *e, int peer, void *dst, uint64_t name, size_t n);

/* ---- intent.c: touching another rank's tensor ------------------------------------------------------------------------------ */

#define TTI_INTENT_BYTES   65536u   /* at most so much is touched between tti_intent_begin and tti_intent_end */
#define TTI_INTENT_WAIT_NS 20000000 /* so long a rank that gives up waits for the end of another process's chunk */

/* Whether there is no use in waiting for the end of a rank's chunk until `until_ns`. A thread always comes to it. */
static inline bool tti_chunk_is_lost(const struct tti_engine *e, int rank, int64_t until_ns)
{
    return !e->direct && (tti_known_dead(e, rank) || tti_now_ns() >= until_ns);
}

/* Around each chunk. Fails if the group has failed. */
tutti_status tti_intent_begin(struct tti_lane *lane);
void tti_intent_end(struct tti_lane *lane);

/* Before a call returns an error, after the alarm has been rung: from now on nobody touches this rank's tensors. */
void tti_await_intents(struct tti_lane *lane);

#endif
