/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the ledger_*.c programs share. They prove the rows of docs/requirements.md: each uses the functions that a row names
 * so that replacing one of them by a function that only returns OK makes the program fail; scripts/check_ledger.py does
 * that replacement.
 */
#ifndef LEDGER_SUPPORT_H
#define LEDGER_SUPPORT_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

/* Long enough for a slow machine; it passes only when something is broken. */
#define LEDGER_TIMEOUT_MS 8000

static atomic_int ledger_failures;
static atomic_int ledger_ranks_run;

static inline void ledger_expect(bool good, const char *what, const char *file, int line)
{
    if (!good) {
        printf("%s:%d: failed: %s\n", file, line, what);
        atomic_fetch_add_explicit(&ledger_failures, 1, memory_order_relaxed); /* read after the threads are joined */
    }
}
#define EXPECT(condition) ledger_expect((condition), #condition, __FILE__, __LINE__)

static inline DLTensor ledger_tensor(void *data, const int64_t *count, tutti_dtype dtype)
{
    /* Written out, so that the collectives are proved independently of tutti_tensor_1d. */
    static const DLDataType types[TUTTI_DTYPE_COUNT] = {
        [TUTTI_F64] = {kDLFloat, 64, 1}, [TUTTI_F32] = {kDLFloat, 32, 1}, [TUTTI_I32] = {kDLInt, 32, 1},
        [TUTTI_I64] = {kDLInt, 64, 1},   [TUTTI_U8] = {kDLUInt, 8, 1},
    };
    return (DLTensor){
        .data = data, .device = {kDLCPU, 0}, .ndim = 1, .dtype = types[dtype], .shape = (int64_t *)(uintptr_t)count};
}

/* Runs `function` on threads and checks that it really ran on each; every rank function begins with ledger_ran(). */
static inline void ledger_ran(void)
{
    atomic_fetch_add_explicit(&ledger_ranks_run, 1, memory_order_relaxed); /* read after the threads are joined */
}

static inline void ledger_on_threads(int32_t ranks, tutti_rank_function function, void *user)
{
    tutti_error error;
    memset(&error, 0, sizeof(error));
    atomic_store(&ledger_ranks_run, 0);
    tutti_status status = tutti_run_threads(ranks, function, user, &error);
    if (status != TUTTI_OK) {
        printf("tutti_run_threads(%d): %s\n", ranks, error.message);
    }
    EXPECT(status == TUTTI_OK);
    EXPECT(atomic_load(&ledger_ranks_run) == ranks);
}

/* Waits until another thread has set *flag; the end of patience is a failure, not a hang. */
static inline bool ledger_await(atomic_int *flag)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t end = now.tv_sec + LEDGER_TIMEOUT_MS / 1000;
    while (!atomic_load(flag) && now.tv_sec < end) {
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return atomic_load(flag) != 0;
}

/* Waits for an operation, gives its handle back, and forgets it: a start that does nothing leaves NULL for the next. */
static inline tutti_status ledger_end(tutti_work **work)
{
    tutti_status status = tutti_work_wait(*work, TUTTI_FOREVER);
    EXPECT(tutti_work_release(*work) == TUTTI_OK);
    *work = NULL;
    return status;
}

static inline int ledger_result(void)
{
    int failures = atomic_load(&ledger_failures);
    printf("%d failed\n", failures);
    return failures == 0 ? 0 : 1;
}

#endif
