/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TTI_RUN_PROCESS_ENVIRONMENT_H
#define TTI_RUN_PROCESS_ENVIRONMENT_H

#include "run/identity.h"
#include "run/options.h"

/* The environment of one rank as execve takes it, with the descriptor of its flight recorder (-1 = none); NULL when
 * memory is exhausted. */
char **tti_run_environment(const struct tti_run_options *options, const struct tti_job_identity *identity, int rank,
                           int flight_fd);
void tti_run_environment_free(char **environment);

/* The variables that the launcher itself sets, closed by NULL, for --dry-run. Freed by tti_run_environment_free. */
char **tti_run_environment_own(const struct tti_run_options *options, const struct tti_job_identity *identity,
                               int rank);

#endif
