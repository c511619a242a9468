/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Everything that peers compare with numbers of the group's calls and messages begins at 0 again: what the first two
 * pages have, the arrivals, the progress, the packets, the words and the slots of messages. Stages and rings of bytes
 * hold data only. Only what the last group has used is written: most groups make few calls, and the lines that peers
 * have read cost most.
 */
#include "engine/memory/reset.h"

#include <string.h>

#include "engine/failure/agreement.h"

static void reset_packets(struct tti_packet *packets)
{
    for (size_t i = 0; i < TTI_PACKETS; i++) {
        if (atomic_load_explicit(&packets[i].sequence, memory_order_relaxed) != 0) { /* as below */
            memset(&packets[i], 0, sizeof(packets[i]));
        }
    }
}

static void reset_lane(struct tti_lane_control *control, int rank)
{
    uint64_t calls = 0;
    for (size_t slot = 0; slot < TTI_RING; slot++) {
        struct tti_arrival *line = (struct tti_arrival *)(control->ring + slot * TTI_LINE);
        /* relaxed: this rank alone has written it, and its calls have ended */
        const uint64_t call = atomic_load_explicit(&line->sequence, memory_order_relaxed);
        calls = call > calls ? call : calls;
        if (call != 0) {
            memset(line, 0, sizeof(*line));
        }
    }
    for (uint64_t call = 1; call <= calls && call <= TTI_RING; call++) {
        reset_packets(control->packets + (call + (uint64_t)rank) % TTI_RING * TTI_PACKETS);
    }
    memset(control->progress + ((size_t)rank * TTI_LINE) % TTI_PAGE, 0, sizeof(struct tti_progress));
}

void tti_segment_reset(unsigned char *segment, const struct tti_layout *layout, int rank)
{
    memset(segment, 0, sizeof(struct tti_segment_header));
    memset(segment + TTI_SPLIT_OFFSET, 0, TTI_SPLITS * sizeof(struct tti_split));
    memset(segment + layout->fault, 0, sizeof(struct tti_fault));
    memset(segment + layout->fault + TTI_AGREEMENT_OFFSET, 0, sizeof(struct tti_agreement_page));
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
