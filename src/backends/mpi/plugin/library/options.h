/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings "mpi.*", and what they mean to the MPI library. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_LIBRARY_OPTIONS_H
#define TTI_BACKENDS_MPI_PLUGIN_LIBRARY_OPTIONS_H

#include <tutti/backend.h>

int tti_mpi_requested_level(const tutti_open_info *info);
/* Sets the environment variables of the library, before its start. Reads tti_mpi_library.version. Without memory: an
 * error, since MPI would start with other settings than the caller's. */
tutti_status tti_mpi_prepare_environment(const tutti_open_info *info, tutti_error *error);

#endif
