/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared by the files of `tutti bench overlap`.
 *
 * A step is a computation and the all_reduce of gradients, of equal length. The forms are ways to run the two; each is
 * measured in every round, one after the other.
 */
#ifndef TTI_BENCH_OVERLAP_OVERLAP_H
#define TTI_BENCH_OVERLAP_OVERLAP_H

#include "bench/bench.h"
#include "bench/measure/samples.h"

struct json_t;

struct tti_overlap_result {
    struct tti_bench_times time;
    double ideal_us; /* the lower bound, from the medians of computing and communicating alone */
    double over_max; /* median over the longer of these two */
    int64_t wrong;
};

/* The whole run, after b was made ready; json NULL = not wanted. True if everything was measured and no result was
 * wrong. */
bool tti_overlap_run(struct tti_bench *b, struct json_t *json);

#endif
