/* SPDX-License-Identifier: BSD-3-Clause */
/* The two threads of a measurement, what they share, and what they measure; private to calibrate.c and calibrate_times.c. */
#ifndef TTI_CALIBRATE_MEASUREMENT_H
#define TTI_CALIBRATE_MEASUREMENT_H

#include <sched.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "engine/tuning/calibrate.h"

#define TTI_MEASUREMENT_LINE   128u /* two cache lines, which some CPUs fetch together */
#define TTI_MEASUREMENT_MEMORY ((size_t)4 << 20)
#define TTI_MEASUREMENT_CHUNKS 16
#define TTI_MEASUREMENT_WAKES  8
#define TTI_MEASUREMENT_POLLS  256 /* between two looks at the clock */

struct tti_measurement {
    struct {
        _Alignas(TTI_MEASUREMENT_LINE) _Atomic uint64_t word; /* release by its thread, acquire by the other */
    } lines[2];
    /* thread 1 sleeps on it; release by thread 0, acquire by thread 1 */
    _Alignas(TTI_MEASUREMENT_LINE) _Atomic uint32_t wake_word;
    _Alignas(TTI_MEASUREMENT_LINE) _Atomic int stop; /* relaxed: the time is over */
    _Alignas(
        TTI_MEASUREMENT_LINE) uint64_t numbers[TTI_MEASUREMENT_LINE / 8]; /* of exchanges, one each, by its thread */
    int64_t woke_ns[TTI_MEASUREMENT_WAKES];    /* written by thread 1 before an exchange, read by thread 0 after it */
    int64_t copied_ns[TTI_MEASUREMENT_CHUNKS]; /* likewise */
    int64_t deadline_ns;
    int cpus[TTI_CALIBRATE_CPUS];
    int partners; /* 0, 1 or 2 of cpus[1], cpus[2] */
    bool pinned;
    unsigned char *memory;       /* TTI_MEASUREMENT_MEMORY */
    struct tti_profile *profile; /* thread 0's until both have ended */
};

/* What follows is inline because the calls would be measured, too. */

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

static inline void tti_measurement_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Waits until the other thread has come to exchange `number`; false when the time is over. */
static inline bool tti_measurement_await(struct tti_measurement *m, int other, uint64_t number, bool yields)
{
    for (unsigned looks = 1; atomic_load_explicit(&m->lines[other].word, memory_order_acquire) < number; looks++) {
        if (yields) {
            sched_yield();
        } else {
            tti_measurement_pause();
        }
        if (looks % (yields ? 8 : TTI_MEASUREMENT_POLLS) == 0 && tti_measurement_over(m)) {
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

/* Binds the calling thread. */
bool tti_measurement_pin(int cpu);

/* ---- calibrate_times.c: each writes down what thread 0 has measured; the others are false when the time is over ---- */

/* An exchange with the partner, a CPU by its number in m->cpus, and copying what it has written. */
bool tti_calibrate_partner(struct tti_measurement *m, int me, int partner);
/* Thread 0 alone: inside the second-level cache, from memory and past the caches, yielding. */
void tti_calibrate_alone(struct tti_measurement *m);
/* Waking the other thread, which is asleep already. */
bool tti_calibrate_wakes(struct tti_measurement *m, int me);
/* Yielding to each other, both on one CPU. */
void tti_calibrate_switches(struct tti_measurement *m, int me);

#endif
