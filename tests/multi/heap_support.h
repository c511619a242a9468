/* SPDX-License-Identifier: BSD-3-Clause */
/* What the tests of the heap between processes share: expectations that count, and sums that are checked. */
#ifndef TESTS_MULTI_HEAP_SUPPORT_H
#define TESTS_MULTI_HEAP_SUPPORT_H

#include <stdint.h>
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

/* The call, which fills err, fails so and says that word. */
#define EXPECT_ERROR(want, word, call)                                                                                 \
    expect_that((call) == (want) && err.status == (want) && strstr(err.message, (word)) != NULL, __LINE__,             \
                #call " gives " #want)

/* in[i] is i % 1000 + rank on every rank. */
static inline void check_sum_of(tutti_group *g, float *in, float *out, int64_t count)
{
    int32_t n = tutti_group_size(g);
    DLTensor source = tutti_tensor_1d(in, &count, TUTTI_F32);
    DLTensor target = tutti_tensor_1d(out, &count, TUTTI_F32);
    EXPECT_OK(tutti_all_reduce(g, &source, &target, TUTTI_SUM, TUTTI_CALL(.error = &err)));
    int64_t wrong = 0;
    for (int64_t i = 0; i < count; i++) {
        wrong += out[i] != (float)(i % 1000 * n + n * (n - 1) / 2);
    }
    EXPECT(wrong == 0);
}

/* The same in place. */
static inline void check_sum(tutti_group *g, void *memory, size_t count)
{
    float *data = memory;
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)(i % 1000 + (size_t)tutti_group_rank(g));
    }
    check_sum_of(g, data, data, (int64_t)count);
}

#endif
