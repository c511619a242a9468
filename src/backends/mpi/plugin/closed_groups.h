/* SPDX-License-Identifier: BSD-3-Clause */
/* The communicators of groups that this rank has closed, until other ranks have closed the groups, too. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_CLOSED_GROUPS_H
#define TTI_BACKENDS_MPI_PLUGIN_CLOSED_GROUPS_H

#include "backends/mpi/plugin/types.h"

/* Takes over the communicators of a group that has not failed, and tells the other ranks. */
void tti_mpi_keep_closed(const struct tti_mpi_group *g);
/* Receives the last messages of ranks that have closed a group which is open here: struct tti_mpi_group. */
void tti_mpi_receive_closed(struct tti_mpi_group *g);
/* Frees those that can receive no message any more. False: some may still become free. Does not wait. */
bool tti_mpi_free_closed(void);

#endif
