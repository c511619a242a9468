/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Where a rank's time begins, and what becomes of the times of all ranks: a sample lasts until the slowest rank is
 * done, because that is what a program waits for.
 *
 * On one host all ranks read the same clock, so they agree on a moment and start together, awake. A barrier alone will
 * not do: a rank that slept in it comes out tens of microseconds after the others, and the part of a broadcast or
 * scatter that they have done by then is in no rank's time. Elsewhere there are two barriers, because out of the second
 * one most ranks come awake, and each rank's time begins when it has left it.
 */
#include "bench/measure/samples.h"

#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/measure/agree.h"
#include "bench/measure/turns.h"

#define AWAKE_NS 20000 /* before the common start */

bool tti_bench_barrier(struct tti_bench *b, int64_t *start, bool sleeps)
{
    if (b->lead_ns > 0) {
        *start = tti_now_ns() + b->lead_ns;
        const bool good = tti_bench_agree(b, start, 1, TUTTI_MAX);
        const int64_t until = *start - AWAKE_NS;
        if (sleeps && good) {
            const struct timespec moment = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
            clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL);
        }
        if (good) {
            tti_bench_meet(b, *start);
        }
        while (good && tti_now_ns() < *start) {
            if (b->shares_cpu) {
                sched_yield();
            }
        }
        return good;
    }
    bool good = true;
    for (int i = 0; i < 2 && good; i++) {
        good = tutti_barrier(b->control, TUTTI_CALL(.error = &b->error)) == TUTTI_OK;
    }
    *start = tti_now_ns();
    return good;
}

int64_t *tti_bench_samples(const struct tti_bench *b, int set)
{
    return b->samples + (size_t)set * (size_t)b->sample_capacity;
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a;
    const int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The least sample that at least so many percent do not exceed. */
static double percentile_us(const int64_t *sorted, int count, int percent, int batch)
{
    const int rank = (int)(((int64_t)count * percent + 99) / 100);
    return (double)sorted[rank > 0 ? rank - 1 : 0] / batch / 1000;
}

bool tti_bench_slowest(struct tti_bench *b, int set, int count)
{
    return tti_bench_agree(b, tti_bench_samples(b, set), count, TUTTI_MAX);
}

void tti_bench_sum_up(struct tti_bench *b, int set, int count, int batch, struct tti_bench_times *times)
{
    int64_t *samples = tti_bench_samples(b, set);
    qsort(samples, (size_t)count, sizeof(*samples), compare);
    times->p50_us = percentile_us(samples, count, 50, batch);
    times->p99_us = percentile_us(samples, count, 99, batch);
    times->min_us = percentile_us(samples, count, 0, batch);
    times->max_us = percentile_us(samples, count, 100, batch);
}

bool tti_bench_times_of(struct tti_bench *b, int set, int count, int batch, struct tti_bench_times *times)
{
    const bool good = tti_bench_slowest(b, set, count);
    if (good) {
        tti_bench_sum_up(b, set, count, batch, times);
    }
    return good;
}
