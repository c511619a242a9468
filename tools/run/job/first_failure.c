/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank failed first? When one rank dies, the others notice within microseconds and exit with errors of their own.
 * The kernel may take hundreds of milliseconds to free the memory of the dead one, or seconds to write its core dump,
 * before its parent is notified. So the first death that reaches the launcher is often a consequence.
 *
 * A rank that leaves tells the others before its process ends, so they may end before it, too. A rank whose last
 * operation failed with PEER_LEFT or REVOKED is a consequence: the launcher waits for the rank that left, up to
 * CAUSE_MS. The record does not say which rank that is, so a rank that has ended with 0 does not end the wait.
 *
 * Then each rank that has failed or is ending according to /proc becomes a suspect. The launcher decides when all
 * suspects have ended. A suspect that was killed by a signal that programs do not send themselves is the cause; without
 * one, a suspect that is no consequence; of several, the one that ended first.
 */
#include "run/job/first_failure.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "common/exit_codes.h"
#include "common/process.h"
#include "run/job/flight_report.h"
#include "run/job/output.h"
#include "run/nodes/shutdown.h"

#define CAUSE_MS 5000

static bool has_failed(const struct tti_rank *rank)
{
    return !rank->running && !(WIFEXITED(rank->status) && WEXITSTATUS(rank->status) == 0);
}

/* A program ends itself by SIGABRT or SIGPIPE after an error, which another process may have caused. */
bool tti_status_is_crash(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) != SIGABRT && WTERMSIG(status) != SIGPIPE;
}

void tti_job_record_end(struct tti_job *job, int rank, int status)
{
    struct tti_rank *ended = &job->ranks[rank];
    ended->running = false;
    ended->status = status;
    ended->ended_ns = tti_now_ns();
    ended->order = ++job->ended;
    job->running--;
}

static bool is_consequence(const struct tti_job *job, int rank)
{
    const tutti_status last = has_failed(&job->ranks[rank]) ? tti_report_last_status(job, rank) : TUTTI_OK;
    return last == TUTTI_PEER_LEFT || last == TUTTI_REVOKED;
}

bool tti_job_awaits_cause(struct tti_job *job)
{
    bool awaits = job->running > 0;
    for (int i = 0; i < job->started && awaits; i++) {
        awaits = !has_failed(&job->ranks[i]) || is_consequence(job, i);
    }
    if (awaits && job->cause_deadline_ns == 0) {
        job->cause_deadline_ns = tti_deadline_ns(tti_now_ns(), CAUSE_MS);
    }
    return awaits && tti_now_ns() < job->cause_deadline_ns;
}

void tti_job_find_suspects(struct tti_job *job)
{
    job->failed = true;
    for (int i = 0; i < job->started; i++) {
        struct tti_rank *rank = &job->ranks[i];
        rank->suspect = rank->running ? tti_process_is_ending(rank->pid) : has_failed(rank);
    }
}

double tti_job_rank_seconds(const struct tti_rank *rank)
{
    return (double)((rank->running ? tti_now_ns() : rank->ended_ns) - rank->started_ns) / 1e9;
}

void tti_job_describe(char *text, size_t capacity, int status, double seconds, int pid)
{
    if (!WIFSIGNALED(status)) {
        snprintf(text, capacity, "exited with code %d after %.1f s (pid %d)", WEXITSTATUS(status), seconds, pid);
        return;
    }
    int number = WTERMSIG(status);
    const char *name = sigabbrev_np(number);
    const char *core = WCOREDUMP(status) ? ", core dumped" : "";
    if (name) {
        snprintf(text, capacity, "killed by SIG%s after %.1f s (pid %d%s)", name, seconds, pid, core);
    } else {
        snprintf(text, capacity, "killed by signal %d after %.1f s (pid %d%s)", number, seconds, pid, core);
    }
}

void tti_job_last_operation(const struct tti_job *job, int rank, char *text, size_t capacity)
{
    static const char before[] = "; last operation: ";
    snprintf(text, capacity, "%s", before);
    if (!tti_report_last_operation(job, rank, text + sizeof(before) - 1, capacity - sizeof(before) + 1)) {
        text[0] = '\0';
    }
}

bool tti_job_suspects_ended(const struct tti_job *job)
{
    for (int i = 0; i < job->started; i++) {
        if (job->ranks[i].suspect && job->ranks[i].running) {
            return false;
        }
    }
    return job->failed;
}

void tti_job_find_first_failed(struct tti_job *job)
{
    if (!tti_job_suspects_ended(job) || job->first_failed >= 0) {
        return;
    }
    const struct tti_rank *worst = NULL;
    int most = 0;
    for (int i = 0; i < job->started; i++) {
        const struct tti_rank *rank = &job->ranks[i];
        if (!rank->suspect || !has_failed(rank)) {
            continue;
        }
        const int weight = tti_status_is_crash(rank->status) ? 2 : is_consequence(job, i) ? 0 : 1;
        if (!worst || weight > most || (weight == most && rank->order < worst->order)) {
            worst = rank;
            most = weight;
        }
    }
    if (worst) {
        job->first_failed = (int)(worst - job->ranks);
        if (!job->shutdown && !job->options->keep_going) { /* with --keep-going each failure has been printed */
            char what[200];
            char last[300];
            tti_job_describe(what, sizeof(what), worst->status, tti_job_rank_seconds(worst), (int)worst->pid);
            tti_job_last_operation(job, job->first_failed, last, sizeof(last));
            tti_output_message(job->output, "rank %d %s%s", job->first_failed, what, last);
        }
    }
}

int tti_job_exit_code(const struct tti_job *job)
{
    if (job->shutdown) {
        return tti_shutdown_exit_code(job->shutdown);
    }
    if (job->launcher_code != 0) {
        return job->launcher_code;
    }
    if (job->first_failed >= 0) {
        int status = job->ranks[job->first_failed].status;
        return WIFSIGNALED(status) ? TTI_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return job->failed ? TTI_EXIT_FAILED : 0;
}
