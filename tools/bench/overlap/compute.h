/* SPDX-License-Identifier: BSD-3-Clause */
/* A computation of a given length. */
#ifndef TTI_BENCH_OVERLAP_COMPUTE_H
#define TTI_BENCH_OVERLAP_COMPUTE_H

#include "bench/bench.h"

#define TTI_COMPUTE_VALUES 2048 /* 8 KiB: fits every first-level cache, beside what the library needs */

struct tti_compute {
    float values[TTI_COMPUTE_VALUES];
    float factor;
    float summand;
    int64_t passes; /* over the values: a step's */
};

/* Finds the number of passes that take this long on a CPU of the rank's own. All ranks compute meanwhile, since
 * neighbours may slow one another down. Collective; false: b->error has the details. */
bool tti_compute_calibrate(struct tti_compute *compute, struct tti_bench *b, int64_t step_ns);
/* Part number `part` of `parts` of a step's computation. */
void tti_compute_run(struct tti_compute *compute, int part, int parts);

#endif
