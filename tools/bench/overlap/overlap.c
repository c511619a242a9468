/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti bench overlap`: how much of the communication overlaps with a computation.
 *
 * On one host an all_reduce is work for the same CPUs, and could not overlap with a computation that needs all of them.
 * Between hosts it is mostly waiting for a link. The backend `fault` imitates that link: it makes an all_reduce take
 * bytes / bandwidth longer, asleep. The ranks' other traffic (the barrier before each step) runs in the group below.
 */
#include "bench/overlap/overlap.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/clock.h"
#include "bench/measure/agree.h"
#include "bench/measure/data.h"
#include "bench/report/table.h"

#define WARM_UP 2   /* rounds */
#define BUSY    1.2 /* a computation that takes this many times the step is disturbed */

static int64_t bandwidth_of(const struct tti_bench_options *options)
{
    const int64_t bandwidth = tti_overlap_bytes(options->chunks) * 1000 / options->step_ms;
    return bandwidth > 0 ? bandwidth : 1;
}

/* A second group of the same ranks, over the link. Threads get one over shm, since local cannot be wrapped. */
static bool open_link(struct tti_overlap *o, int64_t bandwidth)
{
    struct tti_bench *b = o->b;
    const bool threads = (tutti_group_capabilities(b->group) & TUTTI_CAP_ONE_PROCESS) != 0;
    char below[64];
    char rules[96];
    o->below = threads ? "shm" : tutti_group_backend(b->group);
    snprintf(below, sizeof(below), "fault.backend=%s", o->below);
    snprintf(rules, sizeof(rules), "fault.rules=all_reduce:bandwidth=%lld", (long long)bandwidth);
    const char *const settings[] = {below, rules, NULL};
    return tutti_group_split(b->group, 0, b->rank, TUTTI_CONFIG(.backend = "fault", .settings = settings), &o->link,
                             &b->error) == TUTTI_OK;
}

/* One step with gradients of its own. */
static bool iterate(struct tti_overlap *o, enum tti_overlap_form form, int64_t *sample_ns, int64_t *wrong)
{
    struct tti_bench *b = o->b;
    const size_t count = (size_t)o->count;
    int64_t start;
    tti_bench_data_fill(b->data, o->all.data, b->rank, b->number, 0, count);
    if (!tti_bench_barrier(b, &start, false)) {
        return false;
    }
    const tutti_status status = tti_overlap_step(o, form);
    *sample_ns = tti_now_ns() - start;
    if (status == TUTTI_OK && form != TTI_OVERLAP_COMPUTE) {
        *wrong += tti_bench_data_count_wrong(b->data, o->all.data, TTI_BENCH_FOLD, b->number, 0, count);
    }
    b->number++;
    return status == TUTTI_OK;
}

/* The forms alternate, so that a disturbance of the machine affects all of them. */
static bool iterate_all(struct tti_overlap *o, struct tti_overlap_result *results)
{
    struct tti_bench *b = o->b;
    bool good = true;
    for (int round = -WARM_UP; round < b->options->iterations; round++) {
        for (int form = 0; form < TTI_OVERLAP_FORMS && good; form++) {
            int64_t ignored;
            int64_t *sample = round < 0 ? &ignored : &tti_bench_samples(b, form)[round];
            good = iterate(o, (enum tti_overlap_form)form, sample, &results[form].wrong);
        }
    }
    for (int form = 0; form < TTI_OVERLAP_FORMS && good; form++) {
        good = tti_bench_times_of(b, form, b->options->iterations, 1, &results[form].time) &&
               tti_bench_agree(b, &results[form].wrong, 1, TUTTI_SUM);
    }
    return good;
}

/* The bounds that no implementation can beat. With chunks, the first must be computed before anything is communicated,
 * and the last is communicated after everything was computed. */
static void judge(const struct tti_overlap *o, struct tti_overlap_result *results)
{
    const double compute = results[TTI_OVERLAP_COMPUTE].time.p50_us;
    const double communicate = results[TTI_OVERLAP_COMMUNICATE].time.p50_us;
    const double longer = compute > communicate ? compute : communicate;
    const double shorter = compute + communicate - longer;
    const double chunked = longer + shorter / o->chunks;
    const double ideal[TTI_OVERLAP_FORMS] = {
        [TTI_OVERLAP_COMPUTE] = compute,
        [TTI_OVERLAP_COMMUNICATE] = communicate,
        [TTI_OVERLAP_IN_TURN] = compute + communicate,
        [TTI_OVERLAP_OVERLAPPED] = longer,
        [TTI_OVERLAP_PIPELINE] = chunked,
        [TTI_OVERLAP_BUCKETER] = chunked,
    };
    for (int form = 0; form < TTI_OVERLAP_FORMS; form++) {
        results[form].ideal_us = ideal[form];
        results[form].over_max = results[form].time.p50_us / longer;
    }
}

/* ---- the table ---- */

static void print_header(const struct tti_overlap *o, int64_t bandwidth)
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

static void print_results(const struct tti_overlap *o, const struct tti_overlap_result results[TTI_OVERLAP_FORMS])
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

/* ---- */

static bool measure(struct tti_overlap *o, int64_t bandwidth, struct tti_overlap_result *results)
{
    struct tti_bench *b = o->b;
    if (!open_link(o, bandwidth) || tti_overlap_prepare(o) != TUTTI_OK ||
        !tti_compute_calibrate(&o->compute, b, b->options->step_ms * 1000000)) {
        return false;
    }
    if (b->rank == 0) {
        print_header(o, bandwidth);
    }
    const bool good = iterate_all(o, results);
    if (good) {
        judge(o, results);
    }
    return good;
}

static bool report(const struct tti_overlap *o, int64_t bandwidth, const struct tti_overlap_result *results,
                   struct json_t *json)
{
    int64_t wrong = 0;
    for (int form = 0; form < TTI_OVERLAP_FORMS; form++) {
        wrong += results[form].wrong;
    }
    if (o->b->rank == 0) {
        print_results(o, results);
    }
    if (json && !tti_overlap_json(json, o, bandwidth, results)) {
        return tti_bench_print_error(o->b, o->b->options->json, "out of memory");
    }
    return wrong == 0;
}

bool tti_overlap_run(struct tti_bench *b, struct json_t *json)
{
    struct tti_overlap_result results[TTI_OVERLAP_FORMS] = {0};
    const int64_t bandwidth = bandwidth_of(b->options);
    struct tti_overlap *o = calloc(1, sizeof(*o));
    b->data = tti_bench_data_create(b->size, TUTTI_F32, TUTTI_SUM, TUTTI_WIRE_FULL, tutti_group_capabilities(b->group));
    bool right = false;
    if (!o || !b->data) {
        tti_bench_print_error(b, "overlap", "out of memory");
    } else {
        o->b = b;
        right = measure(o, bandwidth, results) ? report(o, bandwidth, results, json)
                                               : tti_bench_print_error(b, "overlap", b->error.message);
        if (o->bucketer) {
            tutti_bucketer_destroy(o->bucketer, NULL);
        }
        if (o->link) {
            tutti_group_destroy(o->link, NULL);
        }
    }
    tti_bench_data_destroy(b->data);
    b->data = NULL;
    free(o);
    return right;
}
