/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the timer share. */
#ifndef TESTS_UNIT_CORE_ASYNC_TIMER_SUPPORT_H
#define TESTS_UNIT_CORE_ASYNC_TIMER_SUPPORT_H

#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "core/async/timer.h"

#define WAIT_LIMIT (30 * INT64_C(1000000000)) /* limit for events that must come; a test that reaches it has failed */

static inline void wait_for(atomic_int *value, int least)
{
    int64_t until = tti_now_ns() + WAIT_LIMIT;
    while (atomic_load(value) < least) {
        if (tti_now_ns() > until) {
            abort();
        }
        sched_yield();
    }
}

#endif
