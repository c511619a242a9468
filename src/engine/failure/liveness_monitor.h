/* SPDX-License-Identifier: BSD-3-Clause */
/* The liveness monitor: a thread that every process with groups between processes has, once. Peers learn from its end that the process
 * has ended, and it learns so of theirs. */
#ifndef TTI_ENGINE_LIVENESS_MONITOR_H
#define TTI_ENGINE_LIVENESS_MONITOR_H

#include <stdbool.h>

#include "engine/memory/layout.h"

struct tti_engine;

/* From now on the kernel marks this segment, which is the caller's own and not yet handed over, when this process ends.
 * Starts the liveness monitor; false if that is not possible: then others have to look for this process. */
bool tti_liveness_register(struct tti_segment_header *own);
/* For each time that it was true: when `left` has been set, before the segment is unmapped. The last one ends the liveness monitor. */
void tti_liveness_unregister(struct tti_segment_header *own);

/* The engine's peers are watched: a death fails the group. Until unwatch has returned. */
void tti_liveness_watch(struct tti_engine *e);
void tti_liveness_unwatch(struct tti_engine *e);

/* Whether the kernel has marked the segment of a process that has not left before. */
bool tti_liveness_died(const struct tti_segment_header *header);

#endif
