/* SPDX-License-Identifier: BSD-3-Clause */
/* The table. Its columns are those of nccl-tests, so that its users and their scripts can read it. */
#include "bench/report/table.h"

#include <inttypes.h>
#include <string.h>

#include "bench/beside/beside.h"
#include "bench/roofline/roofline.h"
#include "device/device.h"

const char *tti_bench_type(const struct tti_bench *b)
{
    return b->collective->traits & TTI_BENCH_EMPTY ? "none" : tutti_dtype_name(b->options->dtype);
}

const char *tti_bench_redop(const struct tti_bench *b)
{
    return b->collective->traits & TTI_BENCH_REDUCES ? tutti_reduce_op_name(b->options->op) : "none";
}

int tti_bench_root(const struct tti_bench *b)
{
    return b->collective->traits & (TTI_BENCH_ROOT_INPUT | TTI_BENCH_ROOT_OUTPUT) ? b->options->root : -1;
}

/* The lines of the description that report a fallback. */
static void print_description(const char *text)
{
    static const char usual[] = ": native";
    while (*text != '\0') {
        const size_t length = strcspn(text, "\n");
        const size_t tail = sizeof(usual) - 1;
        if (length > 0 && (length < tail || strncmp(text + length - tail, usual, tail) != 0)) {
            printf("# %.*s\n", (int)length, text);
        }
        text += text[length] == '\n' ? length + 1 : length;
    }
}

static void print_beside(const struct tti_bench *b)
{
    if (b->beside) {
        printf("# %s: %s%s%s; in turn with Tutti, call by call, in buffers of its own\n"
               "#   ratio: Tutti's median over its median, and the interval that holds 95 %% of 1000 resamples\n",
               b->beside->name, b->beside->version, b->beside->settings[0] != '\0' ? ", " : "", b->beside->settings);
    }
    if (b->roofline) {
        printf("# bound: the bytes that have to be copied, at the bandwidth of plain loops over as much memory, or a "
               "hop;\n"
               "#   /bound: time over it; hop: a cache line between ranks 0 and 1, near = less than %d ns\n",
               TTI_ROOFLINE_NEAR_NS);
    }
}

void tti_bench_print_header(const struct tti_bench *b, const struct tti_bench_machine *machine)
{
    char device[24];
    printf("# tutti bench %s: %d rank%s on %d CPU%s (%.2f ranks per CPU), backend %s%s%s\n", tutti_version_string(),
           b->size, b->size == 1 ? "" : "s", machine->cpus, machine->cpus == 1 ? "" : "s", machine->ranks_per_cpu,
           tutti_group_backend(b->group), b->arena ? ", buffers on " : "",
           b->arena ? tti_device_text(tutti_group_device(b->group), device) : "");
    printf("# %s, kernels %s, Linux %s\n", machine->cpu, machine->isa, machine->kernel);
    print_description(machine->description);
    printf("# time: from %s until the slowest rank is done; the median of the iterations%s\n",
           b->lead_ns > 0 ? "a common start" : "each rank's leaving of a barrier", b->options->overlap ? "" : ";");
    if (!b->options->overlap) {
        printf("#   below %d B that of %d calls in a row, divided by %d\n", TTI_BENCH_SMALL, TTI_BENCH_BATCH,
               TTI_BENCH_BATCH);
    }
    if (b->options->async) {
        printf("#   of the asynchronous form: start, wait, release; sync: of the synchronous form, measured in turn;\n"
               "#   diff: time - sync, ratio: time / sync\n"
               "# submit: how long the start alone takes, median and p99, with one reading of the clock (%" PRId64
               " ns);\n"
               "#   inline and in packets (above) it wakes no thread, else it may have to wake the lane's thread\n",
               machine->clock_ns);
    }
    print_beside(b);
}

static void print_async_title(const struct tti_bench *b)
{
    printf("#%11s %11s %8s %6s %5s %5s %9s %7s %7s %6s %8s %8s %9s %8s %6s", "size", "count", "type", "redop", "root",
           "place", "time", "algbw", "busbw", "#wrong", "submit", "p99", "sync", "diff", "ratio");
    if (b->roofline) {
        printf(" %9s %6s %4s", "bound", "/bound", "hop");
    }
    printf(" %9s\n#%11s %11s %8s %6s %5s %5s %9s %7s %7s %6s %8s %8s %9s %8s %6s%s\n", "algo", "(B)", "(elements)", "",
           "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(us)", "(us)", "(us)", "",
           b->roofline ? "      (us)" : "");
}

static void print_roofline_title(const struct tti_bench *b)
{
    printf("#%11s %11s %8s %6s %5s %5s %9s %7s %7s %6s %9s %6s %4s %9s", "size", "count", "type", "redop", "root",
           "place", "time", "algbw", "busbw", "#wrong", "bound", "/bound", "hop", "algo");
    if (b->beside) {
        printf(" %9s %7s %7s %7s %6s", b->beside->name, "ratio", "low", "high", "#wrong");
    }
    printf("\n#%11s %11s %8s %6s %5s %5s %9s %7s %7s %6s %9s %6s %4s%s\n", "(B)", "(elements)", "", "", "", "", "(us)",
           "(GB/s)", "(GB/s)", "", "(us)", "", "", b->beside ? "                (us)" : "");
}

void tti_bench_print_title(const struct tti_bench *b)
{
    printf("#\n# %s%s\n", b->collective->name, b->options->async ? ", asynchronous" : "");
    if (b->options->async) {
        print_async_title(b);
    } else if (b->roofline) {
        print_roofline_title(b);
    } else {
        printf("#                                                            out-of-place                       "
               "in-place\n"
               "#%11s %11s %8s %6s %5s %9s %7s %7s %6s %9s %7s %7s %6s %9s\n",
               "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw", "busbw",
               "#wrong", "algo");
        printf("#%11s %11s %8s %6s %5s %9s %7s %7s %6s %9s %7s %7s %6s\n", "(B)", "(elements)", "", "", "", "(us)",
               "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
    }
    fflush(stdout);
}

static void print_result(const struct tti_bench_result *result)
{
    if (result->measured) {
        printf(" %9.2f %7.2f %7.2f %6" PRId64, result->time.p50_us, result->alg_bw, result->bus_bw, result->wrong);
    } else {
        printf(" %9s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
    }
}

static void print_call(const struct tti_bench *b, const struct tti_bench_result *result)
{
    printf(" %11" PRId64 " %11" PRId64 " %8s %6s %5d", result->bytes, result->count, tti_bench_type(b),
           tti_bench_redop(b), tti_bench_root(b));
}

static const char *algorithm_of(const struct tti_bench_result *result)
{
    return result->algorithm ? result->algorithm : "-";
}

static void print_bound(const struct tti_bench_result *result)
{
    if (result->bound_us > 0) {
        printf(" %9.2f %6.2f", result->bound_us, result->time.p50_us / result->bound_us);
    } else {
        printf(" %9s %6s", "-", "-");
    }
    printf(" %4s", tti_roofline_hop_class(result->hop_ns));
}

/* A line for each form, since a line has no room for both. */
static void print_async(const struct tti_bench *b, const struct tti_bench_result *result)
{
    const double time = result->time.p50_us;
    const double sync = result->sync.p50_us;
    print_call(b, result);
    printf(" %5s", result->in_place ? "in" : "out");
    print_result(result);
    printf(" %8.2f %8.2f %9.2f %8.2f %6.2f", result->submit.p50_us, result->submit.p99_us, sync, time - sync,
           sync > 0 ? time / sync : 0);
    if (b->roofline) {
        print_bound(result);
    }
    printf(" %9s\n", algorithm_of(result));
}

static void print_versus(const struct tti_bench_versus *versus)
{
    const struct tti_bench_ratio *ratio = &versus->ratio;
    if (versus->measured) {
        printf(" %9.2f %7.3f %7.3f %7.3f %6" PRId64, versus->time.p50_us, ratio->median, ratio->low, ratio->high,
               versus->wrong);
    } else {
        printf(" %9s %7s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A", "N/A");
    }
}

/* Likewise. */
static void print_roofline(const struct tti_bench *b, const struct tti_bench_result *result)
{
    print_call(b, result);
    printf(" %5s", result->in_place ? "in" : "out");
    print_result(result);
    print_bound(result);
    printf(" %9s", algorithm_of(result));
    if (b->beside) {
        print_versus(&result->versus);
    }
    putchar('\n');
}

/* The algorithm of the form in place, only if it differs. */
static void print_algorithms(const char *out_of_place, const char *in_place)
{
    const bool differ = in_place && strcmp(out_of_place, in_place) != 0;
    printf(" %9s%s%s\n", out_of_place, differ ? "/" : "", differ ? in_place : "");
}

void tti_bench_print_row(const struct tti_bench *b, const struct tti_bench_result *out_of_place,
                         const struct tti_bench_result *in_place)
{
    if (b->options->async || b->roofline) {
        void (*print)(const struct tti_bench *, const struct tti_bench_result *) =
            b->options->async ? print_async : print_roofline;
        print(b, out_of_place);
        if (in_place->measured) {
            print(b, in_place);
        }
    } else {
        print_call(b, out_of_place);
        print_result(out_of_place);
        print_result(in_place);
        print_algorithms(algorithm_of(out_of_place), in_place->measured ? algorithm_of(in_place) : NULL);
    }
    fflush(stdout);
}

void tti_bench_print_wrong(int64_t wrong)
{
    printf("# Out of bounds values : %" PRId64 " %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
}

void tti_bench_print_footer(int64_t wrong, double bus_bw_sum, int results)
{
    tti_bench_print_wrong(wrong);
    printf("# Avg bus bandwidth    : %.3f\n", results > 0 ? bus_bw_sum / results : 0.0);
    fflush(stdout);
}
