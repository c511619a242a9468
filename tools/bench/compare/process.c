/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A block's processes, with the launcher's means: a guard leads their process group, and every one of them carries the
 * job's name in its environment. So launchers that put their ranks into groups of their own (as mpirun does) leave
 * nothing behind either, however the block ends, and even if this program is killed.
 */
#include "bench/compare/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "run/process/guard.h"
#include "run/process/launch.h"
#include "run/process/process.h"

#define GRACE_MS 3000 /* from SIGTERM to SIGKILL */

bool tti_compare_signals_open(struct tti_compare_signals *signals)
{
    static const int handled[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t set;
    struct rlimit limit = {.rlim_cur = 1024};
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < sizeof(handled) / sizeof(handled[0]); i++) {
        struct sigaction action; /* a signal that was ignored from the start (nohup) stays ignored */
        if (sigaction(handled[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN) {
            sigaddset(&set, handled[i]);
        }
    }
    getrlimit(RLIMIT_NOFILE, &limit);
    signals->open_files = limit.rlim_cur;
    signal(SIGCHLD, SIG_DFL);
    signals->original_pipe = signal(SIGPIPE, SIG_IGN);
    if (sigprocmask(SIG_BLOCK, &set, &signals->original) != 0) {
        return false;
    }
    signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return signals->fd >= 0;
}

void tti_compare_signals_close(struct tti_compare_signals *signals)
{
    if (signals->fd >= 0) {
        close(signals->fd);
    }
    sigprocmask(SIG_SETMASK, &signals->original, NULL);
    signal(SIGPIPE, signals->original_pipe);
}

/* Whether a variable of that name is in the list already. */
static bool has_name(char *const *list, size_t count, const char *variable)
{
    const size_t length = strcspn(variable, "=") + 1;
    for (size_t i = 0; i < count; i++) {
        if (strncmp(list[i], variable, length) == 0) {
            return true;
        }
    }
    return false;
}

/* The job's name, its variables, and the other variables of this process. The strings are not copied. */
static char **environment_of(const struct tti_compare_job *job, char *name)
{
    size_t most = 1;
    for (char **variable = environ; *variable; variable++) {
        most++;
    }
    for (const char *const *variable = job->environment; variable && *variable; variable++) {
        most++;
    }
    char **all = calloc(most + 1, sizeof(*all));
    if (!all) {
        return NULL;
    }
    size_t count = 1;
    all[0] = name;
    for (const char *const *variable = job->environment; variable && *variable; variable++) {
        all[count++] = (char *)(uintptr_t)*variable;
    }
    const size_t ours = count;
    for (char **variable = environ; *variable; variable++) {
        if (!has_name(all, ours, *variable)) {
            all[count++] = *variable;
        }
    }
    return all;
}

/* The signal that asks this program to end, or 0. Waits until something happens or the deadline has come. */
static int await(const struct tti_compare_signals *signals, int64_t deadline_ns)
{
    struct pollfd waiting = {.fd = signals->fd, .events = POLLIN};
    const int64_t left_ms = tti_remaining_ms(deadline_ns);
    poll(&waiting, 1, left_ms < 0 || left_ms > 60000 ? 60000 : (int)left_ms);
    int asked = 0;
    struct signalfd_siginfo info;
    while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        asked = info.ssi_signo != SIGCHLD ? (int)info.ssi_signo : asked;
    }
    return asked;
}

static bool reap(pid_t pid, int *status)
{
    pid_t got = 0;
    do {
        got = waitpid(pid, status, WNOHANG);
    } while (got < 0 && errno == EINTR);
    return got == pid;
}

/* Until it has ended; true if it had to be ended, *asked is then the signal or 0 for the time limit. */
static bool supervise(pid_t pid, const struct tti_compare_signals *signals, int64_t limit_ms, int *status, int *asked)
{
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), limit_ms);
    *asked = 0;
    while (!reap(pid, status)) {
        *asked = await(signals, deadline);
        if (*asked != 0 || tti_now_ns() >= deadline) {
            return true;
        }
    }
    return false;
}

/* Asks the job to end, and sees to it that it does. */
static void end(pid_t pid, pid_t group, const char *job_prefix, const struct tti_compare_signals *signals)
{
    int status = 0;
    const int64_t deadline = tti_deadline_ns(tti_now_ns(), GRACE_MS);
    kill(-group, SIGTERM);
    while (!reap(pid, &status)) {
        await(signals, deadline);
        if (tti_now_ns() >= deadline) {
            tti_process_kill_job(group, job_prefix);
            while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
                continue;
            }
            return;
        }
    }
}

/* Processes that the job may have left behind. The guard is in their group, too, and not needed any more. */
static void kill_leftovers(pid_t group, const char *job_prefix)
{
    const struct timespec pause = {.tv_nsec = 5000000};
    for (int round = 0; round < 200 && tti_process_kill_job(group, job_prefix) > 0; round++) {
        nanosleep(&pause, NULL); /* the killed ones are seen until the kernel is done with them */
    }
}

static int exit_result(int status, char *why, size_t capacity)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        return 0;
    }
    if (WIFEXITED(status)) {
        snprintf(why, capacity, "it ended with exit code %d", WEXITSTATUS(status));
    } else {
        snprintf(why, capacity, "it was ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return -1;
}

static int run(const struct tti_compare_job *job, const struct tti_compare_signals *signals, pid_t guard,
               const char *job_prefix, char **environment, char *why, size_t capacity)
{
    const struct tti_cpu_list everywhere = {0};
    char *path = NULL;
    int code = tti_run_find_program(job->words[0], &path, why, capacity);
    if (code != 0) {
        return -1;
    }
    /* a launcher that reads from a terminal it does not own would be stopped */
    const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const struct tti_spawn spawn = {.path = path,
                                    .arguments = (char **)(uintptr_t)job->words,
                                    .environment = environment,
                                    .stdin_fd = null,
                                    .stdout_fd = job->out,
                                    .stderr_fd = job->err,
                                    .group = guard,
                                    .cpus = &everywhere,
                                    .mask = &signals->original,
                                    .pipe_handler = signals->original_pipe,
                                    .open_files = signals->open_files};
    const pid_t pid = tti_run_spawn(&spawn, &code, why, capacity);
    free(path);
    if (null >= 0) {
        close(null);
    }
    if (pid < 0) {
        return -1;
    }
    int status = 0;
    int asked = 0;
    if (supervise(pid, signals, job->limit_ms, &status, &asked)) {
        end(pid, guard, job_prefix, signals);
        snprintf(why, capacity, "it took longer than %.0f s", (double)job->limit_ms / 1000);
        return asked != 0 ? asked : -1;
    }
    return exit_result(status, why, capacity);
}

int tti_compare_run(const struct tti_compare_job *job, const struct tti_compare_signals *signals, char *why,
                    size_t capacity)
{
    unsigned long long random = 0;
    char name[96];
    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        snprintf(why, capacity, "cannot get random bytes: %s", strerror(errno));
        return -1;
    }
    snprintf(name, sizeof(name), "TUTTI_JOB=bench-%d-%016llx", (int)getpid(), random);
    const char *job_prefix = strchr(name, '=') + 1;
    char **environment = environment_of(job, name);
    int alive_fd = -1;
    const pid_t guard = environment ? tti_guard_start(job_prefix, &alive_fd) : -1;
    if (guard < 0) {
        snprintf(why, capacity, "cannot start another process: %s", strerror(errno));
        free(environment);
        return -1;
    }
    const int result = run(job, signals, guard, job_prefix, environment, why, capacity);
    kill_leftovers(guard, job_prefix);
    tti_guard_stop(guard, alive_fd, false);
    free(environment);
    return result;
}
