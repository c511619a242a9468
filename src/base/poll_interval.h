/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting in turns: who waits for other ranks to come to a meeting place looks between the turns whether they still can. Mostly
 * they come within milliseconds, and a death shall be told as soon: a turn takes a quarter of what has been waited, between
 * `least_ms` and four milliseconds. Who has waited for a second waits for somebody who computes, and need not look so often.
 */
#ifndef TTI_BASE_PATIENCE_H
#define TTI_BASE_PATIENCE_H

#include <stdbool.h>

#include "base/clock.h"

#define TTI_POLL_MIN_MS   1
#define TTI_POLL_EAGER_MS 4
#define TTI_POLL_EAGER_NS INT64_C(1000000000)
#define TTI_POLL_MAX_MS   100

struct tti_poll_interval {
    int64_t begun_ns;
    int64_t deadline_ns;
    int64_t least_ms;
    bool last; /* the turn that tti_poll_interval_next_ms has begun ends at the deadline */
};

static inline struct tti_poll_interval tti_poll_interval_until(int64_t deadline_ns, int64_t least_ms)
{
    return (struct tti_poll_interval){.begun_ns = tti_now_ns(), .deadline_ns = deadline_ns, .least_ms = least_ms};
}

/* How long the next turn may take. */
static inline int64_t tti_poll_interval_next_ms(struct tti_poll_interval *p)
{
    const int64_t waited_ns = tti_now_ns() - p->begun_ns;
    const int64_t quarter_ms = waited_ns / 4000000;
    const int64_t turn_ms = waited_ns >= TTI_POLL_EAGER_NS   ? TTI_POLL_MAX_MS
                            : quarter_ms < p->least_ms       ? p->least_ms
                            : quarter_ms > TTI_POLL_EAGER_MS ? TTI_POLL_EAGER_MS
                                                             : quarter_ms;
    const int64_t left_ms = tti_remaining_ms(p->deadline_ns);
    p->last = left_ms >= 0 && left_ms <= turn_ms;
    return p->last ? left_ms : turn_ms;
}

#endif
