/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_JOB_START_H
#define TOOLS_RUN_JOB_START_H

#include "run/job/job.h"

/* Starts all ranks. False: nothing runs or some do, job->launcher_code is set, and the reason has been printed. */
bool tti_job_start(struct tti_job *job, const char *path);

#endif
