/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the tests of the heap between processes: sums that are checked. */
#ifndef TESTS_MULTI_HEAP_HEAP_SUPPORT_H
#define TESTS_MULTI_HEAP_HEAP_SUPPORT_H

#include <stdint.h>

#include "multi/expect.h"

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
    const size_t rank = (size_t)tutti_group_rank(g);
    for (size_t i = 0; i < count; i++) {
        data[i] = (float)(i % 1000 + rank);
    }
    check_sum_of(g, data, data, (int64_t)count);
}

#endif
