/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The liveness monitor: one thread in each process that has groups between processes. When the process ends, the kernel
 * marks its segments, and the monitors of its peers see that.
 */
#ifndef TTI_ENGINE_FAILURE_LIVENESS_MONITOR_H
#define TTI_ENGINE_FAILURE_LIVENESS_MONITOR_H

#include <stdbool.h>

#include "engine/memory/layout.h"

struct tti_engine;

/* From now on the kernel marks this segment when the process ends. The segment is the caller's own, and no peer has it
 * yet. Starts the monitor. False if it cannot start: then peers find the end of this process in /proc. */
bool tti_liveness_register(struct tti_segment_header *own);
/* Once for each registered segment: after `left` was set, and before the segment is unmapped. The last one ends the
 * monitor. */
void tti_liveness_unregister(struct tti_segment_header *own);

/* Watches the engine's peers until unwatch returns: a death fails the group. `covering`: an engine with the same homes
 * (lane.h) of at least these ranks, which is watched at least as long; then the monitor sleeps on no further words and
 * is not woken. NULL: there is none. */
void tti_liveness_watch(struct tti_engine *e, struct tti_engine *covering);
void tti_liveness_unwatch(struct tti_engine *e);

#endif
