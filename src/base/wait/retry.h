/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exponential backoff between attempts, for what sends no event: a server that does not listen yet, a file of another
 * host. The pause doubles from 1 ms to TTI_RETRY_MAX_MS.
 */
#ifndef TTI_BASE_WAIT_RETRY_H
#define TTI_BASE_WAIT_RETRY_H

#include <poll.h>
#include <stdbool.h>

#include "base/clock.h"

#define TTI_RETRY_MAX_MS 10

/* Sleeps before the next attempt. *pause_ms is 0 before the first one. False, without sleep: the deadline has
 * passed. */
static inline bool tti_retry_sleep(int *pause_ms, int64_t deadline_ns)
{
    int64_t left = tti_remaining_ms(deadline_ns);
    if (left == 0) {
        return false;
    }
    int longer = *pause_ms == 0 ? 1 : *pause_ms * 2;
    *pause_ms = longer < TTI_RETRY_MAX_MS ? longer : TTI_RETRY_MAX_MS;
    poll(NULL, 0, left > 0 && left < *pause_ms ? (int)left : *pause_ms);
    return true;
}

#endif
