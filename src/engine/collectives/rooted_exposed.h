/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams whose tensors other ranks can reach: rooted_exposed.c has the protocol. */
#ifndef TTI_ENGINE_COLLECTIVES_ROOTED_EXPOSED_H
#define TTI_ENGINE_COLLECTIVES_ROOTED_EXPOSED_H

#include "engine/collectives/stream.h"

#define TTI_PUSHED_FROM ((size_t)24576) /* bytes of a part; the root of a gather pulls shorter ones sooner itself */

/* A leaf of a gather, which has arrived. The root pulls its tensor, unless it lets the leaves push. */
tutti_status tti_exposed_leaf(struct tti_lane *lane, const struct tti_stream *s, int root);
/* The root of a gather of which all expose their tensors lets the leaves push. */
tutti_status tti_exposed_gather(struct tti_lane *lane, const struct tti_stream *s);
/* The root of a gather pulls the first n bytes of each leaf that exposes its tensor. */
tutti_status tti_exposed_pull_leaves(struct tti_lane *lane, const struct tti_stream *s, size_t n);
/* The root of a broadcast of two ranks pushes its share, if the leaf exposes its output. */
tutti_status tti_exposed_help_leaf(struct tti_lane *lane, const struct tti_stream *s);
/* A leaf of a broadcast or scatter whose root exposes its tensor. */
tutti_status tti_exposed_read_root(struct tti_lane *lane, const struct tti_stream *s, int root);

#endif
