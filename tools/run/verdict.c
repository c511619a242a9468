/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which rank failed first? When one rank dies, the others notice within microseconds and exit with errors of their own,
 * while the kernel may take hundreds of milliseconds to tear down the memory of the dead one (or seconds to write its
 * core dump) before its parent hears of it. The first death that the launcher hears of is therefore often a victim.
 *
 * So at the first failure everyone who has failed, or is on the way out according to /proc, becomes a suspect; the
 * verdict waits for the suspects only. Among them, one that was killed by a signal that programs do not send themselves
 * is the culprit, else the one that ended first.
 */
#include "job.h"

#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"

static bool has_failed(const struct tti_rank *rank)
{
    return !rank->running && !(WIFEXITED(rank->status) && WEXITSTATUS(rank->status) == 0);
}

/* SIGABRT and SIGPIPE are what a program makes of an error that somebody else may have caused. */
static bool was_struck(const struct tti_rank *rank)
{
    return WIFSIGNALED(rank->status) && WTERMSIG(rank->status) != SIGABRT && WTERMSIG(rank->status) != SIGPIPE;
}

void tti_job_note_end(struct tti_job *job, int rank, int status)
{
    struct tti_rank *ended = &job->ranks[rank];
    ended->running = false;
    ended->status = status;
    ended->ended_ns = tti_now_ns();
    ended->order = ++job->ended;
    job->running--;
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

static void describe(struct tti_job *job, int index)
{
    const struct tti_rank *rank = &job->ranks[index];
    double seconds = tti_job_rank_seconds(rank);
    if (WIFSIGNALED(rank->status)) {
        int number = WTERMSIG(rank->status);
        const char *name = sigabbrev_np(number);
        const char *core = WCOREDUMP(rank->status) ? ", core dumped" : "";
        if (name) {
            tti_output_message(job->output, "rank %d killed by SIG%s after %.1f s (pid %d%s)", index, name, seconds,
                               (int)rank->pid, core);
        } else {
            tti_output_message(job->output, "rank %d killed by signal %d after %.1f s (pid %d%s)", index, number,
                               seconds, (int)rank->pid, core);
        }
        return;
    }
    tti_output_message(job->output, "rank %d exited with code %d after %.1f s (pid %d)", index,
                       WEXITSTATUS(rank->status), seconds, (int)rank->pid);
}

void tti_job_judge(struct tti_job *job)
{
    if (!job->failed || job->culprit >= 0) {
        return;
    }
    const struct tti_rank *worst = NULL;
    for (int i = 0; i < job->started; i++) {
        const struct tti_rank *rank = &job->ranks[i];
        if (rank->suspect && rank->running) {
            return;
        }
        if (!rank->suspect || !has_failed(rank)) {
            continue;
        }
        if (!worst || was_struck(rank) > was_struck(worst) ||
            (was_struck(rank) == was_struck(worst) && rank->order < worst->order)) {
            worst = rank;
        }
    }
    if (worst) {
        job->culprit = (int)(worst - job->ranks);
        describe(job, job->culprit);
    }
}

int tti_job_exit_code(const struct tti_job *job)
{
    if (job->launcher_code != 0) {
        return job->launcher_code;
    }
    if (job->culprit >= 0) {
        int status = job->ranks[job->culprit].status;
        return WIFSIGNALED(status) ? TTI_EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
    }
    return job->failed ? TTI_EXIT_FAILED : 0;
}
