/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti bench`: the command line. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/overlap.h"
#include "common/launcher.h"
#include "common/number.h"
#include "info/info.h"
#include "tools.h"

#define SIZE_LIMIT (INT64_C(1) << 40)

enum { OPTION_BACKEND = 256, OPTION_ROOT, OPTION_ASYNC };

static const struct argp_option argp_options[] = {
    {"ranks", 'n', "N", 0, "Ranks to start (default: as many as CPUs, 2 at least); not inside a launcher", 0},
    {"minbytes", 'b', "SIZE", 0, "Smallest size in bytes, also as 64K, 16M, 1G (default 8)", 0},
    {"maxbytes", 'e', "SIZE", 0, "Largest size (default 16M)", 0},
    {"stepfactor", 'f', "F", 0, "From one size to the next (default 8)", 0},
    {"datatype", 'd', "DTYPE", 0, "Element type: f32, bf16, i64, ... (default f32)", 0},
    {"op", 'o', "OP", 0, "Reduction: sum, avg, max, ... (default sum)", 0},
    {"root", OPTION_ROOT, "R", 0, "Root of the rooted collectives (default 0)", 0},
    {"iterations", 'i', "I", 0, "Iterations of each row (default: what fits into 0.2 s, 5 to 2000)", 0},
    {"async", OPTION_ASYNC, NULL, 0, "Measure the asynchronous form, beside the synchronous one", 0},
    {"backend", OPTION_BACKEND, "NAME", 0, "Backend to measure (default auto; `tutti info` lists them)", 0},
    {"json", 'J', "FILE", 0, "Also write the results to FILE, as JSON", 0},
    {0}};

static const char argp_doc[] =
    "Measure a collective, or each in turn (all, the default): all_reduce, reduce, broadcast, all_gather, gather, "
    "scatter, reduce_scatter, all_to_all, sendrecv, barrier. Every result is checked.\v"
    "Alone it starts its own ranks; inside a job (tutti run, torchrun, mpirun, srun, ...) every process is one rank. "
    "The columns are those of nccl-tests: size is that of the tensor, and the total of all parts where there are "
    "parts; "
    "count is that of the tensor or of one part; algbw is size/time in 1e9 bytes per second, and busbw what that means "
    "for the bus. With --async, time is that of starting, waiting and releasing, submit that of starting alone, and "
    "sync that of the synchronous form, measured in turn; diff and ratio compare the two. `tutti bench overlap` "
    "measures how much of the communication disappears behind a computation. Exit code: 0, 1 if a result was wrong or "
    "something failed, 2 for a command line that cannot be "
    "understood.\n\n"
    "Examples:\n"
    "  tutti bench\n"
    "  tutti bench all_reduce -n 4 -b 8 -e 64M -f 2\n"
    "  tutti bench reduce_scatter -d bf16 -o avg --backend local\n"
    "  tutti bench barrier -n 8 -i 2000 -J barrier.json\n"
    "  tutti bench all_reduce -n 2 --async\n"
    "  tutti bench overlap --help\n"
    "  mpirun -n 4 tutti bench all_to_all";

int64_t tti_bench_number(struct argp_state *state, const char *option, const char *text, int64_t minimum,
                         int64_t maximum)
{
    int64_t value = minimum;
    if (!tti_parse_integer(text, minimum, maximum, &value)) {
        argp_error(state, "%s takes a number from %" PRId64 " to %" PRId64 ", not '%s'", option, minimum, maximum,
                   text);
    }
    return value;
}

static int64_t size(struct argp_state *state, const char *option, const char *text)
{
    int64_t value = 1;
    if (!tti_parse_bytes(text, 1, SIZE_LIMIT, &value)) {
        argp_error(state, "%s takes a size from 1 to 1024G (as in 64, 64K, 16M, 1G), not '%s'", option, text);
    }
    return value;
}

static const struct tti_bench_collective *collective(struct argp_state *state, const char *name)
{
    const struct tti_bench_collective *found = tti_bench_find(name);
    if (strcmp(name, "overlap") == 0) {
        argp_error(state, "overlap comes first, and has options of its own: tutti bench overlap --help");
    }
    if (!found && strcmp(name, "all") != 0) {
        char names[256];
        size_t used = 0;
        names[0] = '\0';
        for (size_t i = 0; i < tti_bench_collectives_count && used < sizeof(names); i++) {
            used += (size_t)snprintf(names + used, sizeof(names) - used, " %s,", tti_bench_collectives[i].name);
        }
        argp_error(state, "there is no collective '%s'; there are%s and all", name, names);
    }
    return found;
}

/* What only all options together can tell. */
static void judge(struct argp_state *state, const struct tti_bench_options *options)
{
    if (options->least > options->most) {
        argp_error(state, "-b %" PRId64 " is more than -e %" PRId64, options->least, options->most);
    }
    if (!tutti_reduce_op_valid(options->op, options->dtype)) {
        argp_error(state, "%s is not defined on %s", tutti_reduce_op_name(options->op),
                   tutti_dtype_name(options->dtype));
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct tti_bench_options *options = state->input;
    switch (key) {
    case 'n':
        options->ranks = (int)tti_bench_number(state, "-n", argument, 1, TTI_BENCH_RANKS);
        return 0;
    case 'b':
        options->least = size(state, "-b", argument);
        return 0;
    case 'e':
        options->most = size(state, "-e", argument);
        return 0;
    case 'f':
        options->factor = tti_bench_number(state, "-f", argument, 2, 1 << 20);
        return 0;
    case 'd':
        if (tutti_dtype_parse(argument, &options->dtype) != TUTTI_OK) {
            argp_error(state, "-d takes an element type (as in f32, bf16, i64, u8), not '%s'", argument);
        }
        return 0;
    case 'o':
        if (tutti_reduce_op_parse(argument, &options->op) != TUTTI_OK) {
            argp_error(state, "-o takes a reduction (as in sum, avg, min, max), not '%s'", argument);
        }
        return 0;
    case OPTION_ROOT:
        options->root = (int)tti_bench_number(state, "--root", argument, 0, INT32_MAX - 1);
        return 0;
    case 'i':
        options->iterations = (int)tti_bench_number(state, "-i", argument, 1, 1000000);
        return 0;
    case OPTION_ASYNC:
        options->async = true;
        return 0;
    case OPTION_BACKEND:
        options->backend = argument;
        return 0;
    case 'J':
        options->json = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0) {
            argp_error(state, "one collective, or none for all; '%s' is one too many", argument);
        }
        options->collective = collective(state, argument);
        return 0;
    case ARGP_KEY_SUCCESS:
        judge(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Buffers that do not fit would end in swapping or in the killing of some process: refused before anything starts. */
static bool fits_memory(const struct tti_bench_options *options)
{
    struct tti_system_info system;
    tti_info_system(&system);
    const int64_t each = 2 * tti_bench_capacity(options, options->ranks);
    if (system.memory_available <= 0 || each <= system.memory_available / options->ranks) {
        return true;
    }
    fprintf(stderr,
            "tutti bench: %d ranks with two buffers of %" PRId64 " bytes do not fit into the %" PRId64
            " bytes of memory that are available: choose a smaller -e or fewer ranks\n",
            options->ranks, each / 2, system.memory_available);
    return false;
}

int tti_bench_start(struct tti_bench_options *options, char **words)
{
    const char *name = options->backend ? options->backend : getenv("TUTTI_BACKEND");
    if (!tti_backend_usable("tutti bench", name)) {
        return 1;
    }
    if (tti_in_launcher()) {
        return tti_bench_join(options);
    }
    if (options->ranks == 0) {
        options->ranks = tti_default_ranks();
    }
    if (options->root >= options->ranks) {
        fprintf(stderr, "tutti bench: --root %d: there are only ranks 0 to %d\n", options->root, options->ranks - 1);
        return TTI_EXIT_USAGE;
    }
    if (!fits_memory(options)) {
        return 1;
    }
    return tti_backend_has_threads(name) ? tti_bench_run_threads(options)
                                         : tti_launch_self("bench", options->ranks, (const char *const *)words);
}

int tutti_tool_bench(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "overlap") == 0) {
        return tti_overlap_tool(argc - 1, argv + 1);
    }
    struct tti_bench_options options = {
        .least = 8, .most = INT64_C(16) << 20, .factor = 8, .dtype = TUTTI_F32, .op = TUTTI_SUM};
    const struct argp argp = {argp_options, parse, "[COLLECTIVE]", argp_doc, NULL, NULL, NULL};
    argp_err_exit_status = TTI_EXIT_USAGE;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0) {
        return TTI_EXIT_USAGE;
    }
    return tti_bench_start(&options, argv + 1);
}
