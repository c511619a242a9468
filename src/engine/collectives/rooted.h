/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams of spans between a root and the other ranks: rooted.c has the protocol. */
#ifndef TTI_ENGINE_COLLECTIVES_ROOTED_H
#define TTI_ENGINE_COLLECTIVES_ROOTED_H

#include "engine/collectives/stream.h"

/* Sets all numbers for `bytes` bytes, and `slots` slots in each span. */
void tti_stream_cut(const struct tti_lane *lane, struct tti_stream *s, size_t bytes, size_t slots);

/* Runs the call of a rank that writes and whose data `reader` (-1: all others) reads. Returns when its last span is
 * staged; waits for readers only before it uses a span again. */
tutti_status tti_stream_write(struct tti_lane *lane, const struct tti_stream *s, int reader);
/* Runs the call of a leaf that reads the root / of a root that reads all leaves. */
tutti_status tti_stream_read_root(struct tti_lane *lane, const struct tti_stream *s);
tutti_status tti_stream_read_leaves(struct tti_lane *lane, const struct tti_stream *s);

#endif
