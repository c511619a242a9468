/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The command line of `tutti run`. Options end at the first word that is not one (or at "--"): everything from there on
 * belongs to the program, so that `tutti run -n 4 ./train -n 1000` means what it says.
 */
#include "run/options.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/host/cpu.h"
#include "base/host_name.h"
#include "base/number.h"
#include "common/exit_codes.h"
#include "common/options.h"
#include "store/wire/secret.h"
#include "tools.h"

enum {
    OPTION_BACKEND = 256,
    OPTION_TIMEOUT,
    OPTION_GRACE,
    OPTION_ENV,
    OPTION_LOG_DIR,
    OPTION_ONLY_RANK,
    OPTION_NO_PREFIX,
    OPTION_BIND,
    OPTION_CPUS,
    OPTION_RESTARTS,
    OPTION_KEEP_GOING,
    OPTION_DRY_RUN,
    OPTION_TRACE,
    OPTION_METRICS,
    OPTION_NODES,
    OPTION_NODE_RANK,
    OPTION_MASTER_ADDR,
    OPTION_MASTER_PORT,
    OPTION_JOIN_TIMEOUT,
    OPTION_NODE_TIMEOUT,
};

#define MASTER_PORT "29500"          /* torchrun's */
#define BINDINGS    "core|numa|none" /* enum tti_bind */

static const struct argp_option argp_options[] = {
    {NULL, 0, NULL, 0, "The job:", 1},
    {"ranks", 'n', "N|auto", 0,
     "Start N ranks on this node, 1 to 4096 (default auto: one per CPU that the affinity mask and the cgroup allow); "
     "also as -np N",
     1},
    {"nproc-per-node", 'n', NULL, OPTION_ALIAS, NULL, 1},
    {"nproc_per_node", 'n', NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 1},
    {"backend", OPTION_BACKEND, "NAME", 0, "Use this backend (default: not set); sets TUTTI_BACKEND", 1},
    {"env", OPTION_ENV, "KEY=VALUE", 0, "Set a variable for all ranks; may be repeated", 1},
    {"timeout", OPTION_TIMEOUT, "S", 0,
     "End the job after S seconds, also as in 90s, 5m, 2h, and exit with 124 (default: never)", 1},
    {"grace", OPTION_GRACE, "S", 0, "Wait S seconds between SIGTERM and SIGKILL when the job is ended (default 5)", 1},
    {"max-restarts", OPTION_RESTARTS, "N", 0,
     "Start all ranks again after a failure, at most N times (default 0); one node only", 1},
    {"keep-going", OPTION_KEEP_GOING, NULL, 0,
     "Let the other ranks go on after a failure, for programs that shrink their groups; exit with 0 if at least one "
     "rank exits with 0; one node only",
     1},
    {NULL, 0, NULL, 0, "CPUs:", 2},
    {"cpus", OPTION_CPUS, "LIST", 0, "Use only these CPUs, as in 0-3,8 (default: the affinity mask)", 2},
    {"bind-to", OPTION_BIND, BINDINGS, 0,
     "Bind each rank to its share of the cores (core) or to a NUMA node (numa), or do not bind it (default none)", 2},
    {NULL, 0, NULL, 0, "Several nodes (the same command on each, with its own --node-rank):", 4},
    {"nnodes", OPTION_NODES, "M", 0, "Run the job on M nodes, 1 to 512 (default 1); each may have another -n", 4},
    {"node-rank", OPTION_NODE_RANK, "R", 0, "Say which node this is, 0 to M-1 (required)", 4},
    {"node_rank", OPTION_NODE_RANK, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 4},
    {"master-addr", OPTION_MASTER_ADDR, "HOST", 0,
     "Name node 0: a host name or address that the other nodes reach (required)", 4},
    {"master_addr", OPTION_MASTER_ADDR, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 4},
    {"master-port", OPTION_MASTER_PORT, "P", 0,
     "Use port P of node 0, which must be free there (default " MASTER_PORT ")", 4},
    {"master_port", OPTION_MASTER_PORT, NULL, OPTION_ALIAS | OPTION_HIDDEN, NULL, 4},
    {"join-timeout", OPTION_JOIN_TIMEOUT, "S", 0, "Wait S seconds for the other nodes at the start (default 300)", 4},
    {"node-timeout", OPTION_NODE_TIMEOUT, "S", 0,
     "Give up a node without heartbeats for S seconds, and end the job (default 20); the smallest value of all nodes "
     "counts",
     4},
    {NULL, 0, NULL, 0, "Output:", 3},
    {"log-dir", OPTION_LOG_DIR, "DIR", 0, "Also write the output of each rank to DIR/rank-R.out and DIR/rank-R.err", 3},
    {"only-rank", OPTION_ONLY_RANK, "R", 0, "Show only the output of rank R (default: of all ranks)", 3},
    {"no-prefix", OPTION_NO_PREFIX, NULL, 0, "Do not put [rank] before each line", 3},
    {"trace", OPTION_TRACE, "DIR", 0,
     "Keep the flight recorder of each rank in DIR for `tutti trace dump`, even if the rank is killed (default: "
     "TUTTI_TRACE_DIR, if it is set)",
     3},
    {"metrics", OPTION_METRICS, "FILE", 0,
     "At the end, write the counters of all operations to FILE, in the text format of Prometheus", 3},
    {"dry-run", OPTION_DRY_RUN, NULL, 0, "Print the commands and environments of the ranks, and start nothing", 3},
    {"verbose", 'v', NULL, 0, "Print what the launcher does", 3},
    {0}};

static const char argp_doc[] =
    "Start PROGRAM on every rank of a job, on one host or on several. If a rank fails, end the others.\v"
    "More ranks than CPUs are allowed, and so is root. Standard input goes to rank 0. With more than one rank, each "
    "line of output begins with its rank.\n\n"
    "Exit code: that of the rank that failed first (128 + N for signal N); 124 after --timeout; 125 if the launcher "
    "failed; 126 or 127 if PROGRAM cannot be started; 2 if the command line is wrong.\n\n"
    "Each rank has TUTTI_RANK, TUTTI_WORLD_SIZE and torch's RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT in its "
    "environment. If TUTTI_JOB_TOKEN holds a secret, or TUTTI_JOB_TOKEN_FILE names a file with one, only launchers and "
    "ranks with this secret can join.\n\n"
    "SIGQUIT (Ctrl-\\) to the launcher prints which rank delays the others, which rank waits for which, and the last "
    "operations of each; the job goes on. --timeout prints the same before it ends the job.\n\n"
    "Examples:\n"
    "  tutti run ./train                            one rank per CPU\n"
    "  tutti run -n 4 --timeout 10m ./train --lr 0.1\n"
    "  tutti run -n 2 --only-rank 0 python3 train.py\n"
    "  tutti run -n 8 --bind-to core --log-dir logs ./train\n"
    "  tutti run -n 2 --dry-run ./train             print commands and environments\n"
    "On two nodes, one command on each:\n"
    "  tutti run --nnodes 2 --node-rank 0 --master-addr node0 -n 4 ./train\n"
    "  tutti run --nnodes 2 --node-rank 1 --master-addr node0 -n 4 ./train";

struct parser {
    struct tti_run_options *options;
    const char *ranks;
    bool node_rank_given;
};

static void add_environment(struct argp_state *state, struct tti_run_options *options, const char *assignment)
{
    /* These are the identity of a rank; with a wrong one ranks wait for each other without end. */
    static const char *const reserved[] = {
        "TUTTI_RANK", "TUTTI_WORLD_SIZE", "TUTTI_LOCAL_RANK", "TUTTI_LOCAL_WORLD_SIZE", "TUTTI_JOB",  "RANK",
        "WORLD_SIZE", "LOCAL_RANK",       "LOCAL_WORLD_SIZE", "TUTTI_NODE_RANK",        "TUTTI_NODES"};
    const char *equals = strchr(assignment, '=');
    if (!equals || equals == assignment) {
        argp_error(state, "--env takes KEY=VALUE, not '%s'", assignment);
        return;
    }
    size_t length = (size_t)(equals - assignment);
    if (strncmp(assignment, TTI_TOKEN_VARIABLE, strlen(TTI_TOKEN_VARIABLE)) ==
        0) { /* every user of the host can read a command line */
        argp_error(state,
                   "--env %.*s: a job's token does not belong on a command line, and the launcher must know it "
                   "too: set the variable for the launcher itself; its ranks inherit it",
                   (int)length, assignment);
    }
    for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++) {
        if (strlen(reserved[i]) == length && memcmp(reserved[i], assignment, length) == 0) {
            argp_error(state, "--env %s: the launcher sets %s for each rank", assignment, reserved[i]);
        }
    }
    const char **grown = realloc(options->env, (options->env_count + 1) * sizeof(*grown));
    if (!grown) {
        argp_failure(state, TTI_EXIT_FAILED, 0, "out of memory");
        return;
    }
    grown[options->env_count++] = assignment;
    options->env = grown;
}

static void parse_cpus(struct argp_state *state, struct tti_run_options *options, const char *text)
{
    struct tti_cpus allowed;
    if (!tti_cpus_parse(text, &options->cpus)) {
        argp_error(state, "--cpus takes CPU numbers (as in 0-3,8), not '%s'", text);
        return;
    }
    if (!tti_cpus_allowed(&allowed)) {
        argp_failure(state, TTI_EXIT_FAILED, 0, "cannot read the CPU affinity mask of this process");
        return;
    }
    for (int cpu = 0; cpu < TTI_CPUS; cpu++) {
        if (tti_cpus_has(&options->cpus, cpu) && !tti_cpus_has(&allowed, cpu)) {
            char there[256];
            tti_cpus_format(&allowed, there, sizeof(there));
            argp_error(state, "--cpus %s: CPU %d is not available here; there are %s", text, cpu, there);
        }
    }
    options->cpus_given = true;
}

static void check_nodes(struct argp_state *state, const struct parser *parser)
{
    const struct tti_run_options *options = parser->options;
    if (options->node_rank >= options->nodes) {
        argp_error(state, "--node-rank %d: with --nnodes %d there are nodes 0 to %d", options->node_rank,
                   options->nodes, options->nodes - 1);
    }
    if (options->nodes == 1) {
        return;
    }
    if (!parser->node_rank_given) {
        argp_error(state, "--nnodes %d: which node is this one? Say --node-rank, from 0 to %d", options->nodes,
                   options->nodes - 1);
    }
    if (!options->master_addr) {
        argp_error(state, "--nnodes %d: where is node 0? Say --master-addr, its name or address, on all nodes",
                   options->nodes);
    }
    if (options->keep_going) {
        argp_error(state, "--keep-going works on one node only: with --nnodes %d a rank that fails ends the job",
                   options->nodes);
    }
    if (options->max_restarts > 0) {
        argp_error(state, "--max-restarts works on one node only: with --nnodes %d start the job again from outside",
                   options->nodes);
    }
}

static void parse_master_addr(struct argp_state *state, struct tti_run_options *options, const char *text)
{
    if (!tti_is_host_name(text)) {
        argp_error(state, "--master-addr takes the name or address of a host, not '%s'", text);
    }
    options->master_addr = text;
}

static bool sets(const struct tti_run_options *options, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < options->env_count; i++) {
        found = found || (strncmp(options->env[i], name, strlen(name)) == 0 && options->env[i][strlen(name)] == '=');
    }
    return found;
}

/* The job has a store of its own. Launchers on several hosts that were given one store would start one world each, and
 * nobody would notice. In a rank the variable is that of the outer job. */
static void check_store(struct argp_state *state, const struct tti_run_options *options)
{
    const char *store = getenv("TUTTI_STORE");
    const char *rank = getenv("TUTTI_RANK");
    if (store && *store && !(rank && *rank) && !sets(options, "TUTTI_STORE")) {
        argp_error(state,
                   "TUTTI_STORE is %s, but the launcher chooses the store. For one job on several hosts say --nnodes, "
                   "--node-rank and --master-addr on each; for this store say --env TUTTI_STORE=%s; else unset it",
                   store, store);
    }
}

/* Things that can be judged only when all options are known. */
static void complete(struct argp_state *state, const struct parser *parser)
{
    struct tti_run_options *options = parser->options;
    options->cpus_usable = (int)tti_cpus_within_quota((unsigned)tti_cpus_count(&options->cpus));
    options->ranks = options->cpus_usable < TTI_MAX_RANKS ? options->cpus_usable : TTI_MAX_RANKS;
    if (parser->ranks && strcmp(parser->ranks, "auto") != 0) {
        int64_t ranks = 0;
        if (!tti_parse_integer(parser->ranks, 1, TTI_MAX_RANKS, &ranks)) {
            argp_error(state, "-n takes a number of ranks from 1 to %d, or auto, not '%s'", TTI_MAX_RANKS,
                       parser->ranks);
        }
        options->ranks = (int)ranks;
    }
    check_nodes(state, parser);
    check_store(state, options);
    if (options->nodes == 1 && options->only_rank >= options->ranks) {
        argp_error(state, "--only-rank %d: the job has ranks 0 to %d", options->only_rank, options->ranks - 1);
    }
    if (!options->program) {
        argp_error(state, "which program? Say it after the options, as in: tutti run -n 2 ./train");
    }
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct parser *parser = state->input;
    struct tti_run_options *options = parser->options;
    switch (key) {
    case 'n': /* -np N, as mpirun has it, arrives as -n p */
        parser->ranks = strcmp(argument, "p") == 0 && state->next < state->argc ? state->argv[state->next++] : argument;
        return 0;
    case 'v':
        options->verbose = true;
        return 0;
    case OPTION_BACKEND:
        if (*argument == '\0') {
            argp_error(state, "--backend takes a name; `tutti info` lists them");
        }
        options->backend = argument;
        return 0;
    case OPTION_TIMEOUT:
        options->timeout_ms = tti_duration_option(state, "--timeout", argument);
        if (options->timeout_ms == 0) {
            argp_error(state, "--timeout must be more than 0");
        }
        return 0;
    case OPTION_GRACE:
        options->grace_ms = tti_duration_option(state, "--grace", argument);
        return 0;
    case OPTION_ENV:
        add_environment(state, options, argument);
        return 0;
    case OPTION_LOG_DIR:
        options->log_dir = argument;
        return 0;
    case OPTION_ONLY_RANK:
        options->only_rank = (int)tti_number_option(state, "--only-rank", argument, 0, TTI_MAX_RANKS - 1);
        return 0;
    case OPTION_NO_PREFIX:
        options->prefix = false;
        return 0;
    case OPTION_BIND:
        options->bind = (enum tti_bind)tti_word_option(state, "--bind-to", BINDINGS, argument);
        return 0;
    case OPTION_CPUS:
        parse_cpus(state, options, argument);
        return 0;
    case OPTION_RESTARTS:
        options->max_restarts = (int)tti_number_option(state, "--max-restarts", argument, 0, 1000000);
        return 0;
    case OPTION_KEEP_GOING:
        options->keep_going = true;
        return 0;
    case OPTION_NODES:
        options->nodes = (int)tti_number_option(state, "--nnodes", argument, 1, TTI_MAX_NODES);
        return 0;
    case OPTION_NODE_RANK:
        options->node_rank = (int)tti_number_option(state, "--node-rank", argument, 0, TTI_MAX_NODES - 1);
        parser->node_rank_given = true;
        return 0;
    case OPTION_MASTER_ADDR:
        parse_master_addr(state, options, argument);
        return 0;
    case OPTION_MASTER_PORT:
        options->master_port = (int)tti_number_option(state, "--master-port", argument, 1, 65535);
        return 0;
    case OPTION_JOIN_TIMEOUT:
        options->join_timeout_ms = tti_duration_option(state, "--join-timeout", argument);
        return 0;
    case OPTION_NODE_TIMEOUT:
        options->node_timeout_ms = tti_duration_option(state, "--node-timeout", argument);
        if (options->node_timeout_ms < 1000 || options->node_timeout_ms > 86400000) {
            argp_error(state, "--node-timeout must be at least 1 second, and at most a day");
        }
        return 0;
    case OPTION_TRACE:
    case OPTION_METRICS:
        if (*argument == '\0') {
            argp_error(state, key == OPTION_TRACE ? "--trace takes a folder" : "--metrics takes a file");
        }
        *(key == OPTION_TRACE ? &options->trace_dir : &options->metrics_file) = argument;
        return 0;
    case OPTION_DRY_RUN:
        options->dry_run = true;
        return 0;
    case ARGP_KEY_ARG:
        options->program = state->argv + state->next - 1;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_END:
        complete(state, parser);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

void tti_run_options_parse(struct tti_run_options *options, int argc, char **argv)
{
    *options = (struct tti_run_options){.bind = TTI_BIND_NONE,
                                        .timeout_ms = -1,
                                        .grace_ms = 5000,
                                        .only_rank = -1,
                                        .prefix = true,
                                        .nodes = 1,
                                        .master_port = atoi(MASTER_PORT),
                                        .join_timeout_ms = 300000,
                                        .node_timeout_ms = 20000};
    if (!tti_cpus_allowed(&options->cpus)) {
        fprintf(stderr, "tutti run: cannot read the CPU affinity mask of this process\n");
        exit(TTI_EXIT_FAILED);
    }
    const char *trace_dir = getenv("TUTTI_TRACE_DIR");
    options->trace_dir = trace_dir && *trace_dir ? trace_dir : NULL;
    struct parser parser = {.options = options};
    const struct argp argp = {argp_options, parse, "[--] PROGRAM [ARGUMENT...]", argp_doc, NULL, NULL, NULL};
    tti_options_read(&argp, argc, argv, ARGP_IN_ORDER, &parser);
}
