/* SPDX-License-Identifier: BSD-3-Clause */
/* The backend mpi, as the core sees it. */
#ifndef TTI_BACKENDS_MPI_MPI_H
#define TTI_BACKENDS_MPI_MPI_H

#include <tutti/backend.h>

extern const tutti_backend tti_backend_mpi;

#endif
