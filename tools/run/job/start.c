/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Starting a job. A single rank keeps the launcher's own standard output and error, so that it sees a terminal where
 * there is one; several ranks write to pipes. Rank 0 has the launcher's standard input: directly when it is a file or
 * a pipe, relayed when it is a terminal, because the kernel stops processes outside the terminal's foreground group
 * that read from it.
 */
#include "run/job/start.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/exit_codes.h"
#include "run/job/flight_report.h"
#include "run/job/output.h"
#include "run/process/affinity.h"
#include "run/process/descriptor_limit.h"
#include "run/process/environment.h"
#include "run/process/launch.h"
#include "trace/record.h"

static bool fail(struct tti_job *job, int code)
{
    job->launcher_code = code;
    return false;
}

static bool fail_system(struct tti_job *job, const char *what, const char *name)
{
    char reason[TTI_RUN_REASON_LENGTH];
    tti_run_describe_errno(errno, job->options->ranks, reason, sizeof(reason));
    tti_output_message(job->output, "cannot %s %s: %s", what, name, reason);
    return fail(job, TTI_EXIT_FAILED);
}

/* Creates a directory and those above it. */
static bool make_directories(const char *path)
{
    char *copy = strdup(path);
    if (!copy) {
        return false;
    }
    for (char *at = copy + 1; *copy != '\0' && *at != '\0'; at++) {
        if (*at == '/') {
            *at = '\0';
            mkdir(copy, 0777);
            *at = '/';
        }
    }
    bool good = mkdir(copy, 0777) == 0 || errno == EEXIST;
    free(copy);
    return good;
}

static int open_log(struct tti_job *job, int rank, int target)
{
    char *path = NULL;
    const char *kind = target == STDOUT_FILENO ? "out" : "err";
    if (asprintf(&path, "%s/rank-%d.%s", job->options->log_dir, rank, kind) < 0) {
        return -1;
    }
    /* A restart goes on in the file of the first try, so that what led to the failure is not lost. */
    int flags = O_WRONLY | O_CREAT | O_CLOEXEC | (job->identity->restart > 0 ? O_APPEND : O_TRUNC);
    int fd = open(path, flags, 0666);
    if (fd < 0) {
        fail_system(job, "write the log", path);
    }
    free(path);
    return fd;
}

/* Makes the pipe of one stream; *end is what the rank writes to. */
static bool make_stream(struct tti_job *job, int rank, int target, int *end)
{
    const struct tti_run_options *options = job->options;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail_system(job, "make a pipe for", "a rank's output");
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    *end = ends[1];
    struct tti_stream_info info = {
        .rank = rank,
        .target = target,
        .fd = ends[0],
        .log_fd = -1,
        .show = options->only_rank < 0 || options->only_rank == rank,
        .progress = rank == (options->only_rank < 0 ? 0 : options->only_rank),
    };
    if (options->log_dir && (info.log_fd = open_log(job, rank, target)) < 0) {
        close(ends[0]);
        return fail(job, TTI_EXIT_FAILED);
    }
    if (!tti_output_add(job->output, &info)) {
        tti_output_message(job->output, "out of memory");
        return fail(job, TTI_EXIT_FAILED);
    }
    return true;
}

/* What becomes standard input: -1 = the launcher's own. */
static bool make_input(struct tti_job *job, int rank, int *fd)
{
    if (rank > 0) {
        *fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        return *fd >= 0 || fail_system(job, "open", "/dev/null");
    }
    if (!isatty(STDIN_FILENO)) {
        return true;
    }
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return fail_system(job, "make a pipe for", "standard input");
    }
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    *fd = ends[0];
    job->terminal_pipe = ends[1];
    return true;
}

/* `local` counts the ranks of this node. */
static bool start_rank(struct tti_job *job, int local, struct tti_spawn *spawn)
{
    const struct tti_run_options *options = job->options;
    const int rank = job->identity->first_rank + local;
    bool piped = job->identity->world_size > 1 || options->log_dir;
    if (!make_input(job, rank, &spawn->stdin_fd)) {
        return false;
    }
    if (piped && (!make_stream(job, rank, STDOUT_FILENO, &spawn->stdout_fd) ||
                  !make_stream(job, rank, STDERR_FILENO, &spawn->stderr_fd))) {
        return false;
    }
    struct tti_cpus cpus;
    if (!tti_report_prepare(job, local)) {
        return fail_system(job, "keep a record in", options->trace_dir);
    }
    spawn->flight_fd = job->ranks[local].flight_fd;
    spawn->environment = tti_run_environment(options, job->identity, local, spawn->flight_fd, true);
    if (!spawn->environment) {
        tti_output_message(job->output, "out of memory");
        return fail(job, TTI_EXIT_FAILED);
    }
    char why[512];
    int code = 0;
    char where[256];
    spawn->cpus = tti_run_affinity(options, local, &cpus) ? &cpus : NULL;
    tti_cpus_format(&cpus, where, sizeof(where));
    pid_t pid = tti_run_spawn(spawn, &code, why, sizeof(why));
    if (pid < 0) {
        tti_output_message(job->output, "%s", why);
        return fail(job, code);
    }
    job->ranks[local].pid = pid;
    job->ranks[local].running = true;
    job->ranks[local].started_ns = tti_now_ns();
    job->started++;
    job->running++;
    if (options->verbose) {
        tti_output_message(job->output, "rank %d started (pid %d%s%s)", rank, (int)pid, *where ? ", CPUs " : "", where);
    }
    return true;
}

bool tti_job_start(struct tti_job *job, const char *path)
{
    const struct tti_run_options *options = job->options;
    if (options->log_dir && !make_directories(options->log_dir)) {
        return fail_system(job, "create the directory", options->log_dir);
    }
    if (options->trace_dir && !make_directories(options->trace_dir)) {
        return fail_system(job, "create the directory", options->trace_dir);
    }
    if (options->metrics_file && !tti_record_metrics_writable(options->metrics_file)) {
        return fail_system(job, "write the metrics to", options->metrics_file);
    }
    for (int rank = 0; rank < options->ranks; rank++) {
        struct tti_spawn spawn = {
            .path = path,
            .arguments = options->program,
            .stdin_fd = -1,
            .stdout_fd = -1,
            .stderr_fd = -1,
            .flight_fd = -1,
            .group = job->group,
            .mask = &job->signals->original_mask,
            .pipe_handler = job->signals->original_pipe,
            .open_files = job->signals->original_open_files,
            .ranks = options->ranks,
        };
        bool good = start_rank(job, rank, &spawn);
        int fds[] = {spawn.stdin_fd, spawn.stdout_fd, spawn.stderr_fd};
        for (size_t i = 0; i < 3; i++) {
            if (fds[i] >= 0) {
                close(fds[i]);
            }
        }
        tti_run_environment_free(spawn.environment);
        if (!good) {
            return false;
        }
    }
    return true;
}
