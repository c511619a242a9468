/* SPDX-License-Identifier: BSD-3-Clause */
/* Start functions for the tests of tutti_run_with_deadline, tutti_run_with_limit and events. `user` points to an
 * int32_t, where one is used. */
#ifndef TESTS_API_ASYNC_START_FUNCTIONS_H
#define TESTS_API_ASYNC_START_FUNCTIONS_H

#include "api/check.h"

static const int64_t start_one = 1;

static inline tutti_status start_sum(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    DLTensor t = tutti_tensor_1d(user, &start_one, TUTTI_I32);
    return tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, call, work);
}

/* The same in another lane: options may be copied and changed. */
static inline tutti_status start_sum_beside(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    tutti_call options = *call;
    options.lane = 1;
    return start_sum(g, &options, user, work);
}

/* MISMATCH on all ranks. */
static inline tutti_status start_mismatch(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    DLTensor t = tutti_tensor_1d(user, &start_one, tutti_group_rank(g) == 0 ? TUTTI_I32 : TUTTI_F32);
    return tutti_all_reduce_async(g, &t, &t, TUTTI_SUM, call, work);
}

static inline tutti_status fail_to_start(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)user;
    return tutti_all_reduce_async(g, NULL, NULL, TUTTI_SUM, call, work);
}

static inline tutti_status start_and_release(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    tutti_status status = start_sum(g, call, user, work);
    EXPECT_OK(tutti_work_release(*work));
    return status;
}

static inline tutti_status start_barrier(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)user;
    return tutti_barrier_async(g, call, work);
}

/* For calls that are refused before they start anything. */
static inline tutti_status start_never(tutti_group *g, const tutti_call *call, void *user, tutti_work **work)
{
    (void)g;
    (void)call;
    (void)user;
    (void)work;
    EXPECT(!"reached");
    return TUTTI_INTERNAL;
}

#endif
