/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's life, as in tutti_backend_ops. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_GROUP_H
#define TTI_BACKENDS_MPI_PLUGIN_GROUP_H

#include <tutti/backend.h>

tutti_status tti_mpi_open(const tutti_open_info *info, void **state, tutti_error *error);
void tti_mpi_close(void *state);
size_t tti_mpi_describe(void *state, char *text, size_t capacity);
/* A pointer to the communicator for messages, in the form that tutti_config.native_communicator takes. */
void *tti_mpi_native(void *state);

#endif
