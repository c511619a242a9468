/* SPDX-License-Identifier: BSD-3-Clause */
/* Expectations that count what failed. */
#ifndef TESTS_MULTI_EXPECT_H
#define TESTS_MULTI_EXPECT_H

#include <stdio.h>
#include <string.h>
#include <tutti/backend.h>
#include <tutti/tutti.h>

static int failures;
static tutti_error err;

static inline void expect_that(int ok, int line, const char *text)
{
    if (!ok) {
        fprintf(stderr, "line %d: %s: %s \"%s\"\n", line, text, tutti_status_name(err.status), err.message);
        failures++;
    }
}

#define EXPECT(condition) expect_that((condition), __LINE__, #condition)
#define EXPECT_OK(call)   expect_that((call) == TUTTI_OK, __LINE__, #call)

/* The call, which fills err, fails with this status, and its sentence contains this text. */
#define EXPECT_ERROR(want, word, call)                                                                                 \
    expect_that((call) == (want) && err.status == (want) && strstr(err.message, (word)) != NULL, __LINE__,             \
                #call " gives " #want)

#endif
