/* SPDX-License-Identifier: BSD-3-Clause */
/* Which device memory the MPI library takes. */
#ifndef TTI_BACKENDS_MPI_PLUGIN_LIBRARY_DEVICES_H
#define TTI_BACKENDS_MPI_PLUGIN_LIBRARY_DEVICES_H

#include <tutti/backend.h>

/* After the start: writes tti_mpi_library.cuda_aware and .rocm_aware. */
void tti_mpi_detect_devices(const tutti_open_info *info);
/* TUTTI_CAP_CUDA or _ROCM if MPI takes the memory of the group's device on this rank; else 0. */
uint32_t tti_mpi_device_of(const tutti_open_info *info);

#endif
