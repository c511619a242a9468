/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory MPI can be handed. Every tensor comes into this plug-in as the src or dst of an op and goes on to MPI
 * as it stands there, behind one line each: dispatch() in collectives.c, and begin() in postings.c. There a tensor
 * that MPI does not take has to have been exchanged for a copy in host memory, by what is decided here. (An op with
 * such a copy must not be prepared for the next call, see reductions.c.)
 */
#include <dlfcn.h>
#include <strings.h>

#include "backends/mpi/plugin/plugin.h"

/* MPICH's MPIX_GPU_SUPPORT_CUDA and MPIX_GPU_SUPPORT_HIP */
enum { SUPPORT_CUDA = 0, SUPPORT_HIP = 2 };

/* What the library says of device memory, if it can. Asked after the start only: before it, some libraries end the
 * process. By name, since not every library with this binary interface has these functions. */
static bool library_says(int kind)
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

void tti_mpi_look_at_devices(const tutti_open_info *info)
{
    const char *aware = tti_mpi_setting(info, "mpi.cuda_aware", "auto");
    const bool ask = strcasecmp(aware, "auto") == 0;
    tti_mpi_life.cuda_aware = ask ? library_says(SUPPORT_CUDA) : strcasecmp(aware, "yes") == 0;
    tti_mpi_life.rocm_aware = ask && library_says(SUPPORT_HIP);
}
