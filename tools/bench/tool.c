/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti bench`: the command line. */

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "bench/beside/plugin.h"
#include "bench/measure/collectives.h"
#include "bench/measure/measure.h"
#include "bench/overlap/overlap.h"
#include "common/devices.h"
#include "common/launcher.h"
#include "common/options.h"
#include "common/wire.h"
#include "info/info.h"
#include "tools.h"

#define SIZE_LIMIT (INT64_C(1) << 40)
#define STARTS     "spin|sleep"
#define PLACEMENTS "private|heap"

enum {
    OPTION_BACKEND = 256,
    OPTION_DEVICE,
    OPTION_ROOT,
    OPTION_ASYNC,
    OPTION_BESIDE,
    OPTION_ROOFLINE,
    OPTION_PLACEMENT,
    OPTION_OFFSET,
    OPTION_SIZES,
    OPTION_BUDGET,
    OPTION_PEER_START,
    OPTION_WIRE,
    OPTION_PERSISTENT,
    OPTION_PLUGIN
};

static const struct argp_option argp_options[] = {
    {"ranks", 'n', "N", 0, "Start N ranks, 1 to 1024 (default: one per CPU, at least 2); not inside a launcher", 0},
    {"minbytes", 'b', "SIZE", 0, "Begin with tensors of SIZE bytes, also as in 64K, 16M, 1G (default 8)", 0},
    {"maxbytes", 'e', "SIZE", 0, "End with tensors of SIZE bytes (default 16M)", 0},
    {"stepfactor", 'f', "F", 0, "Multiply the size by F from row to row, 2 to 1048576 (default 8)", 0},
    {"sizes", OPTION_SIZES, "SIZE,...", 0, "Measure these sizes, in ascending order, instead of -b, -e and -f", 0},
    {"datatype", 'd', "DTYPE", 0, "Use this element type: f32, bf16, i64, ... (default f32)", 0},
    {"op", 'o', "OP", 0, "Reduce with this operator: sum, avg, max, ... (default sum)", 0},
    {"root", OPTION_ROOT, "R", 0, "Use rank R as root of rooted collectives (default 0)", 0},
    {"iterations", 'i', "I", 0,
     "Measure I iterations per row, 1 to 1000000 (default: as many as fit into 0.2 s, 5 to 2000)", 0},
    {"budget", OPTION_BUDGET, "MS", 0,
     "Spend MS milliseconds on each form of a row, 1 to 60000 (default 200); long rows have 3 iterations, one warms up",
     0},
    {"async", OPTION_ASYNC, NULL, 0, "Measure the asynchronous form beside the synchronous one", 0},
    {"persistent", OPTION_PERSISTENT, NULL, 0,
     "Make Tutti's calls once, as one list, and run it by one call; below 4 KiB a list has 20 calls", 0},
    {"beside", OPTION_BESIDE, "PEER[:SETTINGS]", 0,
     "Alternate with calls of another library, or of `tutti` with other settings (key=value,...)", 0},
    {"peer-start", OPTION_PEER_START, STARTS, 0,
     "Let the ranks spin (default) or sleep until the common start of the other library's calls", 0},
    {"roofline", OPTION_ROOFLINE, NULL, 0, "Also measure the limits of the machine; --beside includes this", 0},
    {"placement", OPTION_PLACEMENT, PLACEMENTS, 0,
     "Place Tutti's buffers in private memory of each rank (default), or in the heap of tutti_alloc", 0},
    {"offset", OPTION_OFFSET, "BYTES", 0,
     "Begin the buffers so many bytes behind a page, 0 to 4095 (default 0; those of malloc begin 16 bytes behind)", 0},
    {"wire", OPTION_WIRE, TTI_TOOL_WIRES, 0,
     "all_reduce of f32: send bf16, half of the bytes, or fp8, a quarter; the library of --beside sends all of them "
     "(default full)",
     0},
    {"backend", OPTION_BACKEND, "NAME", 0, "Use this backend (default auto; `tutti info` lists all)", 0},
    {"plugin", OPTION_PLUGIN, "FILE", 0, "Load the backend in this plug-in file; --backend chooses it by its name", 0},
    {"device", OPTION_DEVICE, "NAME", 0,
     "Place the buffers on this device: cpu, cuda or rocm (default auto: on the CPU, or on a device if the backend "
     "takes no CPU tensors)",
     0},
    {"json", 'J', "FILE", 0, "Also write the results to FILE, as JSON", 0},
    {0}};

static const char argp_doc[] =
    "Measure one collective, a list, or all (default): all_reduce, reduce, broadcast, all_gather, gather, scatter, "
    "reduce_scatter, all_to_all, sendrecv, barrier. By name only: ping_pong, window, group. Every result is checked.\v"
    "Without a launcher, the command starts its own ranks. Inside a job (tutti run, torchrun, mpirun, srun, ...) every "
    "process is one rank.\n\n"
    "Columns, as in nccl-tests: size is that of the tensor, or of all parts together if there are parts; count is the "
    "number of elements of the tensor, or of one part; time is that of one call; algbw is size/time in 1e9 bytes per "
    "second; busbw is algbw times a factor for the traffic of the collective, comparable with the bandwidth of the "
    "hardware. "
    "With --async, time covers starting, waiting and releasing, submit is the time of starting, and sync is the time "
    "of the synchronous form; diff and ratio compare the two. "
    "With --beside, Tutti and the other library are called alternately in the same processes; ratio is the median of "
    "Tutti over that of the other library, with its 95 % interval; bound is the least time for the bytes and hops that "
    "every algorithm "
    "needs.\n\n"
    "`tutti bench overlap` measures how much of the communication a computation hides.\n\n"
    "Exit code: 0; 1 if a result was wrong or the command failed; 2 if the command line is wrong; 125 if the ranks "
    "cannot be started; 128 + N if signal N ended a rank.\n\n"
    "Examples:\n"
    "  tutti bench\n"
    "  tutti bench all_reduce -n 4 -b 8 -e 64M -f 2\n"
    "  tutti bench reduce_scatter -d bf16 -o avg --backend local\n"
    "  tutti bench barrier,broadcast -n 8 -i 2000 -J some.json\n"
    "  tutti bench all_reduce -n 2 --async\n"
    "  tutti bench all_reduce -n 2 --device cuda\n"
    "  tutti bench all_reduce -n 2 --beside tutti:engine.window=256K\n"
    "  mpirun.openmpi -n 2 tutti bench --beside openmpi\n"
    "  tutti bench all_reduce --wire bf16 --beside tutti\n"
    "  tutti bench all_reduce -n 2 -e 4K --persistent --beside tutti\n"
    "  tutti bench overlap --help\n"
    "  mpirun -n 4 tutti bench all_to_all";

static int64_t size(struct argp_state *state, const char *option, const char *text)
{
    int64_t value = 1;
    if (!tti_parse_bytes(text, 1, SIZE_LIMIT, &value)) {
        argp_error(state, "%s takes a size from 1 to 1024G (as in 64, 64K, 16M, 1G), not '%s'", option, text);
    }
    return value;
}

/* The bit of one collective; of all if it is `all`. */
static uint32_t collective(struct argp_state *state, const char *name)
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
    return found ? UINT32_C(1) << (found - tti_bench_collectives) : tti_bench_all();
}

static uint32_t collectives(struct argp_state *state, const char *list)
{
    uint32_t chosen = 0;
    char name[64];
    for (const char *word = list; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, ","), word);
        chosen |= collective(state, name);
    }
    return chosen == tti_bench_all() ? 0 : chosen;
}

static void sizes(struct argp_state *state, struct tti_bench_options *options, const char *list)
{
    char name[64];
    options->size_count = 0;
    for (const char *word = list; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(word, ","), word);
        const int64_t bytes = size(state, "--sizes", name);
        const int n = options->size_count;
        if (n == TTI_BENCH_SIZES || (n > 0 && bytes <= options->sizes[n - 1])) {
            argp_error(state, "--sizes takes up to %d sizes in ascending order, not '%s'", TTI_BENCH_SIZES, list);
        }
        options->sizes[options->size_count++] = bytes;
    }
    options->least = options->sizes[0];
    options->most = options->sizes[options->size_count - 1];
}

static void judge(struct argp_state *state, const struct tti_bench_options *options)
{
    if (options->least > options->most) {
        argp_error(state, "-b %" PRId64 " is more than -e %" PRId64, options->least, options->most);
    }
    if (!tutti_reduce_op_valid(options->op, options->dtype)) {
        argp_error(state, "%s is not defined on %s", tutti_reduce_op_name(options->op),
                   tutti_dtype_name(options->dtype));
    }
    const bool only_all_reduce = options->chosen == UINT32_C(1)
                                                        << (tti_bench_find("all_reduce") - tti_bench_collectives);
    const bool sums = options->op == TUTTI_SUM || options->op == TUTTI_AVG || options->op == TUTTI_PREMUL_SUM;
    if (options->wire != TUTTI_WIRE_FULL && (!only_all_reduce || options->dtype != TUTTI_F32 || !sums)) {
        argp_error(state, "--wire is for all_reduce alone, of f32 and by sum, avg or premul_sum");
    }
    for (size_t i = 0; options->persistent && i < tti_bench_collectives_count; i++) {
        const struct tti_bench_collective *c = &tti_bench_collectives[i];
        if (tti_bench_chosen(options, c) &&
            (c->pattern != TTI_BENCH_ONE_CALL || !tti_check_has_persistent_form(c->call))) {
            argp_error(state, "--persistent: %s has no persistent form; name collectives that have", c->name);
        }
    }
    if (options->persistent && options->async) {
        argp_error(state, "--persistent measures synchronous calls; leave out --async");
    }
    if (options->beside && options->async) {
        argp_error(state, "--beside measures synchronous calls; leave out --async");
    }
    if (options->device && strcmp(options->device, "cpu") != 0 &&
        (options->beside || options->roofline || options->offset > 0)) {
        argp_error(state, "--beside, --roofline and --offset are for host memory; leave out --device");
    }
    const size_t item = tutti_dtype_size(options->dtype);
    const size_t unit = item < sizeof(float) ? sizeof(float) : item; /* the roofline's are floats */
    if (options->offset % unit != 0) {
        argp_error(state, "--offset %zu: buffers for %s begin at a multiple of %zu bytes", options->offset,
                   tutti_dtype_name(options->dtype), unit);
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct tti_bench_options *options = state->input;
    switch (key) {
    case 'n':
        options->ranks = (int)tti_number_option(state, "-n", argument, 1, TTI_BENCH_RANKS);
        return 0;
    case 'b':
        options->least = size(state, "-b", argument);
        return 0;
    case 'e':
        options->most = size(state, "-e", argument);
        return 0;
    case 'f':
        options->factor = tti_number_option(state, "-f", argument, 2, 1 << 20);
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
        options->root = (int)tti_number_option(state, "--root", argument, 0, INT32_MAX - 1);
        return 0;
    case 'i':
        options->iterations = (int)tti_number_option(state, "-i", argument, 1, 1000000);
        return 0;
    case OPTION_SIZES:
        sizes(state, options, argument);
        return 0;
    case OPTION_BUDGET:
        options->budget_ns = INT64_C(1000000) * tti_number_option(state, "--budget", argument, 1, 60000);
        return 0;
    case OPTION_PEER_START:
        options->peer_sleeps = tti_word_option(state, "--peer-start", STARTS, argument) == 1;
        return 0;
    case OPTION_ASYNC:
        options->async = true;
        return 0;
    case OPTION_PERSISTENT:
        options->persistent = true;
        return 0;
    case OPTION_BESIDE:
        if (options->beside) {
            argp_error(state, "--beside takes one library; '%s' is one too many", argument);
        }
        options->beside = argument;
        return 0;
    case OPTION_PLACEMENT:
        options->heap = tti_word_option(state, "--placement", PLACEMENTS, argument) == 1;
        return 0;
    case OPTION_OFFSET:
        options->offset = (size_t)tti_number_option(state, "--offset", argument, 0, TTI_BENCH_PAGE - 1);
        return 0;
    case OPTION_WIRE:
        options->wire = (tutti_wire)tti_word_option(state, "--wire", TTI_TOOL_WIRES, argument);
        return 0;
    case OPTION_ROOFLINE:
        options->roofline = true;
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
    case 'J':
        options->json = argument;
        return 0;
    case ARGP_KEY_ARG:
        if (state->arg_num > 0) {
            argp_error(state, "one collective, a list with commas, or none for all; '%s' is one too many", argument);
        }
        options->chosen = collectives(state, argument);
        return 0;
    case ARGP_KEY_SUCCESS:
        judge(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Buffers that do not fit into memory would make the machine swap or kill a process: they are refused before anything
 * starts. */
static bool fits_memory(const struct tti_bench_options *options)
{
    struct tti_system_info system;
    tti_info_system(&system);
    const int buffers = options->beside ? 4 : 2;
    const int64_t each = buffers * tti_bench_capacity(options, options->ranks);
    if (system.memory_available <= 0 || each <= system.memory_available / options->ranks) {
        return true;
    }
    fprintf(stderr,
            "tutti bench: %d ranks with %s buffers of %" PRId64 " bytes do not fit into the %" PRId64
            " bytes of memory that are available: choose a smaller -e or fewer ranks\n",
            options->ranks, options->beside ? "four" : "two", each / buffers, system.memory_available);
    return false;
}

bool tti_bench_root_fits(const struct tti_bench_options *options, int ranks, bool prints)
{
    if (prints && options->root >= ranks) {
        fprintf(stderr, "tutti bench: --root %d: there are only ranks 0 to %d\n", options->root, ranks - 1);
    }
    return options->root < ranks;
}

int tti_bench_start(struct tti_bench_options *options, char **words)
{
    const char *name = options->backend ? options->backend : getenv("TUTTI_BACKEND");
    if (!tti_backend_usable("tutti bench", name) || !tti_device_usable("tutti bench", options->device)) {
        return 1;
    }
    if ((options->beside && !tti_beside_exists(options->beside)) ||
        (options->json && !tti_json_usable("tutti bench"))) {
        return 1;
    }
    if (tti_in_launcher()) {
        return tti_bench_join(options);
    }
    if (options->ranks == 0) {
        options->ranks = tti_default_ranks();
    }
    if (!tti_bench_root_fits(options, options->ranks, true)) {
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
    const struct argp argp = {argp_options, parse, "[COLLECTIVE,...]", argp_doc, NULL, NULL, NULL};
    tti_options_read(&argp, argc, argv, 0, &options);
    return tti_bench_start(&options, argv + 1);
}
