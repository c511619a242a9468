/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs in a wider type for MPI's sums, with the factor of the call; and the sums back, divided for an average. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_WIDEN_H
#define TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_WIDEN_H

#include "backends/mpi/plugin/library/datatypes.h"

void tti_mpi_widen_and_scale(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count);
void tti_mpi_average_and_narrow(const struct tti_mpi_fold *fold, void *to, const void *from, size_t count);

#endif
