/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits for another thread of a test, with a limit: a test that goes wrong fails instead of hanging. */
#ifndef TESTS_API_COLLECTIVES_REACHES_H
#define TESTS_API_COLLECTIVES_REACHES_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

/* Whether the counter reaches the value within the limit. */
static inline bool reaches(const _Atomic int *counter, int value)
{
    const struct timespec moment = {.tv_nsec = 100000};
    for (int looks = 0; looks < 400000; looks++) {
        if (atomic_load_explicit(counter, memory_order_acquire) >= value) {
            return true;
        }
        if (looks < 1000) {
            sched_yield();
        } else {
            nanosleep(&moment, NULL);
        }
    }
    return false;
}

#endif
