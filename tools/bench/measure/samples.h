/* SPDX-License-Identifier: BSD-3-Clause */
/* Times. Where a bool is returned, false means that b->error has the details. */
#ifndef TOOLS_BENCH_MEASURE_SAMPLES_H
#define TOOLS_BENCH_MEASURE_SAMPLES_H

#include "bench/bench.h"

struct tti_bench_times {
    double p50_us;
    double p99_us;
    double min_us;
    double max_us;
};

/* Waits until all ranks are there; *start becomes the moment from which this rank's time counts. `sleeps`: the rank
 * sleeps until shortly before that moment, so that threads of a library get its CPU; else it spins. */
bool tti_bench_barrier(struct tti_bench *b, int64_t *start, bool sleeps);
/* The samples of set number `set`, in nanoseconds. */
int64_t *tti_bench_samples(const struct tti_bench *b, int set);
/* Gives each sample the value of the slowest rank. */
bool tti_bench_slowest(struct tti_bench *b, int set, int count);
/* Sums up samples of `batch` calls each, and sorts them. */
void tti_bench_sum_up(struct tti_bench *b, int set, int count, int batch, struct tti_bench_times *times);
/* Both together. The same on every rank. */
bool tti_bench_times_of(struct tti_bench *b, int set, int count, int batch, struct tti_bench_times *times);

#endif
