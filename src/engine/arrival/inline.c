/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Small calls: the data are in the arrival, in its line or in the packets beside it. Every rank reads what it
 * needs and folds in rank order. Cost: one cache-line hop; the misses of all lines of all peers overlap.
 */
#include "engine/arrival/inline.h"

#include "engine/memory/fold.h"

tutti_status tti_inline_arrive_scaled(struct tti_lane *lane, const void *data, size_t bytes)
{
    unsigned char payload[TTI_INLINE_MOST];
    tti_copy(payload, data, bytes);
    memcpy(payload + bytes, &lane->op->scale, sizeof(double));
    return tti_arrive(lane, payload, bytes + sizeof(double));
}

static void take_scales(struct tti_lane *lane)
{
    for (int r = 0; r < lane->engine->size; r++) {
        size_t end = tti_inline_bytes(lane, lane->op, r);
        memcpy(&lane->scales[r], tti_payload(lane, r) + end - sizeof(double), sizeof(double));
    }
}

void tti_inline_fold(struct tti_lane *lane, void *dst, size_t from, size_t count)
{
    const int size = lane->engine->size;
    const void **sources = lane->sources;
    if (lane->class == TTI_CLASS_LINE) {
        for (int r = 0; r < size; r++) {
            sources[r] = tti_arrival_of(lane, r, lane->call)->payload + from;
        }
    } else {
        for (int r = 0; r < size; r++) {
            sources[r] = tti_payload(lane, r) + from;
        }
    }
    if (lane->op->redop == TUTTI_PREMUL_SUM) {
        take_scales(lane);
    }
    tti_reduce(lane, dst, count << tti_dtype_shift(lane->op->dtype));
}
