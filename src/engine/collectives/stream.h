/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream of spans between a root and the other ranks: rooted.c runs it. */
#ifndef TTI_ENGINE_COLLECTIVES_STREAM_H
#define TTI_ENGINE_COLLECTIVES_STREAM_H

#include "engine/lane.h"

/* A rooted call in spans of `stride` bytes, each with `chunk` bytes of the call's data (for scatter: of every part). */
struct tti_stream {
    const tutti_op *op;
    size_t bytes; /* of the data */
    size_t chunk;
    size_t stride;
    size_t steps;
    size_t room;   /* spans that the writer can acquire without waiting for readers in this call, at least */
    size_t report; /* a reader publishes its position at least once in so many spans */
    bool small;    /* see tti_stage_begin */
    /* Fills the own span k. */
    void (*pack)(struct tti_lane *lane, const struct tti_stream *s, size_t k, unsigned char *span);
    /* Reads span k of one peer, or, if NULL, take_all reads span k of all leaves together. */
    void (*take)(struct tti_lane *lane, const struct tti_stream *s, size_t k, int peer);
    void (*take_all)(struct tti_lane *lane, const struct tti_stream *s, size_t k);
    /* Copies chunk k of the root's own part to its place, where the root would wait otherwise. NULL: nothing to
     * copy. */
    void (*own)(struct tti_lane *lane, const struct tti_stream *s, size_t k);
    /* Copies the first n bytes of a peer's exposed tensor at once. NULL: tti_run_zero_copy does the call if all
     * expose. */
    tutti_status (*pull)(struct tti_lane *lane, const struct tti_stream *s, int peer, size_t n);
    /* Copies this rank's data, from byte `from` on, to a peer's exposed output at once. NULL: the peer pulls all. */
    tutti_status (*push)(struct tti_lane *lane, const struct tti_stream *s, int peer, size_t from);
};

/* Copies the root's own chunks [from, end). */
static inline void tti_stream_copy_own(struct tti_lane *lane, const struct tti_stream *s, size_t from, size_t end)
{
    for (size_t k = from; s->own && k < end && k < s->steps; k++) {
        s->own(lane, s, k);
    }
}

#endif
