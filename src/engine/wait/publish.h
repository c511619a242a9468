/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishing a word, waking the ranks that sleep on it, and the alarm. publish.c explains the protocol.
 *
 * A channel is a lane's index, or layout.lanes for messages. For each publisher and channel the doorbell has a mask
 * with a bit for each rank that sleeps on words of that publisher.
 */
#ifndef TTI_ENGINE_WAIT_PUBLISH_H
#define TTI_ENGINE_WAIT_PUBLISH_H

#include "engine/lane.h"

/* The alarm word: it changes when a rank fails, dies or leaves. All ranks share it. */
static inline _Atomic uint32_t *tti_alarm(const struct tti_engine *e)
{
    return (_Atomic uint32_t *)e->doorbell;
}

/* How many threads of all ranks may sleep, each on the alarm, too. A rank that has died asleep stays counted, which
 * costs system calls. */
static inline _Atomic uint32_t *tti_alarm_sleepers(const struct tti_engine *e)
{
    return (_Atomic uint32_t *)(e->doorbell + TTI_ALARM_SLEEPERS_OFFSET);
}

/* Changes the alarm word and wakes every rank that sleeps. */
void tti_raise_alarm(const struct tti_engine *e);

/* The mask of sleepers of a publisher's channel. */
_Atomic uint64_t *tti_sleepers(const struct tti_engine *e, int publisher, int channel);

/* Registers this process for barriers on its CPUs; false if the kernel has no such barriers. */
bool tti_membarrier_register(void);
/* Sets e->barriers: all ranks have registered. */
void tti_membarrier_detect(struct tti_engine *e);
/* Runs a barrier on every CPU that runs a rank, if e->barriers. */
void tti_membarrier(const struct tti_engine *e);

/* After `word` was stored: reads the mask of sleepers, and wakes them. */
void tti_wake_sleepers(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word);

/* Wakes the threads that sleep on a word that this process writes. */
void tti_wake_own(const struct tti_engine *e, _Atomic uint32_t *word);

/* tti_publish_for where sleepers run no barriers, or one mask does not have all ranks. */
void tti_publish_fenced(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word,
                        uint64_t value);

/* Stores a value that other ranks may wait for, where sleepers run barriers. True: some sleep on words of this rank. */
static inline bool tti_publish_unfenced(const _Atomic uint64_t *sleepers, _Atomic uint64_t *word, uint64_t value)
{
    /* release: pairs with the waiters' acquire loads */
    atomic_store_explicit(word, value, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* orders the compiler; the sleeper's barrier orders the CPU */
    /* seq_cst: pairs with the fetch_or in tti_sleep, through the sleeper's barrier */
    return __builtin_expect(atomic_load_explicit(sleepers, memory_order_seq_cst) != 0, 0);
}

/* Stores a value that other ranks may wait for, and wakes those that sleep on it. */
static inline void tti_publish_for(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word,
                                   uint64_t value)
{
    if (__builtin_expect(!e->publishes_unfenced, 0)) {
        tti_publish_fenced(e, sleepers, word, value);
        return;
    }
    if (tti_publish_unfenced(sleepers, word, value)) {
        tti_wake_sleepers(e, sleepers, word);
    }
}

/* The same for a word of this rank on a channel. */
void tti_publish(const struct tti_engine *e, int channel, _Atomic uint64_t *word, uint64_t value);

/* The same in a large call. From time to time it measures how long the store takes (lane->publish_ticks). */
void tti_lane_publish_large(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value);

static inline void tti_lane_publish(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value)
{
    if (lane->class == TTI_CLASS_LARGE) {
        tti_lane_publish_large(lane, word, value);
    } else {
        tti_publish_for(lane->engine, lane->sleepers, word, value);
    }
}

/* Measures the same at the beginning of some large calls, since a call may publish no positions: in some calls each
 * rank reads another rank's line, in others it changes its own. */
void tti_probe_distance(struct tti_lane *lane, size_t bytes);

/* Adds a time to a running average, which begins at 0. The first time does not count: it is of memory that is touched
 * for the first time. A time far above the average counts as an interrupt. */
#define TTI_AVERAGE_OPEN (-1.0) /* the average after the first time */
void tti_average(double *average, double ticks);

#endif
