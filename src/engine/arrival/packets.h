/* SPDX-License-Identifier: BSD-3-Clause */
/* Data of a small call that do not fit its arrival line: packets.c. */
#ifndef TTI_ENGINE_ARRIVAL_PACKETS_H
#define TTI_ENGINE_ARRIVAL_PACKETS_H

#include "engine/lane.h"

/* A rank's data out of its packets, in memory of this rank. */
static inline unsigned char *tti_unpacked(const struct tti_lane *lane, int rank)
{
    return lane->unpacked + (size_t)rank * TTI_INLINE_MOST;
}

/* Writes the own packets; before the arrival is published. */
void tti_packets_write(struct tti_lane *lane, const void *data, size_t bytes);

/* Waits for a peer's arrival and packets, and unpacks them. */
tutti_status tti_packets_await(struct tti_lane *lane, int peer);

#endif
