/* SPDX-License-Identifier: BSD-3-Clause */
/* For sub-commands that need ranks: are we one already, how many would we start, with which backend, and start them. */
#ifndef TOOLS_COMMON_LAUNCHER_H
#define TOOLS_COMMON_LAUNCHER_H

#include <stdbool.h>
#include <tutti/group.h>

/* True inside `tutti run`, torchrun, mpirun, srun, ...: the environment holds the number of ranks. */
bool tti_in_launcher(void);

/* Ranks to start without -n: one per CPU, two at least. */
int tti_default_ranks(void);

/* Whether a backend of that name can be used here; if not, prints the reason on standard error, as `tool` ("tutti
 * check"). NULL, "auto" and "cpu:shm,..." are the library's to judge. */
bool tti_backend_usable(const char *tool, const char *name);

/* Whether the ranks of that backend are threads of one process. */
bool tti_backend_has_threads(const char *name);

/* What each rank runs, in the group of all; returns its exit code. */
typedef int tti_rank_function(tutti_group *group, const void *options);

/* Runs the ranks as threads of this process. Returns the exit code: 0 if that of each rank was. */
int tti_run_as_threads(const char *tool, int ranks, tti_rank_function *run, const void *options);

/* Joins the job of the environment with `config`, on `device` (NULL: as the library decides), and runs this rank.
 * Returns the exit code: TTI_EXIT_USAGE unless the job has so many ranks (0: any number). */
int tti_run_as_rank(const char *tool, int ranks, tutti_config config, const char *device, tti_rank_function *run,
                    const void *options);

/* Becomes `tutti run -n RANKS -- tutti COMMAND ARGUMENTS...`; the arguments are closed by NULL. If that fails, prints
 * why and returns 1. */
int tti_launch_self(const char *command, int ranks, const char *const *arguments);

#endif
