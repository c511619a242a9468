/* SPDX-License-Identifier: BSD-3-Clause */
/* The entry barrier of a collective. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_ENTRY_BARRIER_H
#define TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_ENTRY_BARRIER_H

#include "backends/mpi/plugin/collectives/call.h"

/* Waits until all ranks have entered this call, and compares what they call. MISMATCH leaves the group usable. *done:
 * OK also means that the collective has ended. */
tutti_status tti_mpi_entry_barrier(struct tti_mpi_call *c, bool *done);

#endif
