/* SPDX-License-Identifier: BSD-3-Clause */
/* Which rank failed first, and how it ended. */
#ifndef TOOLS_RUN_JOB_FIRST_FAILURE_H
#define TOOLS_RUN_JOB_FIRST_FAILURE_H

#include "run/job/job.h"

/* Notes that a rank has ended. */
void tti_job_record_end(struct tti_job *job, int rank, int status);

/* Whether all ranks that have failed did so because another one had left, which may not have ended yet. Not for
 * long. */
bool tti_job_awaits_cause(struct tti_job *job);

/* Notes which ranks may be the cause. Called at the first failure, before the job is ended. */
void tti_job_find_suspects(struct tti_job *job);

/* Names the rank that failed first as soon as all suspects have ended; with several nodes, and with --keep-going, only
 * notes it. */
void tti_job_find_first_failed(struct tti_job *job);

/* Whether a failure was seen and all suspects have ended. */
bool tti_job_suspects_ended(const struct tti_job *job);

/* How a rank has ended, in words that follow its name. */
void tti_job_describe(char *text, size_t capacity, int status, double seconds, int pid);

/* "; last operation: all_reduce #5 ...", or nothing if the rank has made none. */
void tti_job_last_operation(const struct tti_job *job, int rank, char *text, size_t capacity);

/* Whether a status of waitpid is that of a program killed by a signal that programs do not send themselves. */
bool tti_status_is_crash(int status);

/* Seconds since a rank was started, until it ended or until now. */
double tti_job_rank_seconds(const struct tti_rank *rank);

/* The exit code of the whole job. */
int tti_job_exit_code(const struct tti_job *job);

#endif
