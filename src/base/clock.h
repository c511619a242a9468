/* SPDX-License-Identifier: BSD-3-Clause */
/* Monotonic time and deadlines. */
#ifndef TTI_BASE_CLOCK_H
#define TTI_BASE_CLOCK_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#define TTI_NEVER INT64_MAX

static inline int64_t tti_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The absolute time `timeout_ms` from now; -1 (for ever) and anything beyond 292 years become TTI_NEVER. */
static inline int64_t tti_deadline_ns(int64_t now_ns, int64_t timeout_ms)
{
    int64_t ns;
    return timeout_ms < 0 || __builtin_mul_overflow(timeout_ms, 1000000, &ns) || __builtin_add_overflow(now_ns, ns, &ns)
               ? TTI_NEVER
               : ns;
}

/* Milliseconds left until the deadline, rounded up; 0 when it has passed, -1 for TTI_NEVER. */
static inline int64_t tti_remaining_ms(int64_t deadline_ns)
{
    if (deadline_ns == TTI_NEVER) {
        return -1;
    }
    int64_t left = deadline_ns - tti_now_ns();
    return left <= 0 ? 0 : (left + 999999) / 1000000;
}

/* The same for poll(2), which may end sooner. */
static inline int tti_poll_ms(int64_t deadline_ns)
{
    const int64_t left = tti_remaining_ms(deadline_ns);
    return left > INT_MAX ? INT_MAX : (int)left;
}

#endif
