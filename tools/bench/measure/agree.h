/* SPDX-License-Identifier: BSD-3-Clause */
/* Agreements between the ranks. */
#ifndef TOOLS_BENCH_MEASURE_AGREE_H
#define TOOLS_BENCH_MEASURE_AGREE_H

#include "bench/bench.h"

/* Combines int64 numbers of all ranks, in place. False: b->error has the details. */
bool tti_bench_agree(struct tti_bench *b, int64_t *values, int64_t count, tutti_reduce_op op);

#endif
