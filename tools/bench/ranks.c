/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The run of one rank, from its memory to its result. A rank that cannot go on prints the reason and leaves; the
 * failure of the group ends the others.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/beside/beside.h"
#include "bench/measure/agree.h"
#include "bench/measure/buffers.h"
#include "bench/measure/data.h"
#include "bench/measure/turns.h"
#include "bench/overlap/overlap.h"
#include "bench/report/json.h"
#include "bench/report/table.h"
#include "bench/roofline/roofline.h"
#include "common/devices.h"
#include "common/launcher.h"
#include "tools.h"

/* Longer than it takes to wake a rank, for each rank on a CPU. */
#define LEAD_NS INT64_C(100000)

#define EVEN_OUT   20                /* barriers */
#define MEETING_NS INT64_C(10000000) /* at most */

/* Further state of rank 0; zero on the other ranks. */
struct output {
    FILE *file;
    struct json_t *json;
};

bool tti_bench_print_error(const struct tti_bench *b, const char *doing, const char *why)
{
    fprintf(stderr, "tutti bench: rank %d: %s: %s\n", b->rank, doing, why);
    return false;
}

/* The reason is in errno. Returns false. */
static bool cannot_write(const struct tti_bench *b, const char *path)
{
    const char *why = strerror(errno);
    char doing[512];
    snprintf(doing, sizeof(doing), "cannot write %s", path);
    return tti_bench_print_error(b, doing, why);
}

static bool prepare(struct tti_bench *b, struct output *output)
{
    const struct tti_bench_options *options = b->options;
    if (tti_on_device(tutti_group_device(b->group)) && (options->overlap || options->beside || options->roofline)) {
        return tti_bench_print_error(b, "start",
                                     "overlap, --beside and --roofline measure host memory, but the group works "
                                     "on a device: choose another backend or device");
    }
    b->capacity = (size_t)tti_bench_capacity(options, b->size);
    if (!tti_bench_open_memory(b, options->heap)) {
        return false;
    }
    b->sample_capacity = options->iterations > 0 ? options->iterations : TTI_BENCH_ITERATIONS;
    const size_t sets = options->overlap ? TTI_OVERLAP_FORMS : options->async ? TTI_BENCH_FORMS : TTI_BENCH_PEER + 1;
    b->samples = calloc(sets * (size_t)b->sample_capacity, sizeof(*b->samples));
    if (!b->samples) {
        return tti_bench_print_error(b, "start", "no memory for the samples");
    }
    if (options->json && b->rank == 0) {
        output->file = fopen(options->json, "we");
        if (!output->file) {
            return cannot_write(b, options->json);
        }
    }
    return true;
}

static bool add(struct output *output, const struct tti_bench *b, const struct tti_bench_result *result)
{
    return !output->json || !result->measured || tti_bench_json_add(output->json, b, result) ||
           tti_bench_print_error(b, b->options->json, "out of memory");
}

/* One line of the table: both forms of the collective at one size. */
static bool run_row(struct tti_bench *b, int64_t count, struct tti_bench_result results[2])
{
    memset(results, 0, 2 * sizeof(results[0]));
    return tti_bench_measure(b, count, false, &results[0]) &&
           (!(b->collective->traits & TTI_BENCH_IN_PLACE) || tti_bench_measure(b, count, true, &results[1]));
}

/* Why b->collective has no rows in this run; NULL: it has. */
static const char *left_out(const struct tti_bench *b)
{
    const enum tti_bench_pattern pattern = b->collective->pattern;
    if (b->options->async && pattern != TTI_BENCH_ONE_CALL) {
        return "it has no asynchronous form";
    }
    if (b->size < 2 && (pattern == TTI_BENCH_PING_PONG || pattern == TTI_BENCH_WINDOW)) {
        return "it needs two ranks";
    }
    return NULL;
}

/* All sizes of b->collective; sets *wrong. */
static bool run_sizes(struct tti_bench *b, struct output *output, int64_t *wrong)
{
    const struct tti_bench_options *options = b->options;
    double bus_bw = 0;
    int measured = 0;
    int64_t last_count = -1;
    *wrong = 0;
    if (b->rank == 0) {
        tti_bench_print_title(b);
    }
    if (left_out(b)) {
        if (b->rank == 0) {
            printf("# left out: %s\n", left_out(b));
        }
        return true;
    }
    int64_t bytes = options->least;
    for (int row = 0; options->size_count > 0 ? row < options->size_count : bytes <= options->most;
         row++, bytes *= options->factor) {
        bytes = options->size_count > 0 ? options->sizes[row] : bytes;
        const int64_t count = tti_bench_count(b, bytes);
        if (count == last_count) {
            continue; /* sizes below an element for each rank, and the only row of a barrier */
        }
        last_count = count;
        struct tti_bench_result results[2];
        if (!run_row(b, count, results)) {
            if (b->error.status != TUTTI_UNSUPPORTED) {
                return tti_bench_print_error(b, b->collective->name, b->error.message);
            }
            if (b->rank == 0) {
                printf("# left out: %s\n", b->error.message);
            }
            return true;
        }
        for (int i = 0; i < 2; i++) {
            *wrong += results[i].wrong;
            bus_bw += results[i].bus_bw;
            measured += results[i].measured;
        }
        if (b->rank == 0) {
            tti_bench_print_row(b, &results[0], &results[1]);
            fflush(stdout); /* a script counts the rows */
        }
        if (!add(output, b, &results[0]) || !add(output, b, &results[1])) {
            return false;
        }
    }
    if (b->rank == 0) {
        tti_bench_print_footer(*wrong, bus_bw, measured);
    }
    return true;
}

static bool run_collective(struct tti_bench *b, struct output *output, int64_t *wrong)
{
    const tutti_reduce_op op = b->collective->traits & TTI_BENCH_REDUCES ? b->options->op : 0;
    b->data =
        tti_bench_data_create(b->size, b->options->dtype, op, b->options->wire, tutti_group_capabilities(b->group));
    if (!b->data) {
        return tti_bench_print_error(b, b->collective->name, "no memory for the data");
    }
    bool done =
        !b->beside || tti_beside_prepare(b) || tti_bench_print_error(b, b->options->beside, "no memory for the data");
    done = done && run_sizes(b, output, wrong);
    if (b->beside) {
        tti_beside_release(b);
    }
    tti_bench_data_destroy(b->data);
    b->data = NULL;
    return done;
}

static bool run_collectives(struct tti_bench *b, struct output *output)
{
    int64_t all_wrong = 0;
    for (size_t i = 0; i < tti_bench_collectives_count; i++) {
        int64_t wrong = 0;
        b->collective = &tti_bench_collectives[i];
        if (!tti_bench_chosen(b->options, b->collective)) {
            continue;
        }
        if (!run_collective(b, output, &wrong)) {
            return false;
        }
        all_wrong += wrong;
    }
    return all_wrong == 0;
}

/* Writes the results so far, also after wrong ones. */
static bool finish(struct tti_bench *b, struct output *output)
{
    bool good = b->rank != 0 || (fflush(stdout) == 0 && !ferror(stdout)) ||
                tti_bench_print_error(b, "standard output", "cannot be written");
    if (output->json) {
        good = (tti_bench_json_write(output->json, output->file) || cannot_write(b, b->options->json)) && good;
        *output = (struct output){NULL};
    }
    return good;
}

/* The ranks have not had the same time on their CPU while they opened everything. Where a session each has a share of
 * its own, the first calls of a library that does not sleep would take milliseconds until they have. */
static bool even_out_cpu_time(struct tti_bench *b)
{
    for (int i = 0; b->turns && i < EVEN_OUT; i++) {
        if (tti_beside_barrier(b->beside, &b->error) != TUTTI_OK) {
            return tti_bench_print_error(b, "the first barriers", b->error.message);
        }
        tti_bench_meet(b, tti_now_ns() + MEETING_NS);
    }
    return true;
}

/* Opens what is measured beside Tutti. */
static bool open_beside(struct tti_bench *b)
{
    if ((b->options->roofline || b->options->beside) && !tti_roofline_open(b)) {
        return tti_bench_print_error(b, "the roofline", b->error.message);
    }
    if (b->options->beside && !tti_bench_turns_open(b)) {
        return tti_bench_print_error(b, "memory for all ranks", b->error.message);
    }
    return !b->options->beside || (tti_beside_open(b) && even_out_cpu_time(b));
}

/* The header, the rows, and what follows them. */
static bool run_measured(struct tti_bench *b, const struct tti_bench_machine *machine, struct output *output)
{
    if (b->rank == 0) {
        tti_bench_print_header(b, machine);
    }
    if (output->file) {
        output->json = tti_bench_json_create(b, machine);
        if (!output->json) {
            return tti_bench_print_error(b, b->options->json, "out of memory");
        }
    }
    const bool right = b->options->overlap ? tti_overlap_run(b, output->json) : run_collectives(b, output);
    return finish(b, output) && right;
}

static bool run_prepared(struct tti_bench *b, struct output *output)
{
    struct tti_bench_machine machine;
    if (!tti_bench_machine_create(b, &machine)) {
        tti_bench_machine_destroy(&machine);
        return tti_bench_print_error(b, "looking at the machine", b->error.message);
    }
    b->shares_cpu = machine.ranks_per_cpu > 1;
    if (tutti_group_capabilities(b->control) & (TUTTI_CAP_ONE_HOST | TUTTI_CAP_ONE_PROCESS)) {
        b->lead_ns = LEAD_NS * ((b->size - 1) / machine.cpus + 1);
    }
    const bool right = open_beside(b) && run_measured(b, &machine, output);
    tti_bench_machine_destroy(&machine);
    return right;
}

/* True if everything was measured and nothing was wrong. */
static bool run_groups(const struct tti_bench_options *options, tutti_group *group, tutti_group *control)
{
    struct tti_bench b = {
        .options = options, .group = group, .control = control, .item = tutti_dtype_size(options->dtype)};
    struct output output = {0};
    b.rank = tutti_group_rank(group);
    b.size = tutti_group_size(group);
    int64_t failed = !prepare(&b, &output);
    if (!tti_bench_agree(&b, &failed, 1, TUTTI_MAX)) {
        failed = !tti_bench_print_error(&b, "start", b.error.message);
    }
    if (!failed) {
        failed = !run_prepared(&b, &output);
        /* keeps every rank until rank 0 has written: a launcher ends a job when its first rank fails */
        failed = !tti_bench_agree(&b, &failed, 1, TUTTI_MAX) || failed;
    }
    tti_beside_close(&b);
    tti_roofline_close(&b);
    tti_bench_turns_close(&b);
    if (output.file) {
        fclose(output.file);
    }
    tti_bench_close_memory(&b, options->heap);
    free(b.samples);
    return !failed;
}

static bool run_rank(const struct tti_bench_options *options, tutti_group *group)
{
    tutti_group *control = NULL;
    tutti_error error;
    if (tti_control_group(group, &control, &error) != TUTTI_OK) {
        fprintf(stderr, "tutti bench: no group on the CPU beside the one on the device: %s\n", error.message);
        return false;
    }
    const bool good = run_groups(options, group, control);
    tti_control_group_end(group, control);
    return good;
}

/* The group of threads is made without the setting of a device. */
static bool run_on_device(const struct tti_bench_options *options, tutti_group *threads)
{
    char text[32];
    const char *settings[2];
    tutti_group *group = NULL;
    tutti_error error;
    tti_device_settings(options->device, text, settings);
    if (tutti_group_split(threads, 0, tutti_group_rank(threads), TUTTI_CONFIG(.settings = settings), &group, &error) !=
        TUTTI_OK) {
        fprintf(stderr, "tutti bench: no group on the device: %s\n", error.message);
        return false;
    }
    const bool good = run_rank(options, group);
    tutti_group_destroy(group, NULL);
    return good;
}

static int run_thread(tutti_group *group, const void *user)
{
    const struct tti_bench_options *options = user;
    return (options->device ? run_on_device(options, group) : run_rank(options, group)) ? 0 : 1;
}

int tti_bench_run_threads(const struct tti_bench_options *options)
{
    return tti_run_as_threads("tutti bench", options->ranks, run_thread, options);
}

static int run_process(tutti_group *world, const void *user)
{
    const struct tti_bench_options *options = user;
    if (!tti_bench_root_fits(options, tutti_group_size(world), tutti_group_rank(world) == 0)) {
        return TTI_EXIT_USAGE;
    }
    return run_rank(options, world) ? 0 : 1;
}

int tti_bench_join(const struct tti_bench_options *options)
{
    const tutti_config *config = TUTTI_CONFIG(.backend = options->backend);
    return tti_run_as_rank("tutti bench", options->ranks, *config, options->device, run_process, options);
}
