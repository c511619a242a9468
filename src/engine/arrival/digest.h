/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The digest: a sum over the calls of a lane in which not all ranks compare all calls; mismatch.c explains its use.
 * Ranks that call the same add the same. So the difference of two ranks' digests shows that they called different
 * things, and it stays the same while they call the same again. Cost: one 64 x 64 bit multiplication for each such
 * call.
 */
#ifndef TTI_ENGINE_ARRIVAL_DIGEST_H
#define TTI_ENGINE_ARRIVAL_DIGEST_H

#include "engine/lane.h"

__extension__ typedef unsigned __int128 tti_product;

/* What a call adds. */
static inline uint32_t tti_digest_of(uint64_t call, uint64_t first, uint64_t second)
{
    const tti_product h =
        (tti_product)(first ^ UINT64_C(0xbf58476d1ce4e5b9)) * (second ^ call * UINT64_C(0x9e3779b97f4a7c15));
    return (uint32_t)(h >> 64) ^ (uint32_t)(h >> 32);
}

/* At the end of each rooted call, and of a call without a root if another rank has called a rooted one instead. */
static inline void tti_digest_advance(struct tti_lane *lane)
{
    lane->digest += tti_digest_of(lane->call, lane->descriptor[0], lane->descriptor[1]);
}

#endif
