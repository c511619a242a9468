/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of `tutti bench overlap`. */
#include "bench/overlap/overlap.h"

#include <inttypes.h>

#include "bench/report/table.h"

#define BUSY 1.2 /* a computation that takes this many times the step is disturbed */

void tti_overlap_print_header(const struct tti_overlap *o, int64_t bandwidth)
{
    const struct tti_bench_options *options = o->b->options;
    printf("# step: %" PRId64 " ms of computation, and an all_reduce of %" PRId64 " bytes over a link of %" PRId64
           " bytes/s (%s over %s)\n"
           "#   pipeline: %d chunks; bucketer: %d gradients in %d buckets; %d steps of each form, in turn\n"
           "# ideal: the best that the times of compute and communicate alone allow\n#\n",
           options->step_ms, tti_overlap_bytes(options->chunks), bandwidth, tutti_group_backend(o->link), o->below,
           o->chunks, o->gradients, o->chunks, options->iterations);
    printf("#%12s %10s %10s %10s %10s %10s %9s %6s\n", "form", "time", "p99", "min", "max", "ideal", "step/max",
           "#wrong");
    printf("#%12s %10s %10s %10s %10s %10s %9s %6s\n", "", "(ms)", "(ms)", "(ms)", "(ms)", "(ms)", "", "");
    fflush(stdout);
}

/* If other programs take CPUs away, the computation becomes the longer part, and the ratio is too good. */
static void warn(const struct tti_overlap *o, const struct tti_overlap_result *computing)
{
    const double times = computing->time.p50_us / 1000 / (double)o->b->options->step_ms;
    if (times > BUSY) {
        printf("# compute took %.1f times as long as calibrated: CPUs are shared, and step/max says little\n", times);
    }
}

void tti_overlap_print(const struct tti_overlap *o, const struct tti_overlap_result results[TTI_OVERLAP_FORMS])
{
    int64_t wrong = 0;
    for (int form = 0; form < TTI_OVERLAP_FORMS; form++) {
        const struct tti_overlap_result *r = &results[form];
        printf(" %12s %10.3f %10.3f %10.3f %10.3f %10.3f", tti_overlap_names[form], r->time.p50_us / 1000,
               r->time.p99_us / 1000, r->time.min_us / 1000, r->time.max_us / 1000, r->ideal_us / 1000);
        if (tti_overlap_does_both(form)) {
            printf(" %8.2fx", r->over_max);
        } else {
            printf(" %9s", "-");
        }
        printf(" %6" PRId64 "\n", r->wrong);
        wrong += r->wrong;
    }
    tti_bench_print_wrong(wrong);
    warn(o, &results[TTI_OVERLAP_COMPUTE]);
    printf("overlap: step/max = %.2fx\n", results[TTI_OVERLAP_OVERLAPPED].over_max);
    fflush(stdout);
}
