/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_RUN_PROCESS_GUARD_H
#define TOOLS_RUN_PROCESS_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

/*
 * The guard: leads the process group that all ranks join, sleeps, and wakes when the launcher has ended. Then it kills
 * what is left of the job: the group, and every process whose TUTTI_JOB begins with `job_prefix`. Must be started while
 * the launcher has one thread. Returns its process id, or -1 with errno; *alive_fd is the descriptor whose closing
 * wakes it.
 */
pid_t tti_guard_start(const char *job_prefix, int *alive_fd);

/* Ends the guard without letting it act, and reaps it unless that has happened already. */
void tti_guard_stop(pid_t guard, int alive_fd, bool reaped);

#endif
