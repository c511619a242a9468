/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the tests in this folder. The ranks are threads of tutti_run_threads, or the processes of a job
 * (api/job.h). When an expectation fails, it prints and counts, and the rank continues. main returns test_result().
 */
#ifndef TESTS_API_CHECK_H
#define TESTS_API_CHECK_H

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tutti.h>

#include "api/job.h"
#include "time_limits.h"

static _Atomic int test_failures;

static inline void test_fail(const char *file, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    atomic_fetch_add_explicit(&test_failures, 1, memory_order_relaxed);
}

static inline int test_result(void)
{
    tutti_error error;
    if (job_backend() && tutti_finalize(&error) != TUTTI_OK) {
        test_fail(__FILE__, __LINE__, error.message);
    }
    int failures = atomic_load_explicit(&test_failures, memory_order_relaxed);
    if (failures > 0) {
        fprintf(stderr, "%d expectations failed\n", failures);
    }
    return failures > 0;
}

static inline void test_status(const char *file, int line, const char *text, tutti_status got, tutti_status want,
                               const tutti_error *error, const char *word)
{
    char what[900];
    if (got != want) {
        snprintf(what, sizeof(what), "%s: got %s, expected %s%s%s", text, tutti_status_name(got),
                 tutti_status_name(want), error ? ": " : "", error ? error->message : "");
        test_fail(file, line, what);
    } else if (error && (error->status != want || !strstr(error->message, word ? word : ""))) {
        snprintf(what, sizeof(what), "%s: the error (%s) does not name \"%s\": %s", text,
                 tutti_status_name(error->status), word, error->message);
        test_fail(file, line, what);
    }
}

#define EXPECT(condition) ((condition) ? (void)0 : test_fail(__FILE__, __LINE__, "expected " #condition))

#define EXPECT_OK(call) test_status(__FILE__, __LINE__, #call, (call), TUTTI_OK, NULL, NULL)

/* The call fails with `want`, and error.message, which it fills, contains `word`. */
#define EXPECT_ERROR(error, want, word, call) test_status(__FILE__, __LINE__, #call, (call), (want), (error), (word))

/* Runs the ranks; failures outside of them count, too. */
static inline void test_ranks(int32_t ranks, tutti_rank_function function)
{
    tutti_error error;
    tutti_status status =
        job_backend() ? job_run(ranks, function, NULL, &error) : tutti_run_threads(ranks, function, NULL, &error);
    test_status(__FILE__, __LINE__, "the ranks", status, TUTTI_OK, status == TUTTI_OK ? NULL : &error, "");
}

/* After an error that the group survives, its all_reduce must still work: 1 + 2 + ... + n on every rank. */
static inline void test_still_works(const char *file, int line, tutti_group *group)
{
    int64_t one = 1;
    int32_t n = tutti_group_size(group);
    int32_t value = tutti_group_rank(group) + 1;
    DLTensor t = tutti_tensor_1d(&value, &one, TUTTI_I32);
    tutti_error error;
    tutti_status status =
        tutti_all_reduce(group, &t, &t, TUTTI_SUM, TUTTI_CALL(.error = &error, .timeout_ms = LONG_MS));
    test_status(file, line, "all_reduce afterwards", status, TUTTI_OK, &error, "");
    if (status == TUTTI_OK && value != n * (n + 1) / 2) {
        test_fail(file, line, "all_reduce afterwards gives a wrong sum");
    }
}

#define EXPECT_USABLE(group) test_still_works(__FILE__, __LINE__, (group))

#endif
