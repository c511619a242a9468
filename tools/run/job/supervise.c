/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The poll loop of a running job. It sleeps until something happens: a rank writes, a signal arrives (a child's death
 * is one), the terminal takes output again, a deadline passes.
 *
 *   RUNNING   until all ranks have ended well, one has failed, or --timeout has passed
 *   ENDING    SIGTERM was sent to all ranks and their process groups; after the grace period
 *   KILLED    SIGKILL was sent
 *
 * The job is over when no rank runs and the launcher has no other children: being a child subreaper it inherits
 * whatever the ranks leave behind, also processes that have left the group. They are ended the same way, so that a
 * finished job has no process left.
 */
#include "run/job/supervise.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "common/exit_codes.h"
#include "common/process.h"
#include "run/job/first_failure.h"
#include "run/job/flight_report.h"
#include "run/job/output.h"
#include "run/job/start.h"
#include "run/nodes/shutdown.h"

#define PARTIAL_LINE_MS 200   /* how long an unfinished line of rank 0 waits for the rest */
#define KILLED_MS       10000 /* how long a process may take to die of SIGKILL */
#define MAX_ORPHANS     256

/* Children that are neither a rank nor the guard: what ranks have left behind. */
static size_t find_orphans(const struct tti_job *job, pid_t *orphans)
{
    size_t count = tti_process_children(getpid(), orphans, MAX_ORPHANS);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        bool known = orphans[i] == job->guard;
        for (int rank = 0; rank < job->started && !known; rank++) {
            known = job->ranks[rank].running && job->ranks[rank].pid == orphans[i];
        }
        if (!known) {
            orphans[kept++] = orphans[i];
        }
    }
    return kept;
}

/* Whether the number of the process group is still the job's: a member that has not been reaped keeps it. */
static bool owns_group(const struct tti_job *job)
{
    if (job->guard > 0) {
        return true;
    }
    for (int rank = 0; rank < job->started; rank++) {
        if (job->ranks[rank].running && getpgid(job->ranks[rank].pid) == job->group) {
            return true;
        }
    }
    return false;
}

/* To all members of the job's process group, of which the guard blocks all but SIGKILL, and to the ranks that have left
 * it (timeout, setsid). These come second: a rank that leaves it meanwhile may get the signal twice, but never misses
 * it.
 */
static void signal_ranks(const struct tti_job *job, int number)
{
    if (owns_group(job)) {
        kill(-job->group, number);
    }
    for (int i = 0; i < job->started; i++) {
        const struct tti_rank *rank = &job->ranks[i];
        const pid_t group = rank->running ? getpgid(rank->pid) : job->group;
        if (group != job->group) { /* a group that the rank does not lead may have members outside the job */
            kill(group == rank->pid ? -group : rank->pid, number);
        }
    }
}

static void signal_orphans(const struct tti_job *job, int number)
{
    pid_t orphans[MAX_ORPHANS];
    size_t count = find_orphans(job, orphans);
    for (size_t i = 0; i < count; i++) {
        kill(orphans[i], number);
    }
}

static void kill_job(struct tti_job *job)
{
    job->state = TTI_JOB_KILLED;
    job->state_deadline_ns = tti_deadline_ns(tti_now_ns(), KILLED_MS);
    signal_ranks(job, SIGKILL);
    signal_orphans(job, SIGKILL);
}

void tti_job_stop(struct tti_job *job)
{
    if (job->state != TTI_JOB_RUNNING) {
        return;
    }
    if (job->options->grace_ms == 0) {
        kill_job(job);
        return;
    }
    job->state = TTI_JOB_ENDING;
    job->state_deadline_ns = tti_deadline_ns(tti_now_ns(), job->options->grace_ms);
    if (job->forwarded != SIGTERM) {
        signal_ranks(job, SIGTERM);
    }
    signal_orphans(job, SIGTERM);
    /* A stopped process sees SIGTERM only when it goes on. */
    signal_ranks(job, SIGCONT);
}

/* With --keep-going: whether the job goes on, or has ended well all the same, without the ranks that have failed. */
static bool can_continue(const struct tti_job *job)
{
    bool well = job->running > 0;
    for (int rank = 0; rank < job->started && !well; rank++) {
        well = WIFEXITED(job->ranks[rank].status) && WEXITSTATUS(job->ranks[rank].status) == 0;
    }
    return job->options->keep_going && well;
}

static void print_lost_rank(const struct tti_job *job, int rank)
{
    const struct tti_rank *r = &job->ranks[rank];
    char what[200];
    char last[300] = "";
    tti_job_describe(what, sizeof(what), r->status, tti_job_rank_seconds(r), (int)r->pid);
    tti_job_last_operation(job, rank, last, sizeof(last));
    if (job->running > 0) {
        tti_output_message(job->output, "rank %d %s%s; %d go%s on", rank, what, last, job->running,
                           job->running == 1 ? "es" : "");
    } else {
        tti_output_message(job->output, "rank %d %s%s", rank, what, last);
    }
}

/* After a failure. */
static void stop_if_failed(struct tti_job *job)
{
    if (job->state == TTI_JOB_RUNNING && !can_continue(job) && !tti_job_awaits_cause(job)) {
        tti_job_find_suspects(job);
        tti_job_stop(job);
    }
}

/* `first` is the child whose death was announced: when several died, it was the first one. */
static void reap(struct tti_job *job, pid_t first)
{
    bool failure = false;
    int status = 0;
    pid_t pid = first > 0 ? waitpid(first, &status, WNOHANG) : 0;
    if (pid <= 0) {
        pid = waitpid(-1, &status, WNOHANG);
    }
    for (; pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        if (pid == job->guard) {
            job->guard = 0;
            continue;
        }
        for (int rank = 0; rank < job->started; rank++) {
            if (job->ranks[rank].running && job->ranks[rank].pid == pid) {
                tti_job_record_end(job, rank, status);
                const bool failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
                failure = failure || failed;
                if (failed && job->state == TTI_JOB_RUNNING && job->options->keep_going) {
                    print_lost_rank(job, rank);
                }
                if (job->options->verbose && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
                    tti_output_message(job->output, "rank %d ended after %.1f s", job->identity->first_rank + rank,
                                       tti_job_rank_seconds(&job->ranks[rank]));
                }
                break;
            }
        }
    }
    if (failure || job->cause_deadline_ns != 0) {
        stop_if_failed(job);
    }
    tti_job_find_first_failed(job);
}

static void forward(struct tti_job *job, int number)
{
    if (number == SIGINT && ++job->interrupts > 1) {
        tti_output_message(job->output, "interrupted again: killing all ranks");
        if (!job->failed && job->launcher_code == 0) {
            job->launcher_code = TTI_EXIT_SIGNAL + SIGINT;
        }
        kill_job(job);
        return;
    }
    sigaddset(&job->passed_on, number);
    if (number != SIGUSR1 && number != SIGUSR2) {
        job->forwarded = number;
        if (job->local_done && job->launcher_code == 0) { /* no rank is here to make a failure of it */
            job->launcher_code = TTI_EXIT_SIGNAL + number;
        }
    }
    if (job->options->verbose) {
        tti_output_message(job->output, "passing SIG%s on to the ranks", sigabbrev_np(number));
    }
    signal_ranks(job, number);
}

static void handle_signals(struct tti_job *job)
{
    struct signalfd_siginfo info;
    while (read(job->signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        switch ((int)info.ssi_signo) {
        case SIGCHLD:
            reap(job, (pid_t)info.ssi_pid);
            break;
        case SIGTSTP:
            /* Ctrl-Z stops the job as it would stop a single program. */
            signal_ranks(job, SIGTSTP);
            raise(SIGSTOP);
            break;
        case SIGCONT:
            signal_ranks(job, SIGCONT);
            break;
        case SIGQUIT: /* Ctrl-\, or kill -QUIT: print what the ranks are doing; the job goes on */
            tti_report_hang(job);
            break;
        default:
            forward(job, (int)info.ssi_signo);
        }
    }
}

static void handle_deadlines(struct tti_job *job)
{
    int64_t now = tti_now_ns();
    if (job->local_done) {
        return;
    }
    if (job->state == TTI_JOB_RUNNING && now >= job->timeout_deadline_ns) {
        tti_output_message(job->output, "the job ran longer than %.1f s (--timeout): ending it",
                           (double)job->options->timeout_ms / 1000);
        job->launcher_code = TTI_EXIT_TIMEOUT;
        if (job->shutdown) {
            tti_shutdown_announce_timeout(job->shutdown);
        }
        tti_report_hang(job);
        tti_job_stop(job);
    } else if (job->state == TTI_JOB_RUNNING && job->cause_deadline_ns != 0) {
        stop_if_failed(job);
        tti_job_find_first_failed(job);
    } else if (job->state == TTI_JOB_ENDING && now >= job->state_deadline_ns) {
        if (job->running > 0) {
            tti_output_message(job->output, "%d rank%s did not end within %.1f s of SIGTERM: killing", job->running,
                               job->running == 1 ? "" : "s", (double)job->options->grace_ms / 1000);
        }
        kill_job(job);
    }
}

/* True when nothing of the job runs any more (or nothing helps any more). */
static bool is_over(struct tti_job *job)
{
    bool hopeless = job->state == TTI_JOB_KILLED && tti_now_ns() >= job->state_deadline_ns;
    if (job->running > 0 && !hopeless) {
        return false;
    }
    pid_t orphans[MAX_ORPHANS];
    size_t count = find_orphans(job, orphans);
    if (count == 0 && job->running == 0) {
        return true;
    }
    if (hopeless) {
        /* A process that does not end keeps its children: they have not become the launcher's. */
        tti_process_kill_job(owns_group(job) ? job->group : -1, job->identity->job_prefix);
        tti_output_message(job->output, "%zu process%s did not die of SIGKILL (waiting in the kernel?) and stay behind",
                           count + (size_t)job->running, count + (size_t)job->running == 1 ? "" : "es");
        job->launcher_code = job->launcher_code ? job->launcher_code : TTI_EXIT_FAILED;
        return true;
    }
    if (job->state == TTI_JOB_RUNNING) {
        if (job->options->verbose) {
            tti_output_message(job->output, "the ranks have left %zu process%s behind: ending them", count,
                               count == 1 ? "" : "es");
        }
        tti_job_stop(job);
    } else if (job->state == TTI_JOB_KILLED) {
        signal_orphans(job, SIGKILL); /* those that became ours only now */
    }
    return false;
}

static void close_terminal(struct tti_job *job)
{
    if (job->terminal_pipe >= 0) {
        close(job->terminal_pipe);
        job->terminal_pipe = -1;
    }
}

/* The terminal to rank 0. A launcher in the background does not read: it would be stopped. */
static struct pollfd poll_terminal(const struct tti_job *job)
{
    if (job->terminal_pipe >= 0 && job->input_end > job->input_start) {
        return (struct pollfd){.fd = job->terminal_pipe, .events = POLLOUT};
    }
    const bool reads = job->terminal_pipe >= 0 && tcgetpgrp(STDIN_FILENO) == getpgrp();
    return (struct pollfd){.fd = reads ? STDIN_FILENO : -1, .events = POLLIN};
}

static void handle_terminal(struct tti_job *job, const struct pollfd *entry)
{
    if (entry->revents == 0 || job->terminal_pipe < 0) {
        return;
    }
    if (entry->fd == STDIN_FILENO) {
        ssize_t length = read(STDIN_FILENO, job->input, sizeof(job->input));
        if (length > 0) {
            job->input_start = 0;
            job->input_end = (size_t)length;
        } else if (length == 0 || (errno != EINTR && errno != EAGAIN)) {
            close_terminal(job);
        }
        return;
    }
    ssize_t written = write(job->terminal_pipe, job->input + job->input_start, job->input_end - job->input_start);
    if (written > 0) {
        job->input_start += (size_t)written;
    } else if (errno != EINTR && errno != EAGAIN) {
        close_terminal(job); /* rank 0 reads no more */
    }
}

static int poll_timeout(const struct tti_job *job)
{
    int64_t deadline = job->state != TTI_JOB_RUNNING ? job->state_deadline_ns : job->timeout_deadline_ns;
    if (job->state == TTI_JOB_RUNNING && job->cause_deadline_ns != 0 && job->cause_deadline_ns < deadline) {
        deadline = job->cause_deadline_ns;
    }
    deadline = job->local_done ? TTI_NEVER : deadline;
    const int left = tti_poll_ms(deadline);
    return tti_output_has_partial(job->output) && (left < 0 || left > PARTIAL_LINE_MS) ? PARTIAL_LINE_MS : left;
}

/* Whether all is over, on the other nodes as well. */
static bool is_over_everywhere(struct tti_job *job)
{
    const bool over = is_over(job);
    if (!job->shutdown) {
        return over;
    }
    job->local_done = over;
    tti_shutdown_step(job->shutdown, job, over);
    return over && tti_shutdown_is_done(job->shutdown);
}

/* Entries: signals, other nodes, the terminal, the output. `entries` has room for all. Poll passes over -1. */
static void supervise(struct tti_job *job, struct pollfd *entries)
{
    const int nodes_fd = job->shutdown ? tti_shutdown_fd(job->shutdown) : -1;
    struct pollfd *const output = entries + 3;
    while (!is_over_everywhere(job)) {
        entries[0] = (struct pollfd){.fd = job->signals->fd, .events = POLLIN};
        entries[1] = (struct pollfd){.fd = nodes_fd, .events = POLLIN};
        entries[2] = poll_terminal(job);
        const size_t count = 3 + tti_output_poll(job->output, output);
        int ready = poll(entries, count, poll_timeout(job));
        if (ready == 0) {
            tti_output_show_partial(job->output);
        }
        if (ready >= 0) {
            tti_output_handle(job->output, output);
            handle_terminal(job, &entries[2]);
            handle_signals(job);
        }
        handle_deadlines(job);
    }
}

/* Writes the output that is queued for the terminal; an impatient user may end that. After --timeout it writes only
 * what is taken at once. Returns 0 if all is written, else the exit code that says what has ended it. */
static int flush(struct tti_job *job, struct pollfd *entries)
{
    int code = 0;
    while (tti_output_pending(job->output) && code == 0) {
        code = tti_remaining_ms(job->timeout_deadline_ns) == 0 ? TTI_EXIT_TIMEOUT : 0;
        entries[0] = (struct pollfd){.fd = job->signals->fd, .events = POLLIN};
        size_t count = 1 + tti_output_poll(job->output, entries + 1);
        if (poll(entries, count, tti_poll_ms(job->timeout_deadline_ns)) <= 0) {
            continue;
        }
        tti_output_handle(job->output, entries + 1);
        struct signalfd_siginfo info;
        if (entries[0].revents && read(job->signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
            (info.ssi_signo == SIGINT || info.ssi_signo == SIGTERM || info.ssi_signo == SIGHUP)) {
            code = TTI_EXIT_SIGNAL + (int)info.ssi_signo;
        }
    }
    return tti_output_pending(job->output) ? code : 0;
}

/* Standard error may have room, although standard output has none. */
static void report_unwritten(struct tti_job *job, struct pollfd *entries, int code)
{
    const bool late = code == TTI_EXIT_TIMEOUT;
    tti_output_message(job->output, "the ranks' output is incomplete: its reader had not taken all of it before %s%s",
                       late ? "--timeout" : "SIG", late ? "" : sigabbrev_np(code - TTI_EXIT_SIGNAL));
    tti_output_poll(job->output, entries);
    tti_output_handle(job->output, entries);
}

/* Whether it makes sense to start the ranks again. A rank that has handled SIGUSR1 or SIGUSR2 may fail for another
 * reason later; one that was killed by it did what its user said. */
static bool is_failed_by_rank(const struct tti_job *job)
{
    const int status = job->first_failed >= 0 ? job->ranks[job->first_failed].status : 0;
    const bool by_user = WIFSIGNALED(status) && sigismember(&job->passed_on, WTERMSIG(status)) == 1;
    return job->failed && job->launcher_code == 0 && job->forwarded == 0 && !by_user;
}

int tti_run_job(const struct tti_run_options *options, const struct tti_job_identity *identity,
                const struct tti_signals *signals, const char *path, struct tti_shutdown *shutdown, pid_t *guard,
                bool *failed_by_rank)
{
    size_t streams = (size_t)options->ranks * 2;
    struct tti_job job = {
        .options = options,
        .identity = identity,
        .signals = signals,
        .output = tti_output_new(streams, options->prefix && identity->world_size > 1 && options->only_rank < 0),
        .ranks = calloc((size_t)options->ranks, sizeof(struct tti_rank)),
        .group = *guard,
        .guard = *guard,
        .timeout_deadline_ns = tti_deadline_ns(tti_now_ns(), options->timeout_ms),
        .first_failed = -1,
        .shutdown = shutdown,
        .terminal_pipe = -1,
    };
    struct pollfd *entries = calloc(streams + 5, sizeof(*entries));
    int code = TTI_EXIT_FAILED;
    int unwritten = 0;
    if (job.output && job.ranks && entries) {
        for (int i = 0; i < options->ranks; i++) {
            job.ranks[i].flight_fd = -1;
        }
        if (!tti_job_start(&job, path)) {
            kill_job(&job);
        }
        supervise(&job, entries);
        close_terminal(&job);
        tti_output_drain(job.output);
        tti_job_find_first_failed(&job);
        unwritten = flush(&job, entries);
        tti_report_metrics(&job); /* after all lines, which may go to the same file */
        if (unwritten != 0) {
            report_unwritten(&job, entries, unwritten);
        } else {
            flush(&job, entries);
        }
        code = tti_job_exit_code(&job);
        code = code == 0 ? unwritten : code;
        code = code == 0 && tti_output_lost(job.output) ? TTI_EXIT_FAILED : code;
        tti_report_close(&job);
    }
    *failed_by_rank = is_failed_by_rank(&job) && unwritten == 0;
    *guard = job.guard;
    free(entries);
    free(job.ranks);
    tti_output_free(job.output);
    return code;
}
