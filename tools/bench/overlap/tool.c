/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti bench overlap`: the command line. */
#include "bench/overlap/tool.h"

#include <argp.h>

#include "bench/options.h"
#include "bench/overlap/steps.h"
#include "bench/tool.h"
#include "tools.h"

enum { OPTION_STEP = 256, OPTION_PIECES, OPTION_BACKEND };

static const struct argp_option argp_options[] = {
    {"ranks", 'n', "N", 0, "Ranks to start (default: as many as CPUs, 2 at least); not inside a launcher", 0},
    {"step", OPTION_STEP, "MS", 0, "Milliseconds of computation, and of communication, in a step (default 10)", 0},
    {"iterations", 'i', "I", 0, "Steps of each form (default 100)", 0},
    {"pieces", OPTION_PIECES, "K", 0, "Pieces of the pipeline, and buckets of the bucketer (default 8)", 0},
    {"backend", OPTION_BACKEND, "NAME", 0,
     "Backend below the limited link (default auto); local: ranks are threads, over shm", 0},
    {"json", 'J', "FILE", 0, "Also write the results to FILE, as JSON", 0},
    {0}};

static const char argp_doc[] =
    "Measure how much of the communication disappears behind a computation. A step computes and all_reduces, each for "
    "as long as --step says: the computation is a loop that is calibrated on each rank at the start, and the "
    "all_reduce goes over a link of limited bandwidth, which the backend `fault` imitates by sleeping, so that "
    "communication takes time but no CPU.\v"
    "The forms: compute and communicate alone; in_turn, one after the other; overlap: all_reduce_async, compute, "
    "wait; pipeline: tutti_overlap_pipeline over K pieces; bucketer: gradients that become ready one by one, in K "
    "buckets (tutti_bucketer), as in data-parallel training. All forms are measured in turn, and every result is "
    "checked. The last line, overlap: step/max = 1.05x, is the time of an overlapped step over the longer of its two "
    "parts: 1 is perfect, 2 would be no overlap. The defaults take about ten seconds. Exit code: 0, 1 if a result was "
    "wrong or something failed, 2 for a command line that cannot be understood.\n\n"
    "Examples:\n"
    "  tutti bench overlap\n"
    "  tutti bench overlap -n 4 --step 50 -i 20\n"
    "  tutti run -n 2 --bind-to core --no-prefix tutti bench overlap";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct tti_bench_options *options = state->input;
    switch (key) {
    case 'n':
        options->ranks = (int)tti_bench_number(state, "-n", argument, 1, TTI_BENCH_RANKS);
        return 0;
    case 'i':
        options->iterations = (int)tti_bench_number(state, "-i", argument, 1, 1000000);
        return 0;
    case OPTION_STEP:
        options->step_ms = tti_bench_number(state, "--step", argument, 1, 10000);
        return 0;
    case OPTION_PIECES:
        options->pieces = (int)tti_bench_number(state, "--pieces", argument, 1, TTI_OVERLAP_PIECES);
        return 0;
    case OPTION_BACKEND:
        options->backend = argument;
        return 0;
    case 'J':
        options->json = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "takes options only, not '%s'", argument);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int tti_overlap_tool(int argc, char **argv)
{
    static char full_name[] = "tutti bench overlap";
    char *const name = argv[0];
    struct tti_bench_options options = {
        .overlap = true, .dtype = TUTTI_F32, .op = TUTTI_SUM, .iterations = 100, .step_ms = 10, .pieces = 8};
    const struct argp argp = {argp_options, parse, NULL, argp_doc, NULL, NULL, NULL};
    argp_err_exit_status = TTI_EXIT_USAGE;
    argv[0] = full_name;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0) {
        return TTI_EXIT_USAGE;
    }
    argv[0] = name; /* the started ranks get the same arguments */
    options.most = tti_overlap_bytes(options.pieces);
    return tti_bench_start(&options, argv);
}
