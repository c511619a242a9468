/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The arrival ring: publishing the own arrival, and waiting for those of peers. arrival.c explains how the ring works.
 *
 * The two halves of a small call are inline, because here each instruction is latency: a collective that consists of
 * nothing else, and whose data fit the arrival line, becomes one function.
 */
#ifndef TTI_ENGINE_ARRIVAL_ARRIVAL_H
#define TTI_ENGINE_ARRIVAL_ARRIVAL_H

#include "engine/arrival/mismatch.h"
#include "engine/descriptor.h"
#include "engine/memory/copy.h"
#include "engine/wait/publish.h"
#include "engine/wait/wait.h"

#define TTI_FIRST_LINE (64 - offsetof(struct tti_arrival, payload)) /* bytes of the payload, beside the sequence */

/* ---- waiting for any class of call ------------------------------------------------------------------------------ */

/* Publishes the own arrival with `bytes` of payload. */
tutti_status tti_arrive(struct tti_lane *lane, const void *payload, size_t bytes);

/* Waits for the arrival of one peer / of all peers, and compares the calls. MISMATCH if one calls something else now.
 * If it did so in an earlier call, this call goes on and ends with MISMATCH. The group stays usable. */
tutti_status tti_await_one(struct tti_lane *lane, int peer);
tutti_status tti_await_all(struct tti_lane *lane);

/* tti_await_all for a root that writes. Readers that call the same need its data: if there are any, it goes on for
 * them, waits no longer for the others (lane->mismatched), and ends with MISMATCH. */
tutti_status tti_await_readers(struct tti_lane *lane);

/* An extra round before a rooted call that may be cancelled: all ranks wait for all. CANCELLED if one has cancelled. */
tutti_status tti_agree_on_cancel(struct tti_lane *lane, const tutti_op *op);

/* Whether call number `call`, the current one or the next, can publish its arrival without waiting. */
bool tti_has_credit(struct tti_lane *lane, uint64_t call);

/* Whether all arrivals that the current call waits for are there. */
bool tti_arrivals_complete(const struct tti_lane *lane, const tutti_op *op);

/* Whether a rank that the current call waits for has left without arriving. */
bool tti_laggard_left(const struct tti_lane *lane, const tutti_op *op);

/* ---- the two halves of a small call, inline --------------------------------------------------------------------- */

/* Whether a call can publish its arrival, as far as earlier calls of this rank have found out: its slot was last used
 * by a call that every peer has ended. */
static inline bool tti_has_old_credit(const struct tti_lane *lane, uint64_t call)
{
    return lane->credit + TTI_RING > call;
}

/* Waits until every peer has ended the call whose slot the current call takes. */
tutti_status tti_await_credit(struct tti_lane *lane);

/* Writes data of more than TTI_FIRST_LINE bytes into the line, and into packets if the line is too short. */
void tti_arrival_write(struct tti_lane *lane, struct tti_arrival *line, const unsigned char *payload, size_t bytes);

static_assert(TTI_FIRST_LINE <= 48, "three words of 16 bytes cover it");

/* Copies at most TTI_FIRST_LINE bytes, in words that overlap: without a call, and with few branches. */
static inline void tti_copy_first_line(unsigned char *to, const unsigned char *from, size_t bytes)
{
    if (bytes == sizeof(uint64_t)) { /* one number, or two: the most frequent call that is bound by latency */
        memcpy(to, from, 8);
    } else if (bytes >= 16) {
        memcpy(to, from, 16);
        memcpy(to + (bytes - 16) / 2, from + (bytes - 16) / 2, 16);
        memcpy(to + bytes - 16, from + bytes - 16, 16);
    } else if (bytes > 8) {
        memcpy(to, from, 8);
        memcpy(to + bytes - 8, from + bytes - 8, 8);
    } else if (bytes >= 4) {
        memcpy(to, from, 4);
        memcpy(to + bytes - 4, from + bytes - 4, 4);
    } else if (bytes > 0) {
        to[0] = from[0];
        to[bytes / 2] = from[bytes / 2];
        to[bytes - 1] = from[bytes - 1];
    }
}

static inline void tti_arrival_fill(struct tti_lane *lane, struct tti_arrival *line, const void *payload, size_t bytes)
{
    if (bytes <= TTI_FIRST_LINE) {
        tti_copy_first_line(line->payload, payload, bytes);
    } else {
        tti_arrival_write(lane, line, payload, bytes);
    }
}

/* `lines` is a constant: the call is of the line class. Then lane->sources becomes the own data for this rank. */
static inline tutti_status tti_arrive_now(struct tti_lane *lane, const void *payload, size_t bytes, const bool lines)
{
    const uint64_t call = lane->call;
    if (__builtin_expect(!tti_has_old_credit(lane, call), 0)) {
        tutti_status status = tti_await_credit(lane);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    struct tti_engine *e = lane->engine;
    struct tti_arrival *line = tti_arrival_of(lane, e->rank, call);
    tti_arrival_fill(lane, line, payload, bytes);
    const uint64_t first = lane->descriptor[0];
    const uint64_t second = lane->descriptor[1];
    line->descriptor[0] = first;
    line->descriptor[1] = second;
    line->digest = lane->digest;
    if (lines) {
        lane->sources[e->rank] = line->payload;
        tti_publish_for(e, lane->sleepers, &line->sequence, call);
    } else {
        tti_lane_publish(lane, &line->sequence, call);
    }
    return TUTTI_OK;
}

/* Waits for a peer's arrival in a call of the packets class, and for its packets. */
tutti_status tti_await_packets(struct tti_lane *lane, int peer);

/* `lines` is a constant: the call is of the line class. Then lane->sources become the data of the peers. */
static inline tutti_status tti_await_every_peer(struct tti_lane *lane, const bool lines)
{
    const int rank = lane->engine->rank;
    const int size = lane->engine->size;
    const uint64_t call = lane->call;
    const void **sources = lane->sources;
    unsigned char *const *controls =
        lane->controls; /* in a local: for the compiler, a store into sources might change it */
    uint64_t differences = tti_descriptor_marked(lane->descriptor);
    for (int r = 0; r < size; r++) {
        if (r == rank) {
            continue;
        }
        struct tti_arrival *line = tti_arrival_in(controls, r, call);
        if (lines) {
            sources[r] = line->payload;
        }
        tutti_status status = !lines && lane->class == TTI_CLASS_PACKETS
                                  ? tti_await_packets(lane, r)
                                  : tti_lane_wait(lane, &line->sequence, call, r);
        if (status != TUTTI_OK) {
            return status;
        }
        /* 0 if this call and all calls before it are the same on both ranks */
        differences |= (line->descriptor[0] ^ lane->descriptor[0]) | (line->descriptor[1] ^ lane->descriptor[1]) |
                       (line->digest ^ lane->digest);
    }
    lane->credit = call;
    return __builtin_expect(differences == 0, 1) ? TUTTI_OK : tti_find_difference(lane);
}

/* tti_arrive_and_wait for a call that runs in two steps: the step that lane->half asks for. */
tutti_status tti_arrive_and_wait_half(struct tti_lane *lane, const void *payload, size_t bytes);

/* Publishes the arrival and waits for all, in a call of the line class; then lane->sources are all ranks' data. */
static inline tutti_status tti_arrive_and_wait(struct tti_lane *lane, const void *payload, size_t bytes)
{
    if (__builtin_expect(lane->half != TTI_HALF_BOTH, 0)) {
        return tti_arrive_and_wait_half(lane, payload, bytes);
    }
    const tutti_status status = tti_arrive_now(lane, payload, bytes, true);
    return status == TUTTI_OK ? tti_await_every_peer(lane, true) : status;
}

#endif
