/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time, and waiting for another thread of the test. */
#ifndef TESTS_CLOCK_H
#define TESTS_CLOCK_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "time_limits.h"

static inline int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline int64_t now_ms(void)
{
    return now_ns() / 1000000;
}

/* Waits until *counter is at least `least`; false after LIMIT_S, so that a test fails and does not hang. */
static inline bool await_count(const _Atomic int *counter, int least)
{
    const int64_t end = now_ms() + 1000 * LIMIT_S;
    while (atomic_load(counter) < least) {
        if (now_ms() >= end) {
            return false;
        }
        sched_yield();
    }
    return true;
}

#endif
