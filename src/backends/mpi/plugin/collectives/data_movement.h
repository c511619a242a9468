/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that reduce nothing. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_DATA_MOVEMENT_H
#define TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_DATA_MOVEMENT_H

#include "backends/mpi/plugin/collectives/call.h"

tutti_status tti_mpi_run_data_movement(struct tti_mpi_call *c);
/* Whether MPI's plain functions can describe the parts: equal, contiguous, with int offsets. The answer is the same on
 * all ranks. */
bool tti_mpi_is_plain(const struct tti_mpi_group *g, const tutti_op *op, const tutti_parts *p);

#endif
