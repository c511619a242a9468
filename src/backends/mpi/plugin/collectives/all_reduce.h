/* SPDX-License-Identifier: BSD-3-Clause */
/* all_reduce in steps that can be left at a deadline. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_ALL_REDUCE_H
#define TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_ALL_REDUCE_H

#include "backends/mpi/plugin/collectives/call.h"

tutti_status tti_mpi_run_direct_all_reduce(struct tti_mpi_call *c);
/* Folds one source for each rank, in rank order, with the operation of the call. After the entry barrier: factors are
 * in the call records. */
void tti_mpi_fold_sources(struct tti_mpi_call *c, void *dst, const void *const *sources, size_t count);

#endif
