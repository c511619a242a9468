/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti bench overlap` tells, to people and to programs. */
#include <inttypes.h>
#include <jansson.h>

#include "bench/overlap.h"

#define BUSY 1.2 /* a computation that takes so many times the step is disturbed */

/* Only the forms that do both are judged by the longer of the two. */
static bool does_both(int form)
{
    return form != TTI_OVERLAP_COMPUTE && form != TTI_OVERLAP_COMMUNICATE;
}

void tti_overlap_print_header(const struct tti_overlap *o, int64_t bandwidth)
{
    const struct tti_bench_options *options = o->b->options;
    printf("# step: %" PRId64 " ms of computation, and an all_reduce of %" PRId64 " bytes over a link of %" PRId64
           " bytes/s (%s over %s)\n"
           "#   pipeline: %d pieces; bucketer: %d gradients in %d buckets; %d steps of each form, in turn\n"
           "# ideal: the best that the times of compute and communicate alone allow\n#\n",
           options->step_ms, tti_overlap_bytes(options->pieces), bandwidth, tutti_group_backend(o->link), o->below,
           o->pieces, o->gradients, o->pieces, options->iterations);
    printf("#%12s %10s %10s %10s %10s %10s %9s %6s\n", "form", "time", "p99", "min", "max", "ideal", "step/max",
           "#wrong");
    printf("#%12s %10s %10s %10s %10s %10s %9s %6s\n", "", "(ms)", "(ms)", "(ms)", "(ms)", "(ms)", "", "");
    fflush(stdout);
}

/* Whoever takes CPUs away makes the computation the longer part, and the ratio look good. */
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
        if (does_both(form)) {
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

static bool set(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0; /* fails, too, if value is NULL */
}

bool tti_overlap_json(json_t *root, const struct tti_overlap *o, int64_t bandwidth,
                      const struct tti_overlap_result results[TTI_OVERLAP_FORMS])
{
    json_t *config = json_object_get(root, "config");
    json_t *list = json_object_get(root, "results");
    bool good = set(config, "link_backend", json_string(tutti_group_backend(o->link))) &&
                set(config, "link_over", json_string(o->below)) && set(config, "bandwidth", json_integer(bandwidth)) &&
                set(config, "bytes", json_integer(tti_overlap_bytes(o->pieces))) &&
                set(config, "step_ms", json_integer(o->b->options->step_ms)) &&
                set(config, "pieces", json_integer(o->pieces)) && set(config, "gradients", json_integer(o->gradients));
    for (int form = 0; form < TTI_OVERLAP_FORMS && good; form++) {
        const struct tti_overlap_result *r = &results[form];
        json_t *entry =
            json_pack("{s:s, s:o, s:f, s:I}", "form", tti_overlap_names[form], "time_us",
                      tti_bench_json_times(&r->time), "ideal_us", r->ideal_us, "wrong", (json_int_t)r->wrong);
        good = json_array_append_new(list, entry) == 0 &&
               (!does_both(form) || set(entry, "step_over_max", json_real(r->over_max)));
    }
    return good && set(root, "step_over_max", json_real(results[TTI_OVERLAP_OVERLAPPED].over_max));
}
