/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to /proc. */
#ifndef TTI_RUN_PROCESS_PROCESS_H
#define TTI_RUN_PROCESS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Children of a process, at most `capacity`; returns how many were found. Zombies are not counted. */
size_t tti_process_children(pid_t parent, pid_t *pids, size_t capacity);

/* Sends SIGKILL to all members of a process group and all processes of a job but the caller; returns how many. */
size_t tti_process_kill_job(pid_t group, const char *job_prefix);

/* Whether a process is past the point of no return: exiting, dumping core or a zombie. */
bool tti_process_is_ending(pid_t pid);

#endif
