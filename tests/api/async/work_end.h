/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a work, as tests wait for it. */
#ifndef TESTS_API_ASYNC_WORK_END_H
#define TESTS_API_ASYNC_WORK_END_H

#include "api/check.h"

/* Waits for the end, and releases the handle. */
static inline tutti_status end(tutti_work *work)
{
    const tutti_status status = tutti_work_wait(work, TUTTI_FOREVER);
    EXPECT_OK(tutti_work_release(work));
    return status;
}

static inline bool has_ended(tutti_work *work)
{
    int32_t ended = -1;
    EXPECT_OK(tutti_work_test(work, &ended));
    return ended == 1;
}

#endif
