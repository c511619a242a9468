/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * For tests whose ranks are processes. Before, the parent must not use Tutti or start threads: a rank begins as a copy
 * of a process without any group. SIGALRM ends a rank that hangs, SIGKILL one that outlives the test.
 */
#ifndef TESTS_API_GROUP_INIT_PROCESSES_H
#define TESTS_API_GROUP_INIT_PROCESSES_H

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/check.h"
#include "time_limits.h"

typedef void (*process_function)(int32_t rank, void *user);

static inline void test_stand_alone(void)
{
    static const char *const names[] = {"TUTTI_RANK",
                                        "TUTTI_WORLD_SIZE",
                                        "TUTTI_LOCAL_RANK",
                                        "TUTTI_LOCAL_WORLD_SIZE",
                                        "TUTTI_STORE",
                                        "TUTTI_BACKEND",
                                        "TUTTI_LANES",
                                        "TUTTI_TIMEOUT_MS",
                                        "TUTTI_DEVICE",
                                        "RANK",
                                        "WORLD_RANK",
                                        "WORLD_SIZE",
                                        "LOCAL_RANK",
                                        "LOCAL_WORLD_SIZE",
                                        "OMPI_COMM_WORLD_RANK",
                                        "OMPI_COMM_WORLD_SIZE",
                                        "PMI_RANK",
                                        "PMI_SIZE",
                                        "PMI_ID",
                                        "PMI_PORT",
                                        "PMIX_RANK",
                                        "PMIX_SIZE",
                                        "SLURM_PROCID",
                                        "SLURM_NTASKS",
                                        "TUTTI_ENGINE_WINDOW"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        unsetenv(names[i]);
    }
}

/* Runs function(rank, user) in `count` processes and waits for them; their failures count as the caller's. */
static inline void test_processes(const char *what, int32_t count, process_function function, void *user)
{
    pid_t parent = getpid();
    pid_t pids[64];
    fflush(NULL);
    for (int32_t rank = 0; rank < count; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) {
                _exit(1);
            }
            alarm(LIMIT_S);
            atomic_store(&test_failures, 0);
            function(rank, user);
            exit(test_result());
        }
    }
    for (int32_t rank = 0; rank < count; rank++) {
        int status = -1;
        char text[160];
        if (pids[rank] < 0 || waitpid(pids[rank], &status, 0) != pids[rank] || status != 0) {
            snprintf(text, sizeof(text), "%s: rank %d of %d: %s %d", what, rank, count,
                     WIFSIGNALED(status) ? "ended by signal" : "exit code",
                     WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
            test_fail(__FILE__, __LINE__, text);
        }
    }
}

/* The address of a unix store that no other test, and no other part of this one, uses. */
static inline void test_store_name(char *url, size_t capacity)
{
    static unsigned serial;
    snprintf(url, capacity, "unix:test-%d-%u", (int)getpid(), serial++);
}

#endif
