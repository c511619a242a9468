/* SPDX-License-Identifier: BSD-3-Clause */
/* Sending and reading the data of a small call: inline.c. */
#ifndef TTI_ENGINE_ARRIVAL_INLINE_H
#define TTI_ENGINE_ARRIVAL_INLINE_H

#include "engine/arrival/arrival.h"
#include "engine/arrival/class.h"
#include "engine/arrival/packets.h"

/* What a rank has sent; after the wait for its arrival. */
static inline const unsigned char *tti_payload(const struct tti_lane *lane, int rank)
{
    return lane->class == TTI_CLASS_LINE || tti_inline_bytes(lane, lane->op, rank) <= TTI_PAYLOAD
               ? tti_arrival_of(lane, rank, lane->call)->payload
               : tti_unpacked(lane, rank);
}

/* Publishes the arrival of a reduction with its data, and behind them the factor of a PREMUL_SUM. */
tutti_status tti_inline_arrive_scaled(struct tti_lane *lane, const void *data, size_t bytes);

static inline tutti_status tti_inline_arrive(struct tti_lane *lane, const void *data, size_t bytes)
{
    return lane->op->redop == TUTTI_PREMUL_SUM ? tti_inline_arrive_scaled(lane, data, bytes)
                                               : tti_arrive(lane, data, bytes);
}

/* Folds `count` elements from byte `from` of every rank's payload into dst. */
void tti_inline_fold(struct tti_lane *lane, void *dst, size_t from, size_t count);

#endif
