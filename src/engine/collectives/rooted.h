/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of spans between a root and the other ranks: rooted.c has the protocol. */
#ifndef TTI_ENGINE_ROOTED_H
#define TTI_ENGINE_ROOTED_H

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

/* Sets all numbers for `bytes` bytes, and `slots` slots in each span. */
void tti_stream_cut(const struct tti_lane *lane, struct tti_stream *s, size_t bytes, size_t slots);

/* Runs the call of a rank that writes and whose data `reader` (-1: all others) reads. Returns when its last span is
 * staged; waits for readers only before it uses a span again. */
tutti_status tti_stream_write(struct tti_lane *lane, const struct tti_stream *s, int reader);
/* Runs the call of a leaf that reads the root / of a root that reads all leaves. */
tutti_status tti_stream_read_root(struct tti_lane *lane, const struct tti_stream *s);
tutti_status tti_stream_read_leaves(struct tti_lane *lane, const struct tti_stream *s);

#endif
