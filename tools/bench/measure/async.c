/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The asynchronous form in a program without work in between: start, wait, release the handle. The difference to the
 * synchronous form is the cost of being able to overlap. A program that overlaps pays the start only: it cannot compute
 * before the function has returned.
 */
#include "bench/measure/async.h"

#include "base/clock.h"

#define CLOCK_READINGS 1000

tutti_status tti_bench_call_async(struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                  int64_t *submit_ns)
{
    tutti_work *work = NULL;
    const int64_t before = submit_ns ? tti_now_ns() : 0;
    tutti_status status = tti_check_call(b->group, &t->operation, call, &work);
    if (submit_ns) {
        *submit_ns = tti_now_ns() - before;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    status = tutti_work_wait(work, TUTTI_FOREVER);
    if (status != TUTTI_OK) {
        tutti_work_error(work, &b->error);
    }
    tutti_work_release(work);
    return status;
}

int64_t tti_bench_clock_ns(void)
{
    const int64_t start = tti_now_ns();
    int64_t end = start;
    for (int i = 0; i < CLOCK_READINGS; i++) {
        end = tti_now_ns();
    }
    return (end - start) / CLOCK_READINGS;
}
