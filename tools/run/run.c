/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti run`: one job after the other until one ends well or no restart is left. For each job, in this order: a guard
 * (while there is one thread, so that fork is simple), the rendezvous store of the ranks (served by a thread of
 * the launcher, so that it outlives every rank; on several nodes by that of node 0, which the launchers use first), the
 * ranks.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/program.h"
#include "core/settings/variables.h"
#include "run/job/supervise.h"
#include "run/nodes/rendezvous.h"
#include "run/nodes/shutdown.h"
#include "run/process/affinity.h"
#include "run/process/descriptor_limit.h"
#include "run/process/environment.h"
#include "run/process/guard.h"
#include "tools.h"

static int ranks_here = 1; /* for sentences */

static int complain(const char *what, int errnum)
{
    char reason[TTI_RUN_REASON_LENGTH];
    tti_run_describe_errno(errnum, ranks_here, reason, sizeof(reason));
    fprintf(stderr, "tutti run: cannot %s: %s\n", what, reason);
    return TTI_EXIT_FAILED;
}

/* Blocks the signals that the supervisor reads. One that was ignored when the launcher started (nohup) stays so. */
static bool open_signals(struct tti_signals *signals)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++) {
        struct sigaction action;
        if (sigaction(handled[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(&set, handled[i]);
        }
    }
    /* Ignoring SIGCHLD would make the kernel reap the ranks and lose how they ended. */
    signal(SIGCHLD, SIG_DFL);
    sigaddset(&set, SIGCHLD);
    signals->original_pipe = signal(SIGPIPE, SIG_IGN);
    if (signals->original_pipe == SIG_ERR || sigprocmask(SIG_BLOCK, &set, &signals->original_mask) != 0) {
        return false;
    }
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd >= 0;
}

/* The soft limit becomes the hard one: see descriptor_limit.c. Returns what it was. */
static size_t raise_open_files(void)
{
    struct rlimit limit = {0};
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        const struct rlimit raised = {.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
        setrlimit(RLIMIT_NOFILE, &raised);
    }
    return limit.rlim_cur;
}

/* A TCP port that is not in use. It stays bound (but not listening) until the job has ended, so that no other launcher
 * picks it; servers that set SO_REUSEADDR, as they all do, can listen on it. Returns the socket or -1 with errno. */
static int reserve_port(const struct tti_run_options *options, int *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const in_addr_t where = options->nodes > 1 ? INADDR_ANY : INADDR_LOOPBACK;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(where)};
    socklen_t length = sizeof(address);
    int yes = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) != 0 ||
        bind(fd, (struct sockaddr *)&address, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0) {
        int saved = errno;
        if (fd >= 0) {
            close(fd);
        }
        errno = saved;
        return -1;
    }
    *port = ntohs(address.sin_port);
    return fd;
}

/* With several nodes these are guesses (that all have as many ranks) until the rendezvous of the launchers. */
static bool make_identity(const struct tti_run_options *options, struct tti_job_identity *identity)
{
    unsigned long long random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return false;
    }
    snprintf(identity->job_prefix, sizeof(identity->job_prefix), "run-%d-%016llx", (int)getpid(), random);
    snprintf(identity->name, sizeof(identity->name), "%s", identity->job_prefix);
    identity->first_rank = options->node_rank * options->ranks;
    identity->world_size = options->nodes * options->ranks;
    if (options->nodes > 1) {
        const bool v6 = strchr(options->master_addr, ':') != NULL;
        snprintf(identity->store, sizeof(identity->store), "tcp://%s%.255s%s:%d", v6 ? "[" : "", options->master_addr,
                 v6 ? "]" : "", options->master_port);
    } else {
        snprintf(identity->store, sizeof(identity->store), "unix:%s", identity->name);
    }
    return true;
}

static void print_quoted(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-@%";
    if (*word != '\0' && word[strspn(word, plain)] == '\0') {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (const char *at = word; *at != '\0'; at++) {
        if (*at == '\'') {
            printf("'\\''");
        } else {
            putchar(*at);
        }
    }
    printf("'");
}

/* What would be started, in a form that a shell understands. */
static int dry_run(const struct tti_run_options *options, const struct tti_job_identity *identity, const char *path)
{
    if (options->nodes > 1) {
        printf("# as if all %d nodes had %d ranks\n", options->nodes, options->ranks);
    }
    for (int local = 0; local < options->ranks; local++) {
        struct tti_cpus cpus;
        char where[256];
        char **variables = tti_run_environment(options, identity, local, -1, false);
        if (!variables) {
            return complain("make the environment", ENOMEM);
        }
        tti_cpus_format(tti_run_affinity(options, local, &cpus) ? &cpus : &options->cpus, where, sizeof(where));
        printf("# rank %d on CPUs %s\nenv", identity->first_rank + local, where);
        for (char **variable = variables; *variable; variable++) {
            print_quoted(*variable);
        }
        print_quoted(path);
        for (char **argument = options->program + 1; *argument; argument++) {
            print_quoted(*argument);
        }
        printf("\n");
        tti_run_environment_free(variables);
    }
    return 0;
}

/* What is to be run, or why it cannot be. */
struct program {
    char *path;
    int code; /* 0, or the exit code of a launcher that cannot start it */
    char why[512];
};

/* One line, if there are any: a misspelt setting has no effect. */
static void report_unknown_variables(const struct tti_run_options *options)
{
    char unknown[400];
    tti_unknown_variables(unknown, sizeof(unknown));
    for (size_t i = 0; i < options->env_count; i++) {
        tti_add_unknown_variable(options->env[i], unknown, sizeof(unknown));
    }
    if (unknown[0] != '\0') {
        fprintf(stderr, "tutti run: unknown environment variables have no effect: %s\n", unknown);
    }
}

/* On one node: in a store of this host. */
static int run_alone(const struct tti_run_options *options, struct tti_job_identity *identity,
                     const struct tti_signals *signals, const char *path, pid_t *guard, bool *failed_by_rank)
{
    struct tti_store *store = NULL;
    tutti_error error;
    snprintf(identity->store, sizeof(identity->store), "unix:%s", identity->name);
    if (tti_store_open(identity->store, true, 10000, &store, &error) != TUTTI_OK) {
        char reason[TTI_RUN_REASON_LENGTH];
        tti_run_describe_errno(EMFILE, ranks_here, reason, sizeof(reason));
        fprintf(stderr, "tutti run: cannot open the rendezvous store: %s%s%s\n", error.message,
                error.status == TUTTI_NO_RESOURCE ? "; " : "", error.status == TUTTI_NO_RESOURCE ? reason : "");
        return TTI_EXIT_FAILED;
    }
    const int code = tti_run_job(options, identity, signals, path, NULL, guard, failed_by_rank);
    tti_store_release(store);
    return code;
}

/* Together with the launchers of other nodes. Until their rendezvous has ended no rank runs, and signals have their
 * default effect. */
static int run_on_nodes(const struct tti_run_options *options, struct tti_job_identity *identity,
                        const struct tti_signals *signals, const struct program *program, pid_t *guard,
                        bool *failed_by_rank)
{
    struct tti_nodes nodes;
    sigset_t blocked;
    sigprocmask(SIG_SETMASK, &signals->original_mask, &blocked);
    int code = tti_nodes_rendezvous(&nodes, options, identity, program->code, program->why);
    sigprocmask(SIG_SETMASK, &blocked, NULL);
    if (code == 0) {
        struct tti_shutdown *shutdown = tti_shutdown_open(&nodes);
        code = shutdown ? tti_run_job(options, identity, signals, program->path, shutdown, guard, failed_by_rank)
                        : complain("start threads for the other nodes", EAGAIN);
        tti_shutdown_close(shutdown);
    }
    tti_nodes_close(&nodes);
    return code;
}

/* One job with its guard and its store. */
static int run_once(const struct tti_run_options *options, struct tti_job_identity *identity,
                    const struct tti_signals *signals, const struct program *program, bool *failed_by_rank)
{
    int alive_fd = -1;
    pid_t guard = tti_guard_start(identity->job_prefix, &alive_fd);
    if (guard < 0) {
        return complain("start another process", errno);
    }
    pid_t guard_left = guard;
    const int code = options->nodes > 1
                         ? run_on_nodes(options, identity, signals, program, &guard_left, failed_by_rank)
                         : run_alone(options, identity, signals, program->path, &guard_left, failed_by_rank);
    tti_guard_stop(guard, alive_fd, guard_left == 0);
    return code;
}

static int run_jobs(const struct tti_run_options *options, struct tti_job_identity *identity,
                    const struct program *program, size_t open_files)
{
    struct tti_signals signals = {.fd = -1, .original_open_files = open_files};
    if (!open_signals(&signals)) {
        return complain("receive signals", errno);
    }
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return complain("become the parent of orphans", errno);
    }
    int code = 0;
    for (;;) {
        bool failed_by_rank = false;
        if (options->verbose) {
            fprintf(stderr, "tutti run: job %s, %d ranks of %s\n", identity->name, options->ranks,
                    program->path ? program->path : options->program[0]);
        }
        code = run_once(options, identity, &signals, program, &failed_by_rank);
        if (!failed_by_rank || identity->restart >= options->max_restarts) {
            break;
        }
        identity->restart++;
        snprintf(identity->name, sizeof(identity->name), "%s.%d", identity->job_prefix, identity->restart);
        fprintf(stderr, "tutti run: restarting all ranks (%d of %d)\n", identity->restart, options->max_restarts);
    }
    close(signals.fd);
    return code;
}

int tutti_tool_run(int argc, char **argv)
{
    struct tti_run_options options;
    tti_run_options_parse(&options, argc, argv);
    report_unknown_variables(&options);
    ranks_here = options.ranks;
    struct tti_job_identity identity = {0};
    struct program program = {0};
    int port_fd = -1;
    const size_t open_files = raise_open_files();
    int code = tti_find_program(options.program[0], &program.path, program.why, sizeof(program.why));
    program.code = code;
    if (code != 0 && (options.nodes == 1 || options.dry_run)) {
        fprintf(stderr, "tutti run: %s\n", program.why);
    } else if (!make_identity(&options, &identity)) {
        code = complain("get random bytes", errno);
    } else if ((port_fd = reserve_port(&options, &identity.port)) < 0) {
        code = complain("find a free TCP port", errno);
    } else if (options.dry_run) {
        code = dry_run(&options, &identity, program.path);
    } else {
        code = run_jobs(&options, &identity, &program, open_files);
    }
    if (port_fd >= 0) {
        close(port_fd);
    }
    free(program.path);
    free(options.env);
    return code;
}
