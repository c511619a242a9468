/* SPDX-License-Identifier: BSD-3-Clause */
/* The reductions. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_REDUCTIONS_H
#define TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_REDUCTIONS_H

#include "backends/mpi/plugin/collectives/call.h"

/* all_reduce and reduce. */
tutti_status tti_mpi_run_all_reduce(struct tti_mpi_call *c);
tutti_status tti_mpi_run_reduce_scatter(struct tti_mpi_call *c);

#endif
