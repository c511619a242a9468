/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_PROCESS_ENVIRONMENT_H
#define TOOLS_RUN_PROCESS_ENVIRONMENT_H

#include "run/identity.h"
#include "run/options.h"

/* The environment of one rank of this node as execve takes it, with the descriptor of its flight recorder (-1 = none);
 * without `inherits` only the variables that the launcher itself sets, for --dry-run. NULL when memory is exhausted. */
char **tti_run_environment(const struct tti_run_options *options, const struct tti_job_identity *identity, int local,
                           int flight_fd, bool inherits);
void tti_run_environment_free(char **environment);

#endif
