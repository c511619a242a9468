/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting one process. */
#ifndef TOOLS_RUN_PROCESS_LAUNCH_H
#define TOOLS_RUN_PROCESS_LAUNCH_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/host/cpu_set.h"

/* What a new rank gets. */
struct tti_spawn {
    const char *path;
    char **arguments;
    char **environment;
    int stdin_fd; /* -1 = the launcher's */
    int stdout_fd;
    int stderr_fd;
    pid_t group;                 /* the process group to join */
    const struct tti_cpus *cpus; /* NULL = unchanged */
    int flight_fd;               /* of its flight recorder, kept open; -1 = none */
    const sigset_t *mask;        /* the signal mask to restore */
    void (*pipe_handler)(int);   /* the disposition of SIGPIPE to restore */
    size_t open_files;           /* the soft limit to restore */
    int ranks;                   /* of the job on this node, for sentences */
};

/* Starts a rank. Returns its process id once exec has succeeded; else -1 with the exit code and a sentence. */
pid_t tti_run_spawn(const struct tti_spawn *spawn, int *exit_code, char *why, size_t capacity);

#endif
