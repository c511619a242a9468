/* SPDX-License-Identifier: BSD-3-Clause */
/* What a PMIx server (of Open MPI's mpirun, PRRTE, srun --mpi=pmix) knows about the job. */
#ifndef TTI_CORE_PMIX_H
#define TTI_CORE_PMIX_H

#include <stdbool.h>
#include <stddef.h>

/* The name of the host that rank 0 of this process's job runs on. False, with the reason: there is no server, or no plug-in to
 * ask it. The process is a client of the server from then on, until it ends. */
bool tti_pmix_first_host(char *host, size_t capacity, char *why, size_t why_capacity);

#endif
