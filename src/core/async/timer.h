/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Things that must happen at a time although nobody is waiting: deadlines of operations that are queued, tokens with a
 * limit. One thread for the whole process, started by the first timer, with all signals blocked; it sleeps until the
 * earliest time. A fork leaves the child without the thread, and with all timers not set.
 */
#ifndef TTI_CORE_TIMER_H
#define TTI_CORE_TIMER_H

#include <stdatomic.h>
#include <stdint.h>
#include <tutti/status.h>

/* Embedded in what it watches; zero-initialised. Private to timer.c but for `ring`. */
struct tti_timer {
    /* On the timer's thread, without locks. The timer is not set any more: this may set it again, set and stop others, and
     * free what the timer is embedded in. */
    void (*notify)(struct tti_timer *timer);
    _Atomic int64_t due_ns; /* CLOCK_MONOTONIC; 0 = not set */
    struct tti_timer *next;
    struct tti_timer *previous;
};

/* Rings at due_ns instead of at any time set before; a time in the past rings at once, TTI_NEVER not at all. NO_RESOURCE if
 * the thread cannot be started: then the timer is not set. */
tutti_status tti_timer_set(struct tti_timer *timer, int64_t due_ns, tutti_error *error);

/* The same only if it is not set, or set to a later time; otherwise it costs one look at the timer. The ring that follows
 * sees what the caller did before this call, if both do it under one lock. */
tutti_status tti_timer_set_earlier(struct tti_timer *timer, int64_t due_ns, tutti_error *error);

/* Afterwards it does not ring, and its function is not running: this waits for it, unless called from inside it. The
 * caller must hold no lock that the function takes. */
void tti_timer_stop(struct tti_timer *timer);

/* Ends the thread if no timer is set; by tutti_finalize. Waits for a function that is running, unless called from inside. */
void tti_timer_shutdown(void);

#endif
