/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_MEASURE_ASYNC_H
#define TTI_BENCH_MEASURE_ASYNC_H

#include "bench/bench.h"
#include "bench/measure/collectives.h"

/* Starts, waits, and gives the handle back; *submit_ns, unless NULL, gets the time that starting took. */
tutti_status tti_bench_call_async(struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                  int64_t *submit_ns);
/* What one reading of the clock takes, and is part of each submit_ns. */
int64_t tti_bench_clock_ns(void);

#endif
