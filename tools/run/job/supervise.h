/* SPDX-License-Identifier: BSD-3-Clause */
/* The poll loop of a job. */
#ifndef TOOLS_RUN_JOB_SUPERVISE_H
#define TOOLS_RUN_JOB_SUPERVISE_H

#include "run/identity.h"
#include "run/job/job.h"
#include "run/options.h"

/* Ends all ranks: SIGTERM now, SIGKILL after the grace period. */
void tti_job_stop(struct tti_job *job);

/* Runs the program on all ranks once and returns the exit code; *failed_by_rank: a rank has failed, so a restart makes
 * sense. *guard becomes 0 if the guard ended and was reaped. */
int tti_run_job(const struct tti_run_options *options, const struct tti_job_identity *identity,
                const struct tti_signals *signals, const char *path, struct tti_shutdown *shutdown, pid_t *guard,
                bool *failed_by_rank);

#endif
