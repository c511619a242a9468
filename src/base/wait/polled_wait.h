/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting for other ranks in slices, with a poll for failures after each slice: see polled_wait.c. */
#ifndef TTI_BASE_WAIT_POLLED_WAIT_H
#define TTI_BASE_WAIT_POLLED_WAIT_H

#include <stdbool.h>
#include <stdint.h>
#include <tutti/status.h>

#define TTI_POLL_MIN_MS   1
#define TTI_POLL_EAGER_MS 4

struct tti_polled_wait {
    /* Waits for at most one slice. TIMEOUT: not yet, and the wait goes on. Every other status ends it. */
    tutti_status (*attempt)(void *user, int64_t slice_ms, tutti_error *error);
    /* Called after an attempt that is TIMEOUT or PEER_LEFT. OK: the wait is still worth it; else the cause, which is
     * the result then. *error is never NULL. */
    tutti_status (*poll)(void *user, tutti_error *error);
    void *user;
    int64_t min_slice_ms; /* no slice is shorter */
};

/* The first slices of a wait in a group of so many ranks: all of them poll, so each polls less often. */
int64_t tti_poll_interval_ms(int64_t least_ms, int32_t ranks);

/* The status of the last attempt, TIMEOUT at the deadline, or the cause that a poll has found. `error` may be NULL. */
tutti_status tti_wait_polling(const struct tti_polled_wait *wait, int64_t deadline_ns, tutti_error *error);

/* The poll that follows an attempt with this status. True: it has found the cause, which replaces *status and *error.
 * A cause of the same status without a suspect does not replace an *error with one. */
bool tti_poll_cause(const struct tti_polled_wait *wait, tutti_status *status, tutti_error *error);

#endif
