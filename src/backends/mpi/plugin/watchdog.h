/* SPDX-License-Identifier: BSD-3-Clause */
/* The watchdog of groups with blocking calls. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_WATCHDOG_H
#define TTI_BACKENDS_MPI_PLUGIN_WATCHDOG_H

/* Starts the thread of this process, once. */
void tti_mpi_start_watchdog(void);

#endif
