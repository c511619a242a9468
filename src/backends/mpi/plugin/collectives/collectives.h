/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend's functions for collectives, as in tutti_backend_ops. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_COLLECTIVES_H
#define TTI_BACKENDS_MPI_PLUGIN_COLLECTIVES_COLLECTIVES_H

#include <tutti/backend.h>

const char *tti_mpi_supports(void *state, const tutti_op *op);
tutti_status tti_mpi_run(void *state, tutti_op *op, tutti_error *error);

#endif
