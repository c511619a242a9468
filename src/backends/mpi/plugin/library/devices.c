/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which device memory is handed to MPI. A CUDA- or ROCm-aware library takes it in its own functions. The plug-in cannot
 * touch it: it applies no factor, no reduction of Tutti's, and packs no part (see tti_mpi_supports). For all other
 * operations the core copies to host memory first. It always does so for messages, whose bytes the plug-in reads.
 */
#include "backends/mpi/plugin/library/devices.h"

#include <dlfcn.h>
#include <mpi.h>
#include <stdbool.h>
#include <strings.h>

#include "backends/mpi/plugin/library/library.h"

/* MPICH's MPIX_GPU_SUPPORT_CUDA and MPIX_GPU_SUPPORT_HIP */
enum { SUPPORT_CUDA = 0, SUPPORT_HIP = 2 };

/* Whether the library takes that kind of device memory. After the start only: before it, some libraries end the
 * process. The functions are looked up by name, since not every library with this binary interface has them. */
static bool query_library(int kind)
{
    int (*query)(int kind, int *yes);
    int (*query_cuda)(void);
    int yes = 0;
    *(void **)&query = dlsym(RTLD_DEFAULT, "MPIX_GPU_query_support");
    *(void **)&query_cuda = dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");
    if (query) {
        return query(kind, &yes) == MPI_SUCCESS && yes;
    }
    return kind == SUPPORT_CUDA && query_cuda && query_cuda() == 1;
}

void tti_mpi_detect_devices(const tutti_open_info *info)
{
    const char *aware = info->setting(info->settings, "mpi.cuda_aware");
    const bool ask = strcasecmp(aware, "auto") == 0;
    tti_mpi_library.cuda_aware = ask ? query_library(SUPPORT_CUDA) : strcasecmp(aware, "yes") == 0;
    tti_mpi_library.rocm_aware = ask && query_library(SUPPORT_HIP);
}

uint32_t tti_mpi_device_of(const tutti_open_info *info)
{
    switch (info->device.device_type) {
    case kDLCUDA:
        return tti_mpi_library.cuda_aware ? TUTTI_CAP_CUDA : 0;
    case kDLROCM:
        return tti_mpi_library.rocm_aware ? TUTTI_CAP_ROCM : 0;
    default:
        return 0;
    }
}
