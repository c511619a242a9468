/* SPDX-License-Identifier: BSD-3-Clause */
/* Which job of a PMI launcher (hydra: MPICH, Intel MPI) this process belongs to. */
#ifndef TTI_CORE_LAUNCHERS_HYDRA_H
#define TTI_CORE_LAUNCHERS_HYDRA_H

#include <stdbool.h>
#include <stddef.h>

/* Writes a text that all ranks of the job on this host share and no other job has. False if there is no proxy. */
bool tti_hydra_job(char *text, size_t capacity);

#endif
