/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti run`: one job after the other until one ends well or no restart is left. For each job, in this order: a guard
 * (while there is one thread, so that fork is simple), the store where the ranks meet (served by a thread of the
 * launcher, so that it outlives every rank), the ranks.
 */
#include "run.h"

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

#include "../tools.h"
#include "job.h"
#include "store/store.h"

static int complain(const char *what, int errnum)
{
    fprintf(stderr, "tutti run: cannot %s: %s\n", what, strerror(errnum));
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

/* Two pipes per rank need more descriptors than the usual soft limit of 1024 for large jobs. */
static void raise_open_files(struct tti_signals *signals)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        signals->original_open_files = limit.rlim_cur;
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* A TCP port nobody uses. It stays bound (but not listening) until the job has ended, so that no other launcher picks
 * it; servers that set SO_REUSEADDR, as they all do, can listen on it. Returns the socket or -1 with errno. */
static int reserve_port(int *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
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

static bool make_identity(struct tti_job_identity *identity)
{
    unsigned long long random = 0;
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return false;
    }
    snprintf(identity->mark, sizeof(identity->mark), "run-%d-%016llx", (int)getpid(), random);
    snprintf(identity->name, sizeof(identity->name), "%s", identity->mark);
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
    for (int rank = 0; rank < options->ranks; rank++) {
        struct tti_cpu_list cpus;
        char **variables = tti_run_environment_own(options, identity, rank);
        if (!variables || !tti_run_affinity(options, rank, &cpus)) {
            tti_run_environment_free(variables);
            return complain("make the environment", ENOMEM);
        }
        char where[256];
        tti_cpu_list_format(cpus.count ? &cpus : &options->cpus, where, sizeof(where));
        printf("# rank %d on CPUs %s\nenv", rank, where);
        for (char **variable = variables; *variable; variable++) {
            print_quoted(*variable);
        }
        print_quoted(path);
        for (char **argument = options->program + 1; *argument; argument++) {
            print_quoted(*argument);
        }
        printf("\n");
        tti_cpu_list_free(&cpus);
        tti_run_environment_free(variables);
    }
    return 0;
}

/* One job with its guard and its store. */
static int run_once(const struct tti_run_options *options, const struct tti_job_identity *identity,
                    const struct tti_signals *signals, const char *path, bool *failed_by_rank)
{
    int life = -1;
    pid_t guard = tti_guard_start(identity->mark, &life);
    if (guard < 0) {
        return complain("start another process", errno);
    }
    char url[96];
    snprintf(url, sizeof(url), "unix:%s", identity->name);
    struct tti_store *store = NULL;
    tutti_error error;
    int code = TTI_EXIT_FAILED;
    pid_t guard_left = guard;
    if (tti_store_open(url, true, 10000, &store, &error) != TUTTI_OK) {
        fprintf(stderr, "tutti run: cannot open the store where the ranks meet: %s\n", error.message);
    } else {
        code = tti_run_job(options, identity, signals, path, &guard_left, failed_by_rank);
        tti_store_release(store);
    }
    tti_guard_stop(guard, life, guard_left == 0);
    return code;
}

static int run_jobs(const struct tti_run_options *options, struct tti_job_identity *identity, const char *path)
{
    struct tti_signals signals = {.fd = -1};
    if (!open_signals(&signals)) {
        return complain("receive signals", errno);
    }
    raise_open_files(&signals);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        return complain("become the parent of orphans", errno);
    }
    int code = 0;
    for (;;) {
        bool failed_by_rank = false;
        if (options->verbose) {
            fprintf(stderr, "tutti run: job %s, %d ranks of %s\n", identity->name, options->ranks, path);
        }
        code = run_once(options, identity, &signals, path, &failed_by_rank);
        if (!failed_by_rank || identity->restart >= options->max_restarts) {
            break;
        }
        identity->restart++;
        snprintf(identity->name, sizeof(identity->name), "%s.%d", identity->mark, identity->restart);
        fprintf(stderr, "tutti run: restarting all ranks (%d of %d)\n", identity->restart, options->max_restarts);
    }
    close(signals.fd);
    return code;
}

int tutti_tool_run(int argc, char **argv)
{
    struct tti_run_options options;
    tti_run_options_parse(&options, argc, argv);
    struct tti_job_identity identity = {0};
    char *path = NULL;
    char why[512];
    int port_fd = -1;
    int code = tti_run_find_program(options.program[0], &path, why, sizeof(why));
    if (code != 0) {
        fprintf(stderr, "tutti run: %s\n", why);
    } else if (!make_identity(&identity)) {
        code = complain("get random bytes", errno);
    } else if ((port_fd = reserve_port(&identity.port)) < 0) {
        code = complain("find a free TCP port", errno);
    } else if (options.dry_run) {
        code = dry_run(&options, &identity, path);
    } else {
        code = run_jobs(&options, &identity, path);
    }
    if (port_fd >= 0) {
        close(port_fd);
    }
    free(path);
    tti_run_options_free(&options);
    return code;
}
