/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the ledger's programs. They run on two ranks. The first failed expectation ends the rank, and so the job:
 * scripts/check_ledger.py then knows at once that the program notices a missing function.
 */
#ifndef TESTS_MPI_LEDGER_SUPPORT_H
#define TESTS_MPI_LEDGER_SUPPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "call_counter.h"

#define RANKS 2

static inline void ledger_expect(bool good, const char *what, const char *why, const char *file, int line)
{
    if (!good) {
        fprintf(stderr, "FAILED: %s:%d: %s%s%s\n", file, line, what, why ? ": " : "", why ? why : "");
        fflush(stderr);
        _exit(1);
    }
}

#define EXPECT(condition) ledger_expect((condition), #condition, NULL, __FILE__, __LINE__)

/* Each uses the variable `error` of its function. */
#define EXPECT_OK(call) ledger_expect((call) == TUTTI_OK, #call, error.message, __FILE__, __LINE__)
#define EXPECT_STATUS(status, call)                                                                                    \
    ledger_expect((call) == (status), #call " gives " #status, error.message, __FILE__, __LINE__)

/* The only deadline is for messages that MPI must deliver. It is short where a function of MPI is missing on
 * purpose. */
static inline int64_t ledger_limit_ms(void)
{
    return getenv("TUTTI_TEST_PRELOAD") ? 8000 : 60000;
}

/* scripts/check_ledger.py reads it. */
static inline void ledger_say_backend(tutti_group *group)
{
    const char *backend = tutti_group_backend(group);
    EXPECT(backend && strcmp(backend, "mpi") == 0);
    if (tutti_group_rank(group) == 0) {
        printf("on backend %s\n", backend);
        fflush(stdout);
    }
}

/* A group of MPI's that calls the blocking functions. `settings` may be NULL. */
static inline tutti_group *ledger_group(const char *const *settings)
{
    tutti_group *group = NULL;
    tutti_error error = {0};
    EXPECT_OK(tutti_init(TUTTI_CONFIG(.backend = "mpi", .settings = settings), &group, &error));
    EXPECT(tutti_group_size(group) == RANKS);
    ledger_say_backend(group);
    return group;
}

#endif
