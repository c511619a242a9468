/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of one running job, shared by start.c, supervise.c and first_failure.c. */
#ifndef TTI_TOOLS_RUN_JOB_H
#define TTI_TOOLS_RUN_JOB_H

#include "output.h"
#include "run.h"

/* How the launcher hears of signals: all it handles are blocked and read from a descriptor. */
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
    int interrupts;
    int forwarded;    /* the last ending signal that was passed on, 0 = none */
    bool failed;      /* a rank has failed */
    bool local_done;  /* nothing runs here any more, but the other nodes have not ended yet */
    int first_failed; /* the rank of this node that failed first, -1 = not known (yet); counted from 0 as `ranks` is */
    struct tti_shutdown *shutdown; /* with the launchers of the other nodes; NULL = there are none */
    int launcher_code;             /* exit code when the launcher ended the job itself, 0 = it did not */
    int terminal_pipe;             /* rank 0's standard input when ours is a terminal, else -1 */
    char input[4096];              /* read from the terminal, not taken by rank 0 yet */
    size_t input_start;
    size_t input_end;
};

/* Starts all ranks. False: nothing runs or some do, job->launcher_code is set, and the reason has been told. */
bool tti_job_start(struct tti_job *job, const char *path);

/* Notes that a rank has ended. */
void tti_job_record_end(struct tti_job *job, int rank, int status);

/* Called when the first failure was seen, before anything is done about it: who could be its cause? */
void tti_job_find_suspects(struct tti_job *job);

/* Names the culprit as soon as all suspects have ended; with several nodes only notes it. */
void tti_job_find_first_failed(struct tti_job *job);

/* Whether a failure was seen and all suspects have ended. */
bool tti_job_suspects_ended(const struct tti_job *job);

/* How a rank has ended, in words that follow its name. */
void tti_job_describe(char *text, size_t capacity, int status, double seconds, int pid);

/* "; last operation: all_reduce #5 ...", or nothing if the rank has made none. */
void tti_job_last_operation(const struct tti_job *job, int rank, char *text, size_t capacity);

/* Whether a status of waitpid is that of a program killed by a signal that programs do not send themselves. */
bool tti_status_is_crash(int status);

/* Ends all ranks: SIGTERM now, SIGKILL after the grace period. */
void tti_job_stop(struct tti_job *job);

/* Seconds since a rank was started, until it ended or until now. */
double tti_job_rank_seconds(const struct tti_rank *rank);

/* The exit code of the whole job. */
int tti_job_exit_code(const struct tti_job *job);

/* Runs the program on all ranks once and returns the exit code; *failed_by_rank tells whether a restart makes sense.
 * *guard becomes 0 if the guard ended and was reaped. */
int tti_run_job(const struct tti_run_options *options, const struct tti_job_identity *identity,
                const struct tti_signals *signals, const char *path, struct tti_shutdown *shutdown, pid_t *guard,
                bool *failed_by_rank);

#endif
