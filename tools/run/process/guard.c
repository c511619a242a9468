/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * SIGKILL to the launcher must not leave ranks behind. The kernel kills the ranks themselves (PR_SET_PDEATHSIG), but
 * not what they have started. The guard does: it sleeps on a pipe whose other end only the launcher holds, and when
 * the kernel closes that end it kills the rest of the job.
 *
 * The guard also leads the process group of all ranks. It lives as long as the job, so the number of the group cannot
 * be given to strangers while the launcher may still send signals to it.
 */
#include "run/process/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/process.h"

/* The launcher has ended: kill until no process of the job is left, for at most about ten seconds. */
static void clean_up(const char *job_prefix)
{
    for (int round = 0; round < 1000; round++) {
        if (tti_process_kill_job(getpgrp(), job_prefix) == 0) {
            return;
        }
        const struct timespec pause = {.tv_nsec = 10000000};
        nanosleep(&pause, NULL);
    }
}

/* A launcher may be a rank of another job, whose guard kills all processes with that job's TUTTI_JOB. It must not kill
 * this guard, which has to kill processes with another TUTTI_JOB first, and then ends by itself. So this guard
 * overwrites the name where /proc shows it. */
static void leave_outer_job(void)
{
    char *job = getenv("TUTTI_JOB");
    if (job) {
        memset(job, 'x', strlen(job));
    }
}

static _Noreturn void guard_main(const char *job_prefix, int alive_fd)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    leave_outer_job();
    prctl(PR_SET_NAME, "tutti-guard");
    /* A reader of the launcher's output must not wait for the guard, so the guard closes all that it inherited. */
    int null = open("/dev/null", O_RDWR);
    for (int fd = 0; fd < 3 && null >= 0; fd++) {
        dup2(null, fd);
    }
    if (alive_fd != 3) {
        dup2(alive_fd, 3);
    }
    close_range(4, ~0u, 0);
    char byte = 0;
    ssize_t got = 0;
    do {
        got = read(3, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 0) {
        clean_up(job_prefix);
    }
    _exit(0);
}

pid_t tti_guard_start(const char *job_prefix, int *alive_fd)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return -1;
    }
    pid_t guard = fork();
    if (guard == 0) {
        setpgid(0, 0);
        close(ends[1]);
        guard_main(job_prefix, ends[0]);
    }
    int saved = errno;
    close(ends[0]);
    if (guard < 0) {
        close(ends[1]);
        errno = saved;
        return -1;
    }
    /* Both sides set the group, so that it exists for certain when the first rank joins. */
    setpgid(guard, guard);
    *alive_fd = ends[1];
    return guard;
}

void tti_guard_stop(pid_t guard, int alive_fd, bool reaped)
{
    if (!reaped) {
        kill(guard, SIGKILL);
        while (waitpid(guard, NULL, 0) < 0 && errno == EINTR) {
            continue;
        }
    }
    close(alive_fd);
}
