/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti bench overlap`: the command line. */
#include "bench/overlap/overlap.h"

#include <argp.h>

#include "common/options.h"
#include "tools.h"

enum { OPTION_STEP = 256, OPTION_CHUNKS, OPTION_BACKEND, OPTION_PLUGIN };

static const struct argp_option argp_options[] = {
    {"ranks", 'n', "N", 0, "Start N ranks, 1 to 1024 (default: one per CPU, at least 2); not inside a launcher", 0},
    {"step", OPTION_STEP, "MS", 0,
     "Compute for MS milliseconds in each step, and communicate for as long, 1 to 10000 (default 10)", 0},
    {"iterations", 'i', "I", 0, "Measure I steps of each form, 1 to 1000000 (default 100)", 0},
    {"chunks", OPTION_CHUNKS, "K", 0, "Use K chunks in the pipeline and K buckets in the bucketer, 1 to 64 (default 8)",
     0},
    {"backend", OPTION_BACKEND, "NAME", 0,
     "Use this backend below the limited link (default auto); local: the ranks are threads, on shm", 0},
    {"plugin", OPTION_PLUGIN, "FILE", 0, "Load the backend in this plug-in file; --backend chooses it by its name", 0},
    {"json", 'J', "FILE", 0, "Also write the results to FILE, as JSON", 0},
    {0}};

static const char argp_doc[] =
    "Measure how much of the communication a computation hides. Each step computes and runs an all_reduce; --step sets "
    "the time of both. The computation is a loop, calibrated on each rank at the start. The all_reduce runs on the "
    "backend `fault`, which imitates a link of limited bandwidth: it sleeps, so communication takes time but no CPU.\v"
    "The forms: compute and communicate, each alone; in_turn, one after the other; overlap: all_reduce_async, compute, "
    "wait; pipeline: tutti_overlap_pipeline with K chunks; bucketer: tutti_bucketer with K buckets and gradients that "
    "become ready one by one, as in data-parallel training. The forms alternate, and every result is checked.\n\n"
    "The last line, overlap: step/max = 1.05x, is the time of an overlapped step over the longer of its two parts: 1 "
    "is perfect, 2 is no overlap. The defaults take about ten seconds.\n\n"
    "Exit code: 0; 1 if a result was wrong or the command failed; 2 if the command line is wrong; 125 if the ranks "
    "cannot be started; 128 + N if signal N ended a rank.\n\n"
    "Examples:\n"
    "  tutti bench overlap\n"
    "  tutti bench overlap -n 4 --step 50 -i 20\n"
    "  tutti run -n 2 --bind-to core --no-prefix tutti bench overlap";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct tti_bench_options *options = state->input;
    switch (key) {
    case 'n':
        options->ranks = (int)tti_number_option(state, "-n", argument, 1, TTI_BENCH_RANKS);
        return 0;
    case 'i':
        options->iterations = (int)tti_number_option(state, "-i", argument, 1, 1000000);
        return 0;
    case OPTION_STEP:
        options->step_ms = tti_number_option(state, "--step", argument, 1, 10000);
        return 0;
    case OPTION_CHUNKS:
        options->chunks = (int)tti_number_option(state, "--chunks", argument, 1, TTI_OVERLAP_CHUNKS);
        return 0;
    case OPTION_BACKEND:
        options->backend = argument;
        return 0;
    case OPTION_PLUGIN:
        tti_plugin_option(state, argument);
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
        .overlap = true, .dtype = TUTTI_F32, .op = TUTTI_SUM, .iterations = 100, .step_ms = 10, .chunks = 8};
    const struct argp argp = {argp_options, parse, NULL, argp_doc, NULL, NULL, NULL};
    argv[0] = full_name;
    tti_options_read(&argp, argc, argv, 0, &options);
    argv[0] = name; /* the started ranks get the same arguments */
    options.most = tti_overlap_bytes(options.chunks);
    return tti_bench_start(&options, argv);
}
