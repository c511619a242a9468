/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to /proc. */
#ifndef TOOLS_COMMON_PROCESS_H
#define TOOLS_COMMON_PROCESS_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Children of a process, at most `capacity`; returns how many were found. Zombies are not counted. */
size_t tti_process_children(pid_t parent, pid_t *pids, size_t capacity);

/* The next process id of an open /proc, 0 at the end. */
pid_t tti_process_next(DIR *proc);

/* The parent of a process; 0 if that cannot be known. */
pid_t tti_process_parent(pid_t pid);

/* Whether the environment that the process was started with has this TUTTI_JOB, or one that begins so. */
bool tti_process_is_of_job(pid_t pid, const char *job, bool is_prefix);

/* Sends SIGKILL to all members of a process group (-1: none) and all processes of a job but the caller; returns how
 * many. */
size_t tti_process_kill_job(pid_t group, const char *job_prefix);

/* Whether a process is past the point of no return: exiting, dumping core or a zombie. */
bool tti_process_is_ending(pid_t pid);

#endif
