/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_TOOL_H
#define TTI_BENCH_TOOL_H

#include "bench/options.h"

/* Measures as a rank of the job. Without a job, starts ranks: threads, or processes with these arguments (closed by
 * NULL) after `tutti bench`. Returns the exit code. */
int tti_bench_start(struct tti_bench_options *options, char **words);

#endif
