/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The two halves of a small call: arriving, and waiting for everybody's arrival; arrival.c says how the ring works. They are
 * inline because here every instruction is latency: a collective that is made of nothing else, and whose data fit the arrival
 * line, becomes one function.
 */
#ifndef TTI_ENGINE_ARRIVAL_H
#define TTI_ENGINE_ARRIVAL_H

#include <string.h>

#include "engine/collectives/transfer.h"

#define TTI_FIRST_LINE (64 - offsetof(struct tti_arrival, payload)) /* bytes of the payload, beside the sequence */

__extension__ typedef unsigned __int128 tti_product;

/* What a call adds to the digest. Ranks that call the same add the same, so the difference of two ranks' digests tells of
 * calls in which they called something else, and stays what it is while they do not. */
static inline uint32_t tti_digest_of(uint64_t call, uint64_t first, uint64_t second)
{
    const tti_product h =
        (tti_product)(first ^ UINT64_C(0xbf58476d1ce4e5b9)) * (second ^ call * UINT64_C(0x9e3779b97f4a7c15));
    return (uint32_t)(h >> 64) ^ (uint32_t)(h >> 32);
}

/* At the end of each rooted call, and of another one if it met a rooted one. */
static inline void tti_digest_advance(struct tti_lane *lane)
{
    lane->digest += tti_digest_of(lane->call, lane->descriptor[0], lane->descriptor[1]);
}

/* Everybody has ended the call whose slot the current one takes. */
tutti_status tti_await_credit(struct tti_lane *lane);

/* Data of more than TTI_FIRST_LINE bytes. */
void tti_arrival_write(struct tti_lane *lane, struct tti_arrival *line, const unsigned char *payload, size_t bytes);

static inline void tti_arrival_fill(struct tti_lane *lane, struct tti_arrival *line, const void *payload, size_t bytes)
{
    if (bytes == sizeof(uint64_t)) { /* one number, or two: what is latency-bound most often */
        memcpy(line->payload, payload, sizeof(uint64_t));
    } else if (bytes <= TTI_FIRST_LINE) {
        tti_copy(line->payload, payload, bytes);
    } else {
        tti_arrival_write(lane, line, payload, bytes);
    }
}

/* `small` is a constant: the call is not of the large class. */
static inline tutti_status tti_arrive_now(struct tti_lane *lane, const void *payload, size_t bytes, const bool small)
{
    const uint64_t call = lane->call;
    if (__builtin_expect(lane->credit + TTI_RING <= call, 0)) {
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
    if (small) {
        tti_publish_for(e, lane->sleepers, &line->sequence, call);
    } else {
        tti_lane_publish(lane, &line->sequence, call);
    }
    return TUTTI_OK;
}

/* A peer's data that do not fit its arrival line, too. */
tutti_status tti_await_packets(struct tti_lane *lane, int peer);

/* A rank has called something else, now or before, or has cancelled: finds out which. OK if the call can go on. */
tutti_status tti_find_difference(struct tti_lane *lane);

/* `lines` is a constant: the call is of the line class; then lane->sources become all ranks' data. */
static inline tutti_status tti_await_everybody(struct tti_lane *lane, const bool lines)
{
    const int rank = lane->engine->rank;
    const int size = lane->engine->size;
    const uint64_t call = lane->call;
    const uint64_t first = lane->descriptor[0];
    const uint64_t second = lane->descriptor[1];
    const uint32_t before = lane->digest;
    const void **sources = lane->sources;
    unsigned char *const *controls = lane->controls; /* here, since a store into sources might change it, for all the
                                                        compiler knows */
    uint64_t differences = tti_descriptor_marked(lane->descriptor);
    for (int r = 0; r < size; r++) {
        struct tti_arrival *line = tti_arrival_in(controls, r, call);
        if (lines) {
            sources[r] = line->payload;
        }
        if (r == rank) {
            continue;
        }
        tutti_status status = !lines && lane->class == TTI_CLASS_PACKETS
                                  ? tti_await_packets(lane, r)
                                  : tti_lane_wait(lane, &line->sequence, call, r);
        if (status != TUTTI_OK) {
            return status;
        }
        /* its call and all before it were the same as here */
        differences |= (line->descriptor[0] ^ first) | (line->descriptor[1] ^ second) | (line->digest ^ before);
    }
    lane->credit = call;
    return __builtin_expect(differences == 0, 1) ? TUTTI_OK : tti_find_difference(lane);
}

/* The one of them that is wanted now. */
tutti_status tti_arrive_and_wait_half(struct tti_lane *lane, const void *payload, size_t bytes);

/* Both, for a call of the line class; then lane->sources are all ranks' data. */
static inline tutti_status tti_arrive_and_wait(struct tti_lane *lane, const void *payload, size_t bytes)
{
    if (__builtin_expect(lane->half != TTI_HALF_BOTH, 0)) {
        return tti_arrive_and_wait_half(lane, payload, bytes);
    }
    const tutti_status status = tti_arrive_now(lane, payload, bytes, true);
    return status == TUTTI_OK ? tti_await_everybody(lane, true) : status;
}

#endif
