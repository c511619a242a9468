/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * `tutti run`, the launcher of one node: a host, or a part of one. Who is who:
 *
 *   options.c      the command line
 *   environment.c  the variables that each rank gets
 *   affinity.c     which CPUs each rank gets
 *   launch.c       finding the program, fork and exec
 *   guard.c        a small process that cleans up when the launcher itself is killed
 *   process.c      questions to /proc
 *   output.c       lines of the ranks to the terminal
 *   start.c        starting a job: pipes, log files, standard input, processes
 *   supervise.c    the poll loop: output, signals, deaths, deadlines
 *   first_failure.c      which rank failed first, and how it is told
 *   report.c       what the ranks were doing, from their flight recorders
 *   run.c          one job after the other (restarts)
 *   nodes.h        several nodes: rendezvous.c, link.c, shutdown.c
 */
#ifndef TTI_TOOLS_RUN_H
#define TTI_TOOLS_RUN_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../common/cpus.h"

#define TTI_MAX_RANKS 4096
#define TTI_MAX_NODES 512 /* each costs node 0 two threads */

/* Exit codes of the launcher itself, as shells and timeout(1) use them. */
#define TTI_EXIT_TIMEOUT        124
#define TTI_EXIT_FAILED         125 /* the launcher could not do its work */
#define TTI_EXIT_NOT_EXECUTABLE 126
#define TTI_EXIT_NOT_FOUND      127
#define TTI_EXIT_SIGNAL         128 /* plus the signal's number */

enum tti_bind { TTI_BIND_NONE, TTI_BIND_CORE, TTI_BIND_NUMA };

struct tti_run_options {
    int ranks;
    int cpus_usable;          /* affinity, --cpus and cgroup quota taken together */
    struct tti_cpu_list cpus; /* the CPUs the job may use */
    bool cpus_given;
    enum tti_bind bind;
    const char *backend; /* NULL = not said */
    int64_t timeout_ms;  /* -1 = none */
    int64_t grace_ms;
    int max_restarts;
    bool keep_going; /* ranks that fail are lost, and no more */
    int nodes;       /* launchers that make up the job */
    int node_rank;
    const char *master_addr; /* NULL = not said */
    int master_port;
    int64_t join_timeout_ms;
    int64_t node_timeout_ms;
    const char *log_dir; /* NULL = none */
    const char *trace_dir;
    const char *metrics_file;
    int only_rank; /* -1 = all */
    bool prefix;
    bool dry_run;
    bool verbose;
    const char **env; /* --env K=V, in the order given */
    size_t env_count;
    char **program; /* the program and its arguments, closed by NULL */
};

/* Reads the command line. Does not return on --help or a usage error (exit 0 or 2). */
void tti_run_options_parse(struct tti_run_options *options, int argc, char **argv);
void tti_run_options_free(struct tti_run_options *options);

/* The affinity of one rank; `list` is empty when the rank keeps the launcher's mask. False when memory is exhausted. */
bool tti_run_affinity(const struct tti_run_options *options, int rank, struct tti_cpu_list *list);

/* What all ranks of one job share. */
struct tti_job_identity {
    char name[80];       /* run-PID-RANDOM, plus .N after restart N */
    char job_prefix[64]; /* run-PID-RANDOM: begins the name of every job of this launcher */
    int restart;
    int port;        /* MASTER_PORT for torch: free, and held by the launcher of node 0 (bound, not listening) */
    int first_rank;  /* of this node */
    int world_size;  /* of all nodes */
    char store[320]; /* where the ranks meet */
};

/* The environment of one rank as execve takes it, with the descriptor of its flight recorder (-1 = none); NULL when memory
 * is exhausted. */
char **tti_run_environment(const struct tti_run_options *options, const struct tti_job_identity *identity, int rank,
                           int flight_fd);
void tti_run_environment_free(char **environment);

/* The variables that the launcher itself sets, closed by NULL, for --dry-run. Freed by tti_run_environment_free. */
char **tti_run_environment_own(const struct tti_run_options *options, const struct tti_job_identity *identity,
                               int rank);

/* Finds the program in PATH. Returns 0 and an allocated path, or the exit code and a sentence in `why`. */
int tti_run_find_program(const char *name, char **path, char *why, size_t capacity);

/* What a new rank gets. */
struct tti_spawn {
    const char *path;
    char **arguments;
    char **environment;
    int stdin_fd; /* -1 = the launcher's */
    int stdout_fd;
    int stderr_fd;
    pid_t group;                     /* the process group to join */
    const struct tti_cpu_list *cpus; /* empty = unchanged */
    int flight_fd;                   /* of its flight recorder, kept open; -1 = none */
    const sigset_t *mask;            /* the signal mask to restore */
    void (*pipe_handler)(int);       /* the disposition of SIGPIPE to restore */
    size_t open_files;               /* the soft limit to restore */
    int ranks;                       /* of the job on this node, for sentences */
};

#define TTI_RUN_REASON_LENGTH 300 /* room for a reason */

/* Why a system call has failed; if the launcher has too few descriptors, with the limits and what so many ranks need. */
void tti_run_describe_errno(int errnum, int ranks, char *text, size_t capacity);

/* Starts a rank. Returns its process id once exec has succeeded; else -1 with the exit code and a sentence. */
pid_t tti_run_spawn(const struct tti_spawn *spawn, int *exit_code, char *why, size_t capacity);

/*
 * The guard: leads the process group that all ranks join, sleeps, and wakes when the launcher is gone to kill what is
 * left of the job (the group, and every process whose TUTTI_JOB begins with `mark`). Must be started while the
 * launcher has one thread. Returns its process id, or -1 with errno; *life is the descriptor whose closing wakes it.
 */
pid_t tti_guard_start(const char *job_prefix, int *alive_fd);

/* Ends the guard without letting it act, and reaps it unless that has happened already. */
void tti_guard_stop(pid_t guard, int alive_fd, bool reaped);

/* Children of a process, at most `capacity`; returns how many were found. Zombies are not counted. */
size_t tti_process_children(pid_t parent, pid_t *pids, size_t capacity);

/* Sends SIGKILL to all members of a process group and all processes of a job but the caller; returns how many. */
size_t tti_process_kill_job(pid_t group, const char *job_prefix);

/* Whether a process is past the point of no return: exiting, dumping core or a zombie. */
bool tti_process_is_ending(pid_t pid);

#endif
