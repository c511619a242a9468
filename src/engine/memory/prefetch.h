/* SPDX-License-Identifier: BSD-3-Clause */
/* The lines of the span that the next call will write: requested before it comes. */
#ifndef TTI_ENGINE_MEMORY_PREFETCH_H
#define TTI_ENGINE_MEMORY_PREFETCH_H

#include "engine/lane.h"

/* Bytes of a call: fewer lines come while they are written; more take longer than the stores gain. */
#define TTI_PREFETCH_FROM 2048
#define TTI_PREFETCH_MOST 8192

/* Whether a call that stages `bytes` stages them in the small ring, they are as many, and each rank has a CPU. Where
 * there is a ring for far readers (on Zen 3) it does not pay. */
static inline bool tti_prefetch_pays(const struct tti_lane *lane, size_t bytes)
{
    return bytes >= TTI_PREFETCH_FROM && bytes <= TTI_PREFETCH_MOST && lane->stage == &lane->rings[TTI_RING_SMALL] &&
           !tti_stage_has_far(lane) && lane->engine->ranks_per_cpu <= 1;
}

/* Before the first span: notes whether the program has paused since the call before. */
void tti_prefetch_note_pause(struct tti_lane *lane);

/* Behind the last span: requests the lines of the next call, of the same size, if calls come with pauses. */
void tti_prefetch_request(struct tti_lane *lane, size_t bytes);

#endif
