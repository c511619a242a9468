/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_BENCH_TOOL_H
#define TTI_BENCH_TOOL_H

#include "bench/options.h"

struct argp_state;

/* Parses a number; ends the program if `text` is no number within the bounds. */
int64_t tti_bench_number(struct argp_state *state, const char *option, const char *text, int64_t minimum,
                         int64_t maximum);
/* Measures as a rank of the job. Without a job, starts ranks: threads, or processes with these arguments (closed by
 * NULL) after `tutti bench`. Returns the exit code. */
int tti_bench_start(struct tti_bench_options *options, char **words);

#endif
