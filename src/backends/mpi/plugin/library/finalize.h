/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of MPI, when the process ends or the application finalises MPI. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_LIBRARY_FINALIZE_H
#define TTI_BACKENDS_MPI_PLUGIN_LIBRARY_FINALIZE_H

#include <stdbool.h>

/* For on_exit. */
void tti_mpi_finalize(int exit_status, void *unused);

/* Brings all threads out of MPI and lets none in again: groups fail, and pending operations end. Returns NULL, or the
 * name of the place where a thread still is. `fails`: the process ends with an error, and waits for a second at
 * most. */
const char *tti_mpi_quiesce(bool fails);

/* At the beginning of MPI_Finalize: frees the communicators of closed groups, and waits for a second at most until the
 * other ranks have closed them, too. */
void tti_mpi_await_closed(void);

#endif
