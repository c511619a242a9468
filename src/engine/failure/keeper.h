/* SPDX-License-Identifier: BSD-3-Clause */
/* The keeper: a thread that every process with groups between processes has, once. Peers learn from its end that the process
 * has ended, and it learns so of theirs. */
#ifndef TTI_ENGINE_KEEPER_H
#define TTI_ENGINE_KEEPER_H

#include <stdbool.h>

#include "engine/memory/layout.h"

struct tti_engine;

/* From now on the kernel marks this segment, which is the caller's own and not yet handed over, when this process ends.
 * Starts the keeper; false if that is not possible: then others have to look for this process. */
bool tti_keeper_own(struct tti_segment_header *own);
/* For each time that it was true: when `left` has been set, before the segment is unmapped. The last one ends the keeper. */
void tti_keeper_disown(struct tti_segment_header *own);

/* The engine's peers are watched: a death fails the group. Until unwatch has returned. */
void tti_keeper_watch(struct tti_engine *e);
void tti_keeper_unwatch(struct tti_engine *e);

/* Whether the kernel has marked the segment of a process that has not left before. */
bool tti_keeper_died(const struct tti_segment_header *header);

#endif
