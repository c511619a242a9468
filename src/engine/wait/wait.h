/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for a word of another rank. Order of the rooms: wait < failure < memory < arrival < collectives, p2p.
 *
 * A wait that takes long notices that the alarm has changed, that the publisher has left, that the publisher's number
 * is impossible, or that the deadline has passed. It does not know what these mean. It asks failure/ through a table of
 * functions, which engine.c sets when it creates the engine. A wait that succeeds while it spins calls none of them.
 */
#ifndef TTI_ENGINE_WAIT_WAIT_H
#define TTI_ENGINE_WAIT_WAIT_H

#include "base/wait/yielding.h"
#include "engine/lane.h"

/* Time between two checks whether the awaited rank's process still runs. Liveness monitors notice a death much sooner.
 * But a process may have no monitor, and no monitor notices a core dump. */
#define TTI_LIVENESS_CHECK_NS 100000000

/* What a long wait asks of failure/. Any status but OK ends the wait. */
struct tti_wait_upcalls {
    /* The alarm has changed, or `publisher` has left (-1: it has not). */
    tutti_status (*check)(struct tti_engine *e, struct tti_lane *lane, int publisher, tutti_error *error);
    /* The rank's process may have ended: if so, this changes the alarm. */
    void (*check_peer)(struct tti_engine *e, int rank);
    /* *word has held `held` for long: whether it can, while `target` is awaited. */
    tutti_status (*check_awaited)(struct tti_lane *lane, const _Atomic uint64_t *word, uint64_t held, uint64_t target,
                                  int publisher);
    /* The deadline has passed. */
    tutti_status (*timeout)(struct tti_lane *lane, int publisher);
};

/* A word that `publisher` will change. */
struct tti_awaited {
    _Atomic uint64_t *word;
    int publisher;
};

/* Waits in a collective until *word >= target: spins, yields, sleeps. */
tutti_status tti_lane_wait_slow(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher);

static inline tutti_status tti_lane_wait(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t target, int publisher)
{
    /* acquire: pairs with the release in tti_publish_for; what the publisher wrote before is visible after */
    if (__builtin_expect(atomic_load_explicit(word, memory_order_acquire) >= target, 1)) {
        return TUTTI_OK;
    }
    return tti_lane_wait_slow(lane, word, target, publisher);
}

/* tti_lane_wait for a word that the publisher stores soon after another one, `ahead`: the spin polls `ahead` first. A
 * publisher that runs another call does not store `ahead`. */
tutti_status tti_lane_wait_behind(struct tti_lane *lane, _Atomic uint64_t *ahead, _Atomic uint64_t *word,
                                  uint64_t target, int publisher);

/* Sleeps until one of `count` words may have changed from `seen`, the alarm from alarm_seen, or `own` (may be NULL)
 * from own_seen; at most until `until_ns`, and at most e->sleep_ns. May return early. A change of a word after the
 * first 126 does not end a sleep that has begun. */
void tti_sleep(struct tti_engine *e, int channel, const struct tti_awaited *awaited, const uint64_t *seen, int count,
               uint32_t alarm_seen, _Atomic uint32_t *own, uint32_t own_seen, int64_t until_ns);

/* Yields, in a wait for another rank. False: the wait should sleep. */
bool tti_yield_to_ranks(const struct tti_engine *e, struct tti_yields *yields);

#endif
