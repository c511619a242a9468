/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rings between two ranks, in the sender's segment: slots, and a ring of bytes.
 *
 * A record is a slot with its own number; the first record of a message describes it. A chunk of up to TTI_SLOT_BODY
 * bytes is sent in its slot, a larger one in the ring of bytes: in its window, or in all of it if the message is long.
 * The receiver publishes how much it has read, an eighth of a window at a time. Cost: one hop for a small message; for
 * a large one 4n bytes, copied in and out at the same time but for the first and the last chunk, and a hop for each
 * chunk.
 */
#ifndef TTI_ENGINE_P2P_RINGS_RINGS_H
#define TTI_ENGINE_P2P_RINGS_RINGS_H

#include "engine/p2p/types.h"

/* How often a receiver publishes what it has read: so often in all slots, and in a window. After messages of a whole
 * window in chunks of an eighth, there is room for the next one. */
#define TTI_REPORTS_PER_SLOTS  4u
#define TTI_REPORTS_PER_WINDOW 8u

/* The words that `owner` publishes for `peer`. */
static inline struct tti_pair_control *tti_pair(const struct tti_engine *e, int owner, int peer)
{
    return (struct tti_pair_control *)(e->segments[owner] + e->layout.pairs + (size_t)peer * TTI_LINE);
}

static inline unsigned char *tti_rings(const struct tti_engine *e, int owner, int peer)
{
    return e->segments[owner] + e->layout.rings + (size_t)peer * e->layout.ring_stride;
}

/* Shifted by rank, so that the slots which a rank polls in many segments lie in different cache sets. */
static inline struct tti_slot *tti_slot(const struct tti_engine *e, int owner, int peer, uint64_t number)
{
    return (struct tti_slot *)tti_rings(e, owner, peer) + (number + (uint64_t)owner) % TTI_SLOTS;
}

/* Whether the record with this number is there. */
static inline bool tti_slot_has(const struct tti_slot *slot, uint64_t number)
{
    /* acquire: pairs with the release of tti_publish in put() of the sender, which has written the record and its
     * bytes */
    return atomic_load_explicit(&slot->number, memory_order_acquire) == number;
}

static inline unsigned char *tti_ring(const struct tti_engine *e, int owner, int peer)
{
    return tti_rings(e, owner, peer) + TTI_SLOTS * sizeof(struct tti_slot);
}

static inline uint64_t tti_p2p_eager_bytes(uint64_t bytes)
{
    return bytes < TTI_EAGER ? bytes : TTI_EAGER;
}

#endif
