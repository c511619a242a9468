/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything that peers compare with numbers of the group's calls and messages begins at 0 again: the first two pages,
 * the arrivals, the progress, the packets, the words and the slots of messages. Stages and rings of bytes hold data
 * only. Packets and slots are large and mostly unused, so only those are written that the last group has used.
 */
#include "engine/memory/reset.h"

#include <string.h>

static void reset_lane(struct tti_lane_control *control, int rank)
{
    uint64_t calls = 0;
    for (size_t slot = 0; slot < TTI_RING; slot++) {
        const struct tti_arrival *line = (const struct tti_arrival *)(control->ring + slot * TTI_LINE);
        /* relaxed: this rank alone has written it, and its calls have ended */
        const uint64_t call = atomic_load_explicit(&line->sequence, memory_order_relaxed);
        calls = call > calls ? call : calls;
    }
    for (uint64_t call = 1; call <= calls && call <= TTI_RING; call++) {
        memset(control->packets + (call + (uint64_t)rank) % TTI_RING * TTI_PACKETS, 0,
               TTI_PACKETS * sizeof(struct tti_packet));
    }
    memset(control->ring, 0, sizeof(control->ring));
    memset(control->progress, 0, sizeof(control->progress));
}

void tti_segment_reset(unsigned char *segment, const struct tti_layout *layout, int rank)
{
    memset(segment, 0, TTI_PAGE);
    memset(segment + layout->fault, 0, TTI_PAGE);
    for (int i = 0; i < layout->lanes; i++) {
        reset_lane((struct tti_lane_control *)(segment + layout->lane) + i, rank);
    }
    for (int peer = 0; peer < layout->size; peer++) {
        struct tti_pair_control *pair = (struct tti_pair_control *)(segment + layout->pairs + (size_t)peer * TTI_LINE);
        if (atomic_load_explicit(&pair->opened, memory_order_relaxed) != 0) {
            memset(segment + layout->rings + (size_t)peer * layout->ring_stride, 0,
                   TTI_SLOTS * sizeof(struct tti_slot));
        }
        memset(pair, 0, sizeof(*pair));
    }
}
