/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of one running job. */
#ifndef TOOLS_RUN_JOB_JOB_H
#define TOOLS_RUN_JOB_JOB_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "run/identity.h"
#include "run/options.h"

/* Signals: those that the launcher handles are blocked, and read from a descriptor. */
struct tti_signals {
    int fd;
    sigset_t original_mask;
    void (*original_pipe)(int);
    size_t original_open_files;
};

struct tti_rank {
    pid_t pid;
    bool running;
    bool suspect; /* had failed or was ending when the first failure was seen */
    int status;   /* as waitpid gives it */
    int order;    /* of ending, from 1; 0 while running */
    int64_t started_ns;
    int64_t ended_ns;
    int flight_fd; /* of its flight recorder; -1 = none */
};

enum tti_job_state {
    TTI_JOB_RUNNING,
    TTI_JOB_ENDING, /* SIGTERM was sent */
    TTI_JOB_KILLED, /* SIGKILL was sent */
};

struct tti_shutdown;

struct tti_job {
    const struct tti_run_options *options;
    const struct tti_job_identity *identity;
    const struct tti_signals *signals;
    struct tti_output *output;
    struct tti_rank *ranks;
    int started; /* ranks 0..started-1 have a process */
    int running;
    int ended;
    pid_t group; /* the process group of the ranks */
    pid_t guard; /* its leader; 0 once it is reaped */
    enum tti_job_state state;
    int64_t state_deadline_ns;   /* when the state ends by force */
    int64_t timeout_deadline_ns; /* --timeout */
    int64_t cause_deadline_ns;   /* until when the rank that left may end; 0 = no rank has ended because of it */
    int interrupts;
    int forwarded;      /* the last ending signal that was passed on, 0 = none */
    sigset_t passed_on; /* all signals that were */
    bool failed;        /* a rank has failed */
    bool local_done;    /* nothing runs here any more, but the other nodes have not ended yet */
    int first_failed; /* the rank of this node that failed first, -1 = not known (yet); counted from 0 as `ranks` is */
    struct tti_shutdown *shutdown; /* with the launchers of the other nodes; NULL = there are none */
    int launcher_code;             /* exit code when the launcher ended the job itself, 0 = it did not */
    int terminal_pipe;             /* rank 0's standard input when ours is a terminal, else -1 */
    char input[4096];              /* read from the terminal, not taken by rank 0 yet */
    size_t input_start;
    size_t input_end;
};

#endif
