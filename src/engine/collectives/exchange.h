/* SPDX-License-Identifier: BSD-3-Clause */
/* The exchange: in each step all ranks stage a span and read all peers' spans. exchange.c has the protocol. */
#ifndef TTI_ENGINE_COLLECTIVES_EXCHANGE_H
#define TTI_ENGINE_COLLECTIVES_EXCHANGE_H

#include "engine/lane.h"

struct tti_exchange {
    const tutti_op *op;
    size_t stride; /* bytes of a span: what a rank stages in a step */
    size_t steps;
    size_t chunk; /* for the callbacks: bytes of what they cut */
    /* Fills the own span of step k. */
    void (*pack)(struct tti_lane *lane, const struct tti_exchange *x, size_t k, unsigned char *span);
    /* Reads one peer's span of step k, or, if NULL, take_all reads all spans together. */
    void (*take)(struct tti_lane *lane, const struct tti_exchange *x, size_t k, int peer);
    void (*take_all)(struct tti_lane *lane, const struct tti_exchange *x, size_t k);
    /* Runs when all ranks have arrived with the same call, and have to stage. May write outputs, and change `steps` to
     * a value that is the same on all ranks. NULL: nothing. */
    tutti_status (*agreed)(struct tti_lane *lane, struct tti_exchange *x);
};

tutti_status tti_exchange_run(struct tti_lane *lane, struct tti_exchange *x);

/* Bytes of each rank's part in a span that has a slot for every rank: at most `most`, whole cache lines. */
static inline size_t tti_slot_bytes(const struct tti_lane *lane, size_t most)
{
    size_t share = lane->engine->tuning.window / (size_t)lane->engine->size / 64 * 64;
    most = tti_whole_lines(most);
    return most < share ? most : share;
}

#endif
