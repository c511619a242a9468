/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests of asynchronous messages. The ranks are threads of one process and synchronize by atomics. A
 * defect shows as an expectation that fails when a deadline or the limit below ends, or as the timeout of the test.
 */
#ifndef TESTS_API_MESSAGES_MESSAGES_ASYNC_H
#define TESTS_API_MESSAGES_MESSAGES_ASYNC_H

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <time.h>

#include "api/check.h"
#include "api/collectives/reaches.h"
#include "time_limits.h"

#define NEVER 99 /* a tag that no rank sends */

static const int64_t one = 1;

static inline void reach(_Atomic int *counter)
{
    atomic_fetch_add_explicit(counter, 1, memory_order_release);
}

static inline void land(tutti_work *work, tutti_status want)
{
    EXPECT(tutti_work_wait(work, TUTTI_FOREVER) == want);
    EXPECT_OK(tutti_work_release(work));
}

static inline tutti_status send_value(tutti_group *g, int32_t value, int32_t peer, int32_t tag)
{
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    return tutti_send(g, &t, peer, tag, TUTTI_CALL(.timeout_ms = LONG_MS));
}

static inline void start_receive(tutti_group *g, int32_t *value, int32_t tag, const tutti_call *call, tutti_work **work)
{
    DLTensor t = tutti_tensor_1d(value, &one, TUTTI_I32);
    EXPECT_OK(tutti_recv_async(g, &t, 1, tag, call, NULL, work));
}

enum { MANY = 300 }; /* small messages: more than lie in a ring */

/* What a callback has seen. */
struct recorded {
    _Atomic int calls;
    tutti_status status;
};

static inline void record(tutti_status status, const tutti_error *error, void *user)
{
    struct recorded *recorded = user;
    EXPECT(error->status == status);
    recorded->status = status;
    reach(&recorded->calls);
}

#endif
