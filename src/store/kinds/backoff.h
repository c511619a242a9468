/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for what nobody announces: a server that is not there yet, a file on another host. */
#ifndef TTI_STORE_PAUSE_H
#define TTI_STORE_PAUSE_H

#include <poll.h>
#include <stdbool.h>

#include "base/clock.h"

#define TTI_BACKOFF_MAX_MS 10

/* Sleeps before the next attempt, longer from time to time; *pause_ms begins as 0. False if the deadline has passed. */
static inline bool tti_backoff(int *pause_ms, int64_t deadline_ns)
{
    int64_t left = tti_remaining_ms(deadline_ns);
    if (left == 0) {
        return false;
    }
    int longer = *pause_ms == 0 ? 1 : *pause_ms * 2;
    *pause_ms = longer < TTI_BACKOFF_MAX_MS ? longer : TTI_BACKOFF_MAX_MS;
    poll(NULL, 0, left > 0 && left < *pause_ms ? (int)left : *pause_ms);
    return true;
}

#endif
