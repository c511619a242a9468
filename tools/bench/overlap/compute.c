/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A computation of a given length: multiply-adds over an array that stays in the first-level cache. It needs a CPU and
 * nothing else, so the memory traffic of the communication does not slow it down. It is real work, not a loop that
 * reads the clock: a thread that loses its CPU has to make up for it.
 */
#include "bench/overlap/overlap.h"

#include <time.h>

#define TRIALS   8 /* the fastest counts: every disturbance makes a trial slower */
#define TRIAL_NS INT64_C(20000000)
#define CHUNK    64 /* passes between two readings of the clock */

static void compute(struct tti_compute *c, int64_t passes)
{
    for (int64_t pass = 0; pass < passes; pass++) {
        for (int i = 0; i < TTI_COMPUTE_VALUES; i++) {
            c->values[i] = c->values[i] * c->factor + c->summand;
        }
    }
}

/* The CPU time of this thread; that of other threads does not count. */
static int64_t cpu_time_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Passes in step_ns, from one trial. */
static int64_t measure(struct tti_compute *c, int64_t step_ns)
{
    const int64_t start = cpu_time_ns();
    int64_t passes = 0;
    int64_t elapsed = 0;
    while (elapsed < TRIAL_NS) {
        compute(c, CHUNK);
        passes += CHUNK;
        elapsed = cpu_time_ns() - start;
    }
    return (int64_t)((double)passes * (double)step_ns / (double)elapsed);
}

bool tti_compute_calibrate(struct tti_compute *c, struct tti_bench *b, int64_t step_ns)
{
    c->passes = 1;
    /* values converge to 1 from every start: no trial has denormal numbers, which are slow */
    c->factor = 0.75f;
    c->summand = 0.25f;
    for (int i = 0; i < TRIALS; i++) {
        int64_t together;
        if (!tti_bench_barrier(b, &together, false)) {
            return false;
        }
        const int64_t passes = measure(c, step_ns);
        c->passes = passes > c->passes ? passes : c->passes;
    }
    return true;
}

void tti_compute_run(struct tti_compute *c, int part, int parts)
{
    compute(c, c->passes * (part + 1) / parts - c->passes * part / parts);
}
