/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_BENCH_BESIDE_RATIO_H
#define TOOLS_BENCH_BESIDE_RATIO_H

#include "bench/measure/measure.h"

/* Compares the samples of two sets, which must be the slowest rank's and still in the order of the iterations. False
 * when memory is exhausted. */
bool tti_bench_ratio_of(const int64_t *tutti, int tutti_batch, const int64_t *other, int other_batch, int count,
                        struct tti_bench_ratio *ratio);

#endif
