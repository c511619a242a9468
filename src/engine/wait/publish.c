/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Publishing: a rank stores a word that other ranks wait for, and wakes those that sleep on it.
 *
 * The publisher stores the word, then reads the mask of sleepers. The sleeper sets its bit in the mask, then reads the
 * word again. One of them must see the other (Dekker's pattern). That takes a full barrier between store and load on
 * both sides. The publisher's barrier would be an exchange, which waits until every earlier store is finished: until
 * all lines of the data have been taken from their readers' caches. That is 30 to 300 ns in each step of each call.
 *
 * Publishing is frequent and sleeping is rare, so the sleeper pays for both (an asymmetric barrier). Between its store
 * and its load it lets the kernel run a barrier on every CPU that runs a rank: membarrier(2).
 *   - If the publisher reads the mask before that barrier, the sleeper sees the word: it was stored before the mask was
 *     read.
 *   - If the publisher reads the mask after that barrier, it finds the sleeper's bit.
 * This needs every rank's registration, which the segments' headers show. It pays if every rank has a CPU
 * (docs/decisions/0020). Otherwise publishers exchange.
 */
#include "engine/wait/publish.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/host/cpu_ticks.h"

_Atomic uint64_t *tti_sleepers(const struct tti_engine *e, int publisher, int channel)
{
    size_t line = 1 + (size_t)publisher * (size_t)(e->layout.lanes + 1) + (size_t)channel;
    return (_Atomic uint64_t *)(e->doorbell + line * TTI_LINE);
}

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

bool tti_membarrier_register(void)
{
    return membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0 &&
           membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED) == 0;
}

void tti_membarrier_detect(struct tti_engine *e)
{
    e->barriers = true;
    for (int r = 0; r < e->size; r++) {
        e->barriers = e->barriers && tti_home(e, r)->barriers != 0;
    }
}

void tti_membarrier(const struct tti_engine *e)
{
    if (e->barriers) { /* cannot fail: it worked when this rank registered */
        membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
    }
}

static void futex_wake_all(const struct tti_engine *e, void *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE | e->futex_private, INT32_MAX, NULL, NULL, 0);
}

void tti_wake_own(const struct tti_engine *e, _Atomic uint32_t *word)
{
    futex_wake_all(e, word);
}

void tti_wake_sleepers(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word)
{
    for (int i = 0; i * 64 < e->size; i++) {
        /* seq_cst: as in tti_publish_for */
        if (atomic_load_explicit(&sleepers[i], memory_order_seq_cst) != 0) {
            futex_wake_all(e, word);
            return;
        }
    }
}

void tti_publish_fenced(const struct tti_engine *e, const _Atomic uint64_t *sleepers, _Atomic uint64_t *word,
                        uint64_t value)
{
    if (e->barriers) {
        /* release, and a fence for the compiler: as in tti_publish_for */
        atomic_store_explicit(word, value, memory_order_release);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        /* seq_cst, and thereby release: pairs with the waiters' acquire loads, and with the fetch_or in tti_sleep */
        atomic_exchange_explicit(word, value, memory_order_seq_cst);
    }
    tti_wake_sleepers(e, sleepers, word);
}

void tti_publish(const struct tti_engine *e, int channel, _Atomic uint64_t *word, uint64_t value)
{
    tti_publish_for(e, tti_sleepers(e, e->rank, channel), word, value);
}

#define SAMPLE_FROM   16384 /* bytes of a span, or of a call: below, a sample costs more than it gains */
#define SAMPLE_EVERY  4
#define SAMPLE_WEIGHT 0.25
#define PROBE_EVERY   8   /* calls of SAMPLE_FROM bytes and more */
#define SAMPLE_MOST   4.0 /* times the average: a longer sample was an interrupt, perhaps */

void tti_average(double *average, double ticks)
{
    const double before = *average;
    const double most = before * SAMPLE_MOST;
    if (before == 0) {
        *average = TTI_AVERAGE_OPEN;
    } else {
        *average = before < 0 ? ticks : before + SAMPLE_WEIGHT * ((ticks < most ? ticks : most) - before);
    }
}

/* Measures how far away the readers are: the exchange has to take the line from the caches of the readers that polled
 * it. Only the line of the position serves. The line of an arrival was polled 32 calls ago, and no cache has it any
 * more. */
static void publish_timed(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value)
{
    const uint64_t before = tti_ticks_after_stores();
    atomic_exchange_explicit(word, value, memory_order_seq_cst); /* as in tti_publish_for */
    tti_average(&lane->publish_ticks, (double)(tti_ticks() - before));
}

void tti_lane_publish_large(struct tti_lane *lane, _Atomic uint64_t *word, uint64_t value)
{
    const bool position = word == tti_position_of(lane, lane->engine->rank);
    if (!position || !tti_stage_has_far(lane) || lane->stage->stride < SAMPLE_FROM ||
        lane->publications++ % SAMPLE_EVERY != 0) {
        tti_publish_for(lane->engine, lane->sleepers, word, value);
        return;
    }
    publish_timed(lane, word, value);
    tti_wake_sleepers(lane->engine, lane->sleepers, word);
}

void tti_probe_distance(struct tti_lane *lane, size_t bytes)
{
    const struct tti_engine *e = lane->engine;
    if (!tti_stage_has_far(lane) || bytes < SAMPLE_FROM) {
        return;
    }
    /* Small calls in between do not count: a line that changes without having been read would seem near. */
    const uint32_t number = lane->probes++;
    const uint32_t step = number % PROBE_EVERY;
    /* relaxed: the values do not matter */
    if (step == 0) {
        const uint64_t ahead = 1 + number / PROBE_EVERY % (uint64_t)(e->size - 1);
        (void)atomic_load_explicit(tti_position_of(lane, (int)(((uint64_t)e->rank + ahead) % (uint64_t)e->size)),
                                   memory_order_relaxed);
    } else if (step == PROBE_EVERY / 2) {
        _Atomic uint64_t *own = tti_position_of(lane, e->rank);
        publish_timed(lane, own, atomic_load_explicit(own, memory_order_relaxed));
    }
}

void tti_raise_alarm(const struct tti_engine *e)
{
    /* Both seq_cst, as in tti_sleep: either a thread that goes to sleep is counted, or it sees the change. The first
     * one pairs with every acquire load, too. */
    atomic_fetch_add_explicit(tti_alarm(e), 1, memory_order_seq_cst);
    if (atomic_load_explicit(tti_alarm_sleepers(e), memory_order_seq_cst) != 0) {
        futex_wake_all(e, tti_alarm(e));
    }
}
