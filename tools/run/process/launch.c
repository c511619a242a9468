/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Fork + exec. The launcher has a thread by then (it serves the job's store), so between fork and exec the child calls
 * only what is async-signal-safe; everything that needs memory is prepared before. A pipe that exec closes brings back
 * the reason when exec does not succeed.
 */
#include "run/process/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/program.h"
#include "run/process/descriptor_limit.h"

enum step { STEP_JOIN, STEP_PARENT, STEP_DESCRIPTORS, STEP_AFFINITY, STEP_EXEC };

struct failure {
    int step;
    int errnum;
};

/* The file as a new descriptor that exec does not close, in the place of `target`. */
static bool place(int fd, int target)
{
    if (fd < 0) {
        return true;
    }
    return fd == target ? fcntl(fd, F_SETFD, 0) == 0 : dup2(fd, target) == target;
}

struct prepared {
    const struct tti_spawn *spawn;
    char **shell_arguments; /* for a script without a first line that names its interpreter */
    pid_t launcher;
    int report;
};

static _Noreturn void child_fail(const struct prepared *prepared, int step, int errnum)
{
    struct failure failure = {.step = step, .errnum = errnum};
    ssize_t ignored = write(prepared->report, &failure, sizeof(failure));
    (void)ignored;
    _exit(TTI_EXIT_FAILED);
}

static _Noreturn void child_main(const struct prepared *prepared)
{
    const struct tti_spawn *spawn = prepared->spawn;
    if (setpgid(0, spawn->group) != 0) {
        child_fail(prepared, STEP_JOIN, errno);
    }
    /* The launcher may have died before the request; then the signal would never come. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != prepared->launcher) {
        child_fail(prepared, STEP_PARENT, errno);
    }
    if (!place(spawn->stdin_fd, 0) || !place(spawn->stdout_fd, 1) || !place(spawn->stderr_fd, 2)) {
        child_fail(prepared, STEP_DESCRIPTORS, errno);
    }
    if (spawn->cpus && sched_setaffinity(0, sizeof(spawn->cpus->bits), spawn->cpus->bits) != 0) {
        child_fail(prepared, STEP_AFFINITY, errno);
    }
    if (spawn->flight_fd >= 0) {
        fcntl(spawn->flight_fd, F_SETFD, 0);
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != spawn->open_files) {
        limit.rlim_cur = spawn->open_files;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    signal(SIGPIPE, spawn->pipe_handler);
    sigprocmask(SIG_SETMASK, spawn->mask, NULL);
    execve(spawn->path, spawn->arguments, spawn->environment);
    if (errno == ENOEXEC) {
        execve("/bin/sh", prepared->shell_arguments, spawn->environment);
        errno = ENOEXEC;
    }
    child_fail(prepared, STEP_EXEC, errno);
}

/* "sh", the script, and what follows its name; NULL when memory is exhausted. */
static char **shell_arguments(const struct tti_spawn *spawn)
{
    size_t count = 0;
    while (spawn->arguments[count]) {
        count++;
    }
    char **list = calloc(count + 2, sizeof(*list));
    if (list) {
        list[0] = (char *)(uintptr_t) "sh";
        list[1] = (char *)(uintptr_t)spawn->path;
        memcpy(list + 2, spawn->arguments + 1, (count - 1) * sizeof(*list));
    }
    return list;
}

/* Waits for exec: nothing arrives when it has succeeded. Returns 0 or the exit code. */
static int await_exec(int report, pid_t pid, const struct tti_spawn *spawn, char *why, size_t capacity)
{
    static const char *const steps[] = {
        [STEP_JOIN] = "cannot join the job's process group",
        [STEP_PARENT] = "the launcher has ended",
        [STEP_DESCRIPTORS] = "cannot connect input and output",
        [STEP_AFFINITY] = "cannot bind to CPUs",
    };
    struct failure failure;
    ssize_t length = 0;
    do {
        length = read(report, &failure, sizeof(failure));
    } while (length < 0 && errno == EINTR);
    if (length != (ssize_t)sizeof(failure)) {
        return 0;
    }
    waitpid(pid, NULL, 0);
    if (failure.step != STEP_EXEC) {
        snprintf(why, capacity, "%s: %s", steps[failure.step], strerror(failure.errnum));
        return TTI_EXIT_FAILED;
    }
    if (failure.errnum == ENOENT && tti_check_program(spawn->path) == 0) {
        snprintf(why, capacity, "cannot execute %s: the interpreter or loader that it names is missing", spawn->path);
        return TTI_EXIT_NOT_EXECUTABLE;
    }
    return tti_explain_program(spawn->path, failure.errnum, why, capacity);
}

pid_t tti_run_spawn(const struct tti_spawn *spawn, int *exit_code, char *why, size_t capacity)
{
    struct prepared prepared = {.spawn = spawn, .launcher = getpid(), .shell_arguments = shell_arguments(spawn)};
    int report[2] = {-1, -1};
    pid_t pid = -1;
    *exit_code = TTI_EXIT_FAILED;
    if (!prepared.shell_arguments) {
        snprintf(why, capacity, "out of memory");
    } else if (pipe2(report, O_CLOEXEC) != 0) {
        char reason[TTI_RUN_REASON_LENGTH];
        tti_run_describe_errno(errno, spawn->ranks, reason, sizeof(reason));
        snprintf(why, capacity, "cannot make a pipe: %s", reason);
    } else {
        prepared.report = report[1];
        pid = fork();
        if (pid == 0) {
            child_main(&prepared);
        }
        if (pid < 0) {
            snprintf(why, capacity, "cannot start another process: %s", strerror(errno));
        }
        close(report[1]);
        if (pid > 0 && (*exit_code = await_exec(report[0], pid, spawn, why, capacity)) != 0) {
            pid = -1;
        }
        close(report[0]);
    }
    free(prepared.shell_arguments);
    return pid;
}
