/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Things that must happen at a time although nobody is waiting: deadlines of operations that are queued, tokens with a
 * limit. One thread for the whole process, started by the first timer, with all signals blocked; it sleeps until the
 * earliest time. A fork leaves the child without timers and without the thread.
 */
#ifndef TTI_CORE_TIMER_H
#define TTI_CORE_TIMER_H

#include <stdint.h>
#include <tutti/status.h>

/* Embedded in what it watches; zero-initialised. Private to timer.c but for `ring`. */
struct tti_timer {
    void (*ring)(
        struct tti_timer
            *timer); /* on the timer's thread, without locks; may set and stop other timers, and set itself again */
    int64_t due_ns;  /* CLOCK_MONOTONIC; TTI_NEVER = not set */
    struct tti_timer *next;
    struct tti_timer *previous;
    int armed;
};

/* Rings at due_ns instead of any earlier setting; a time in the past rings at once. NO_RESOURCE if the thread cannot be started:
 * then the timer is not set. */
tutti_status tti_timer_set(struct tti_timer *timer, int64_t due_ns, tutti_error *error);

/* The same only if it is not set, or set to a later time. */
tutti_status tti_timer_set_earlier(struct tti_timer *timer, int64_t due_ns, tutti_error *error);

/* Afterwards it does not ring, and its function is not running (unless this is called from inside it). */
void tti_timer_stop(struct tti_timer *timer);

/* Ends the thread if no timer is set; by tutti_finalize. */
void tti_timer_shutdown(void);

#endif
