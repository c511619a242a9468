/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether MPI can be used in this process, and its start. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_LIBRARY_START_H
#define TTI_BACKENDS_MPI_PLUGIN_LIBRARY_START_H

#include <tutti/backend.h>

/* As in tutti_backend_ops. */
int32_t tti_mpi_available(char *why, size_t capacity);

/* Starts MPI, or uses the application's. */
tutti_status tti_mpi_start(const tutti_open_info *info, tutti_error *error);

#endif
