/* SPDX-License-Identifier: BSD-3-Clause */
/* One group at a time creates its communicators, where MPI does not allow calls from several threads at once. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_CREATION_LOCK_H
#define TTI_BACKENDS_MPI_PLUGIN_CREATION_LOCK_H

#include <tutti/backend.h>

/* Waits until every member's process creates communicators for this group and for no other. OK: tti_mpi_creation_unlock
 * is due. `world_ranks`: the members' ranks in MPI_COMM_WORLD. */
tutti_status tti_mpi_creation_lock(const tutti_open_info *info, const int32_t *world_ranks, tutti_error *error);
void tti_mpi_creation_unlock(void);

#endif
