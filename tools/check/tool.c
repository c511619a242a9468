/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti check`: the command line, and where the ranks come from. Inside a launcher's job each process is one rank.
 * Alone, the command makes its ranks itself: as threads for the backend `local`, else by becoming `tutti run` on
 * itself.
 */
#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check/check.h"
#include "check/report.h"
#include "common/devices.h"
#include "common/launcher.h"
#include "common/options.h"
#include "tools.h"

enum {
    OPTION_BACKEND = 256,
    OPTION_QUICK,
    OPTION_FILTER,
    OPTION_SEED,
    OPTION_LIST,
    OPTION_TIMEOUT,
    OPTION_DEVICE,
    OPTION_PLUGIN
};

static const struct argp_option argp_options[] = {
    {"backend", OPTION_BACKEND, "NAME", 0, "Test this backend (default auto; `tutti info` lists all)", 0},
    {"plugin", OPTION_PLUGIN, "FILE", 0, "Load the backend in this plug-in file; --backend chooses it by its name", 0},
    {"device", OPTION_DEVICE, "NAME", 0,
     "Place the tensors on this device: cpu, cuda or rocm (default auto: on the CPU, or on a device if the backend "
     "takes no CPU tensors)",
     0},
    {"ranks", 'n', "N", 0, "Start N ranks, 1 to 1024 (default: one per CPU, at least 2); not inside a launcher", 0},
    {"quick", OPTION_QUICK, NULL, 0, "Run a subset of the cases, which takes seconds", 0},
    {"filter", OPTION_FILTER, "TEXT", 0,
     "Run only the cases with TEXT in their names, as in all_reduce/types/f32/sum/301", 0},
    {"seed", OPTION_SEED, "N", 0, "Generate the random data and sequences from seed N (default 1)", 0},
    {"timeout", OPTION_TIMEOUT, "S", 0,
     "Let an operation fail after S seconds, also as in 0.5, 5m (default 60); a rank without a step for 10 times as "
     "long, at least 20 s, hangs and ends the run",
     0},
    {"list", OPTION_LIST, NULL, 0, "Print the names of the cases, and run nothing", 0},
    {0}};

static const char argp_doc[] = "Run the conformance suite on this machine: every collective and message is compared "
                               "with an independent reference.\v"
                               "Without a launcher, the command starts its own ranks. Inside a job (tutti run, "
                               "torchrun, mpirun, srun, ...) every process is one rank.\n\n"
                               "The last line is: N passed, N failed, N skipped. Exit code: 0 if no case failed and at "
                               "least one passed; 1 if a case failed, no case passed, or the suite could not run; 2 if "
                               "the command line is wrong; 125 if the ranks cannot be started; 128 + N if signal N "
                               "ended a rank.\n\n"
                               "Examples:\n"
                               "  tutti check --quick\n"
                               "  tutti check --backend shm -n 8\n"
                               "  tutti check --plugin ./mine.so --backend mine -n 4\n"
                               "  tutti check --backend shm -n 2 --device cuda\n"
                               "  tutti check --backend local -n 4 --filter all_reduce/sizes\n"
                               "  mpirun -n 4 tutti check";

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct tti_check_options *options = state->input;
    switch (key) {
    case 'n':
        options->ranks = (int)tti_number_option(state, "-n", argument, 1, 1024);
        return 0;
    case OPTION_BACKEND:
        options->backend = argument;
        return 0;
    case OPTION_PLUGIN:
        tti_plugin_option(state, argument);
        return 0;
    case OPTION_DEVICE:
        options->device = tti_device_option(state, argument);
        return 0;
    case OPTION_QUICK:
        options->quick = true;
        return 0;
    case OPTION_FILTER:
        options->filter = argument;
        return 0;
    case OPTION_SEED:
        options->seed = (uint64_t)tti_number_option(state, "--seed", argument, 0, INT64_MAX);
        return 0;
    case OPTION_TIMEOUT:
        options->timeout_ms = tti_duration_option(state, "--timeout", argument);
        if (options->timeout_ms == 0 || options->timeout_ms > INT32_MAX) {
            argp_error(state, "--timeout must be more than 0, and at most 24 days");
        }
        return 0;
    case OPTION_LIST:
        options->list = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s' is not an option; to choose cases say --filter %s", argument, argument);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static int run_rank(tutti_group *group, const void *options)
{
    return tti_check_rank(options, group) ? 0 : 1;
}

/* Becomes `tutti run -n N -- tutti check WORDS`. */
static int launch(const struct tti_check_options *options, char **words)
{
    if (getenv(TTI_CHECK_STARTED)) {
        fprintf(stderr, "tutti check: %s is set, but nothing says which rank this is: unset it\n", TTI_CHECK_STARTED);
        return TTI_EXIT_USAGE;
    }
    setenv(TTI_CHECK_STARTED, isatty(STDOUT_FILENO) == 1 ? "terminal" : "pipe", 1);
    return tti_launch_self("check", options->ranks, (const char *const *)words);
}

int tutti_tool_check(int argc, char **argv)
{
    struct tti_check_options options = {.seed = 1, .timeout_ms = 60000, .sabotage = getenv("TUTTI_CHECK_SABOTAGE")};
    const struct argp argp = {argp_options, parse, NULL, argp_doc, NULL, NULL, NULL};
    tti_options_read(&argp, argc, argv, 0, &options);
    const bool joins = tti_in_launcher();
    if (!joins && options.ranks == 0) {
        options.ranks = tti_default_ranks();
    }
    if (options.list) {
        tti_check_list(&options, options.ranks > 0 ? options.ranks : 2);
        return 0;
    }
    const char *name = options.backend ? options.backend : getenv("TUTTI_BACKEND");
    if (!tti_backend_usable("tutti check", name) || !tti_device_usable("tutti check", options.device)) {
        return 1;
    }
    if (joins) {
        const tutti_config *config = TUTTI_CONFIG(.backend = options.backend, .timeout_ms = options.timeout_ms);
        return tti_run_as_rank("tutti check", options.ranks, *config, options.device, run_rank, &options);
    }
    return tti_backend_has_threads(name) ? tti_run_as_threads("tutti check", options.ranks, run_rank, &options)
                                         : launch(&options, argv + 1);
}
