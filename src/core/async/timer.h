/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers: functions that run at a time although no thread of the application waits. They serve deadlines of queued
 * operations and tokens with a limit. One thread for the whole process runs them, with all signals blocked; the first
 * timer starts it. A child of a fork has no such thread, and no timer is set there.
 */
#ifndef TTI_CORE_ASYNC_TIMER_H
#define TTI_CORE_ASYNC_TIMER_H

#include <stdatomic.h>
#include <stdint.h>
#include <tutti/status.h>

/* Embedded in the object that it is about; zero-initialised. Private to timer.c but for `notify`. */
struct tti_timer {
    /* On the timer's thread, without locks. The timer is not set any more: this may set it again, set and stop others,
     * and free what the timer is embedded in. */
    void (*notify)(struct tti_timer *timer);
    _Atomic int64_t due_ns; /* CLOCK_MONOTONIC; 0 = not set */
    struct tti_timer *next;
    struct tti_timer *previous;
};

/* Notifies at due_ns instead of at a time set before: at once if due_ns is past, never for TTI_NEVER. NO_RESOURCE: the
 * thread cannot be started, and the timer is not set. */
tutti_status tti_timer_set(struct tti_timer *timer, int64_t due_ns, tutti_error *error);

tutti_status tti_timer_set_earlier_slow(struct tti_timer *timer, int64_t due_ns, tutti_error *error);

/* The same only if the timer is not set, or set to a later time; otherwise the cost is one load. The next notification
 * sees what the caller did before this call, if both do it under one lock. */
static inline tutti_status tti_timer_set_earlier(struct tti_timer *timer, int64_t due_ns, tutti_error *error)
{
    /* If this reads a time, the notification of that time is still to come: take_out stores 0 before it. Suppose that
     * the caller has changed something under a lock that the function takes, too. Had the function taken it first, this
     * would read 0; so the function takes it later and sees the change. seq_cst on both sides gives the same to callers
     * and functions that use seq_cst atomics instead of a lock. */
    const int64_t current = atomic_load_explicit(&timer->due_ns, memory_order_seq_cst);
    return current != 0 && current <= due_ns ? TUTTI_OK : tti_timer_set_earlier_slow(timer, due_ns, error);
}

/* Afterwards the timer is not set and its function is not running: this waits for it, unless called from inside it. The
 * caller must hold no lock that the function takes. */
void tti_timer_stop(struct tti_timer *timer);

/* Ends the thread if no timer is set; by tutti_finalize. Waits for a function that is running, unless called from
 * inside. */
void tti_timer_shutdown(void);

#endif
