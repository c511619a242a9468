/* SPDX-License-Identifier: BSD-3-Clause */
/* The state that the two threads of a measurement share. */
#ifndef TTI_ENGINE_TUNING_MEASUREMENT_H
#define TTI_ENGINE_TUNING_MEASUREMENT_H

#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/wait/backoff.h"
#include "engine/tuning/cpus.h"

#define TTI_MEASUREMENT_LINE   128u /* two cache lines: some CPUs fetch pairs */
#define TTI_MEASUREMENT_MEMORY ((size_t)4 << 20)
#define TTI_MEASUREMENT_CHUNKS 16
#define TTI_MEASUREMENT_WAKES  8
#define TTI_MEASUREMENT_POLLS  256 /* between two reads of the clock */

struct tti_measurement {
    struct {
        _Alignas(TTI_MEASUREMENT_LINE) _Atomic uint64_t word; /* release by its thread, acquire by the other */
    } lines[2];
    /* thread 1 sleeps on it; release by thread 0, acquire by thread 1 */
    _Alignas(TTI_MEASUREMENT_LINE) _Atomic uint32_t wake_word;
    _Alignas(TTI_MEASUREMENT_LINE) _Atomic int stop;                           /* relaxed: the deadline has passed */
    _Alignas(TTI_MEASUREMENT_LINE) uint64_t numbers[TTI_MEASUREMENT_LINE / 8]; /* exchanges of each thread */
    int64_t woke_ns[TTI_MEASUREMENT_WAKES];    /* written by thread 1 before an exchange, read by thread 0 after it */
    int64_t copied_ns[TTI_MEASUREMENT_CHUNKS]; /* likewise */
    int64_t deadline_ns;
    int cpus[TTI_CPUS_CHOSEN];
    int partners; /* 0, 1 or 2 of cpus[1], cpus[2] */
    bool pinned;
    unsigned char *memory;       /* TTI_MEASUREMENT_MEMORY */
    struct tti_profile *profile; /* written by thread 0 only */
};

/* Inline, so that no call is measured. */

static inline bool tti_measurement_over(struct tti_measurement *m)
{
    if (atomic_load_explicit(&m->stop, memory_order_relaxed) != 0) {
        return true;
    }
    if (tti_now_ns() >= m->deadline_ns) {
        atomic_store_explicit(&m->stop, 1, memory_order_relaxed);
        return true;
    }
    return false;
}

/* Waits until the other thread has reached exchange `number`; false at the deadline. */
static inline bool tti_measurement_await(struct tti_measurement *m, int other, uint64_t number, bool yields)
{
    for (unsigned polls = 1; atomic_load_explicit(&m->lines[other].word, memory_order_acquire) < number; polls++) {
        if (yields) {
            sched_yield();
        } else {
            tti_backoff();
        }
        if (polls % (yields ? 8 : TTI_MEASUREMENT_POLLS) == 0 && tti_measurement_over(m)) {
            return false;
        }
    }
    return true;
}

static inline bool tti_measurement_exchange(struct tti_measurement *m, int me, bool yields)
{
    const uint64_t number = ++m->numbers[(size_t)me * 8];
    atomic_store_explicit(&m->lines[me].word, number, memory_order_release);
    return tti_measurement_await(m, 1 - me, number, yields);
}

#endif
