/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti bench kernels`: the command line, the table, the JSON. */
#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/bench.h"
#include "bench/kernels/kernels.h"
#include "common/number.h"
#include "info/info.h"
#include "tools.h"

#define SIZE_LIMIT (INT64_C(1) << 33)

enum { OPTION_SOURCES = 256, OPTION_ISA };

static const struct argp_option argp_options[] = {
    {"datatype", 'd', "DTYPE", 0, "Element type, or all (default)", 0},
    {"op", 'o', "OP", 0, "Reduction: sum, avg, max, ... (default sum)", 0},
    {"sources", OPTION_SOURCES, "N,...", 0, "Numbers of arrays to fold into one (default 2,4,8,16)", 0},
    {"minbytes", 'b', "SIZE", 0, "Smallest size of one array, and then 8 times it, ... (default: by the caches)", 0},
    {"maxbytes", 'e', "SIZE", 0, "Largest size of one array (default: that of -b)", 0},
    {"isa", OPTION_ISA, "best|all", 0, "The instruction set in use (default), or each that this CPU has", 0},
    {"json", 'J', "FILE", 0, "Also write the results to FILE, as JSON", 0},
    {0}};

static const char argp_doc[] =
    "Measure the loops that reduce: 1e9 bytes loaded and stored per second, against memcpy of as many bytes.\v"
    "A line is one fold, with two columns for each size: its speed, and that over memcpy's, both measured in turn on "
    "one "
    "CPU. Without -b, all arrays together fill half of the first-, second- and third-level cache (16 MiB at most), and "
    "256 MiB. Every result is checked. Exit code: 0, 1 if a result was wrong or something failed, 2 for a command line "
    "that cannot be understood.\n\n"
    "Examples:\n"
    "  tutti bench kernels\n"
    "  tutti bench kernels -d bf16 --isa all\n"
    "  tutti bench kernels -d f32 -o max --sources 2,3 -b 4K -e 64M -J kernels.json";

static void parse_numbers(struct argp_state *state, struct tti_kernels_options *options, char *text)
{
    options->number_count = 0;
    char *rest = NULL;
    for (char *word = strtok_r(text, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        if (options->number_count == TTI_KERNELS_NUMBERS) {
            argp_error(state, "--sources takes at most %d numbers", TTI_KERNELS_NUMBERS);
        }
        const int64_t number = tti_bench_number(state, "--sources", word, 1, TTI_KERNELS_SOURCES);
        options->numbers[options->number_count++] = (size_t)number;
    }
    if (options->number_count == 0) {
        argp_error(state, "--sources takes numbers with commas between them");
    }
}

static int64_t parse_size(struct argp_state *state, const char *option, const char *text)
{
    int64_t value = 64;
    if (!tti_parse_bytes(text, 64, SIZE_LIMIT, &value)) {
        argp_error(state, "%s takes a size from 64 to 8G (as in 64, 64K, 16M), not '%s'", option, text);
    }
    return value;
}

/* What only all options together can tell. */
static void judge(struct argp_state *state, struct tti_kernels_options *options)
{
    if (options->least == 0 && options->most > 0) {
        argp_error(state, "-e goes with -b");
    }
    if (options->most == 0) {
        options->most = options->least;
    }
    if (options->least > options->most) {
        argp_error(state, "-b %" PRId64 " is more than -e %" PRId64, options->least, options->most);
    }
    if (!options->all_dtypes && !tutti_reduce_op_valid(options->op, options->dtype)) {
        argp_error(state, "%s is not defined on %s", tutti_reduce_op_name(options->op),
                   tutti_dtype_name(options->dtype));
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct tti_kernels_options *options = state->input;
    switch (key) {
    case 'd':
        options->all_dtypes = strcmp(argument, "all") == 0;
        if (!options->all_dtypes && tutti_dtype_parse(argument, &options->dtype) != TUTTI_OK) {
            argp_error(state, "-d takes an element type (as in f32, bf16, i64, u8) or all, not '%s'", argument);
        }
        return 0;
    case 'o':
        if (tutti_reduce_op_parse(argument, &options->op) != TUTTI_OK) {
            argp_error(state, "-o takes a reduction (as in sum, avg, min, max), not '%s'", argument);
        }
        return 0;
    case OPTION_SOURCES:
        parse_numbers(state, options, argument);
        return 0;
    case 'b':
        options->least = parse_size(state, "-b", argument);
        return 0;
    case 'e':
        options->most = parse_size(state, "-e", argument);
        return 0;
    case OPTION_ISA:
        options->all_sets = strcmp(argument, "all") == 0;
        if (!options->all_sets && strcmp(argument, "best") != 0) {
            argp_error(state, "--isa takes best or all, not '%s'", argument);
        }
        return 0;
    case 'J':
        options->json = argument;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "takes options only, not '%s'", argument);
        return 0;
    case ARGP_KEY_SUCCESS:
        judge(state, options);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Private memory with pages of its own, so that no page is touched for the first time while something is measured. */
static bool memory_create(const struct tti_kernels_options *options, struct tti_kernels_memory *memory)
{
    memory->bytes = 0;
    for (size_t v = 0; v < options->number_count; v++) {
        size_t sizes[TTI_KERNELS_SIZES];
        const size_t count = tti_kernels_sizes(options, options->numbers[v], sizes);
        for (size_t s = 0; s < count; s++) {
            const size_t room = tti_kernels_room(options->numbers[v], sizes[s]);
            memory->bytes = room > memory->bytes ? room : memory->bytes;
        }
    }
    memory->at = mmap(NULL, memory->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory->at == MAP_FAILED) {
        fprintf(stderr, "tutti bench kernels: no %zu bytes of memory: choose a smaller -e or fewer --sources\n",
                memory->bytes);
        return false;
    }
    memset(memory->at, 0, memory->bytes);
    return true;
}

/* The run: what all rows share. */
struct run {
    const struct tti_kernels_options *options;
    struct tti_kernels_memory memory;
    json_t *results; /* NULL = not wanted */
    int64_t wrong;
};

static bool add_json(json_t *results, const struct tti_kernels_row *row, const struct tti_kernels_cell *cell)
{
    json_t *const result =
        json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:I}", "isa", row->table->isa, "type",
                  tutti_dtype_name(row->dtype), "redop", tutti_reduce_op_name(row->op), "sources",
                  (json_int_t)row->sources, "size", (json_int_t)cell->bytes, "fold_gb", cell->fold_gb, "copy_gb",
                  cell->copy_gb, "ratio", cell->fold_gb / cell->copy_gb, "wrong", (json_int_t)cell->wrong);
    return json_array_append_new(results, result) == 0;
}

static void print_size(size_t bytes)
{
    char text[32];
    if (bytes >= (size_t)10 << 20) {
        snprintf(text, sizeof(text), "%zuM", bytes >> 20);
    } else if (bytes >= (size_t)10 << 10) {
        snprintf(text, sizeof(text), "%zuK", bytes >> 10);
    } else {
        snprintf(text, sizeof(text), "%zu", bytes);
    }
    printf(" %8s %5s", text, "/copy");
}

static void print_title(const struct tti_kernels_options *options, size_t sources)
{
    size_t sizes[TTI_KERNELS_SIZES];
    const size_t count = tti_kernels_sizes(options, sources, sizes);
    printf("#%7s %8s %11s %7s", "isa", "type", "redop", "sources");
    for (size_t s = 0; s < count; s++) {
        print_size(sizes[s]);
    }
    printf(" %6s\n", "#wrong");
}

static bool measure_row(struct run *run, const struct tti_kernels_row *row)
{
    size_t sizes[TTI_KERNELS_SIZES];
    const size_t count = tti_kernels_sizes(run->options, row->sources, sizes);
    int64_t wrong = 0;
    printf(" %7s %8s %11s %7zu", row->table->isa, tutti_dtype_name(row->dtype), tutti_reduce_op_name(row->op),
           row->sources);
    for (size_t s = 0; s < count; s++) {
        struct tti_kernels_cell cell = {0};
        if (!tti_kernels_measure(&run->memory, row, sizes[s], &cell) ||
            (run->results && !add_json(run->results, row, &cell))) {
            fprintf(stderr, "tutti bench kernels: no memory\n");
            return false;
        }
        printf(" %8.1f %5.2f", cell.fold_gb, cell.fold_gb / cell.copy_gb);
        wrong += cell.wrong;
    }
    printf(" %6" PRId64 "\n", wrong);
    fflush(stdout);
    run->wrong += wrong;
    return true;
}

/* Every set and every type that the options want, with one number of sources. */
static bool measure_sources(struct run *run, size_t sources)
{
    const struct tti_fold_table *tables[TTI_KERNELS_TABLES];
    const size_t table_count = tti_kernels_tables(tables);
    print_title(run->options, sources);
    for (size_t t = 0; t < (run->options->all_sets ? table_count : 1); t++) {
        for (tutti_dtype dtype = 1; dtype < TUTTI_DTYPE_COUNT; dtype++) {
            const bool wanted = run->options->all_dtypes || dtype == run->options->dtype;
            const struct tti_kernels_row row = {tables[t], dtype, run->options->op, sources};
            if (wanted && tutti_reduce_op_valid(row.op, dtype) && !measure_row(run, &row)) {
                return false;
            }
        }
    }
    return true;
}

static bool measure_all(struct run *run)
{
    for (size_t v = 0; v < run->options->number_count; v++) {
        if (!measure_sources(run, run->options->numbers[v])) {
            return false;
        }
    }
    tti_bench_print_wrong(run->wrong);
    return true;
}

int tti_kernels_tool(int argc, char **argv)
{
    static char full_name[] = "tutti bench kernels";
    struct tti_kernels_options options = {
        .all_dtypes = true, .op = TUTTI_SUM, .numbers = {2, 4, 8, 16}, .number_count = 4};
    const struct argp argp = {argp_options, parse, NULL, argp_doc, NULL, NULL, NULL};
    argp_err_exit_status = TTI_EXIT_USAGE;
    argv[0] = full_name;
    if (argp_parse(&argp, argc, argv, 0, NULL, &options) != 0) {
        return TTI_EXIT_USAGE;
    }
    struct tti_system_info system;
    tti_info_system(&system);
    FILE *const file = options.json ? fopen(options.json, "w") : NULL;
    if (options.json && !file) {
        fprintf(stderr, "tutti bench kernels: cannot write %s: %s\n", options.json, strerror(errno));
        return 1;
    }
    struct run run = {.options = &options, .results = file ? json_array() : NULL};
    bool done = memory_create(&options, &run.memory);
    if (done) {
        printf("# tutti %s bench kernels, on one of the CPUs of: %s, Linux %s\n"
               "# columns by bytes of one array: 1e9 bytes loaded and stored per second, and that over memcpy's\n#\n",
               tutti_version_string(), system.cpu, system.kernel);
        done = measure_all(&run);
        munmap(run.memory.at, run.memory.bytes);
    }
    if (file) {
        json_t *const config = json_pack("{s:s, s:s, s:s, s:s}", "version", tutti_version_string(), "cpu", system.cpu,
                                         "kernel", system.kernel, "isa", tti_kernels_isa());
        json_t *const root = json_pack("{s:o, s:o}", "config", config, "results", run.results);
        if (!tti_bench_json_write(root, file)) {
            fprintf(stderr, "tutti bench kernels: cannot write %s\n", options.json);
            done = false;
        }
        tti_bench_json_destroy(root);
    }
    return done && run.wrong == 0 ? 0 : 1;
}
