/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts about the job from a PMIx server (Open MPI's mpirun, PRRTE, srun --mpi=pmix). */
#ifndef TTI_CORE_LAUNCHERS_PMIX_H
#define TTI_CORE_LAUNCHERS_PMIX_H

#include <stdbool.h>
#include <stddef.h>

/* The name of the host of rank 0 of this process's job. False, with the reason: there is no server, or no plug-in for
 * it. From then on the process is a client of the server, until it ends. */
bool tti_pmix_first_host(char *host, size_t capacity, char *why, size_t why_capacity);

#endif
