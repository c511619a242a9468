/* SPDX-License-Identifier: BSD-3-Clause */
/* The table, in the columns of nccl-tests, so that eyes and scripts that know those find their way. */
#include <inttypes.h>
#include <string.h>

#include "bench/bench.h"

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

/* The lines of the description that say more than that an operation is run as it should be. */
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

void tti_bench_print_header(const struct tti_bench *b, const struct tti_bench_machine *machine)
{
    printf("# tutti bench %s: %d rank%s on %d CPU%s (%.2f ranks per CPU), backend %s\n", tutti_version_string(),
           b->size, b->size == 1 ? "" : "s", machine->cpus, machine->cpus == 1 ? "" : "s", machine->ranks_per_cpu,
           tutti_group_backend(b->group));
    printf("# %s, kernels %s, Linux %s\n", machine->cpu, machine->isa, machine->kernel);
    print_description(machine->description);
    printf("# time: from %s until the slowest rank is done; the median of the iterations;\n"
           "#   below %d B that of %d calls in a row, divided by %d\n",
           b->lead_ns > 0 ? "a common start" : "each rank's leaving of a barrier", TTI_BENCH_SMALL, TTI_BENCH_BATCH,
           TTI_BENCH_BATCH);
}

void tti_bench_print_title(const struct tti_bench *b)
{
    printf("#\n# %s\n", b->collective->name);
    printf("#                                                            out-of-place                       "
           "in-place\n");
    printf("#%11s %11s %8s %6s %5s %9s %7s %7s %6s %9s %7s %7s %6s\n", "size", "count", "type", "redop", "root", "time",
           "algbw", "busbw", "#wrong", "time", "algbw", "busbw", "#wrong");
    printf("#%11s %11s %8s %6s %5s %9s %7s %7s %6s %9s %7s %7s %6s\n", "(B)", "(elements)", "", "", "", "(us)",
           "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)", "");
    fflush(stdout);
}

static void print_result(const struct tti_bench_result *result)
{
    if (result->measured) {
        printf(" %9.2f %7.2f %7.2f %6" PRId64, result->p50_us, result->alg_bw, result->bus_bw, result->wrong);
    } else {
        printf(" %9s %7s %7s %6s", "N/A", "N/A", "N/A", "N/A");
    }
}

void tti_bench_print_row(const struct tti_bench *b, const struct tti_bench_result *out_of_place,
                         const struct tti_bench_result *in_place)
{
    printf(" %11" PRId64 " %11" PRId64 " %8s %6s %5d", out_of_place->bytes, out_of_place->count, tti_bench_type(b),
           tti_bench_redop(b), tti_bench_root(b));
    print_result(out_of_place);
    print_result(in_place);
    putchar('\n');
    fflush(stdout);
}

void tti_bench_print_footer(int64_t wrong, double bus_bw_sum, int results)
{
    printf("# Out of bounds values : %" PRId64 " %s\n", wrong, wrong == 0 ? "OK" : "FAILED");
    printf("# Avg bus bandwidth    : %.3f\n", results > 0 ? bus_bw_sum / results : 0.0);
    fflush(stdout);
}
