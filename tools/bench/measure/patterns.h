/* SPDX-License-Identifier: BSD-3-Clause */
/* Tutti's calls: one collective, or a pattern of several operations. */
#ifndef TOOLS_BENCH_MEASURE_PATTERNS_H
#define TOOLS_BENCH_MEASURE_PATTERNS_H

#include "bench/bench.h"
#include "bench/measure/collectives.h"

/* The call that is timed, on b->group. */
tutti_status tti_bench_call(const struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call);
/* The asynchronous form: starts, waits, and gives the handle back; *submit_ns, unless NULL, gets the time that starting
 * took. */
tutti_status tti_bench_call_async(struct tti_bench *b, struct tti_bench_tensors *t, const tutti_call *call,
                                  int64_t *submit_ns);
/* What one reading of the clock takes, and is part of each submit_ns. */
int64_t tti_bench_clock_ns(void);
/* The rank that this rank receives from, in messages; -1 if it has no partner. */
int tti_bench_source(const struct tti_bench *b);

#endif
