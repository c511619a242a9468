/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Which memory of a device MPI is handed. A library that is CUDA- or ROCm-aware takes it in its own functions, on which this
 * plug-in then lays no hand: no factor, no reduction of Tutti's, no part packed aside. That is what tti_mpi_takes_device_memory says yes to; all
 * else comes here as host memory, behind copies that the core makes. Messages always do: they are read here.
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

void tti_mpi_detect_devices(const tutti_open_info *info)
{
    const char *aware = tti_mpi_setting(info, "mpi.cuda_aware", "auto");
    const bool ask = strcasecmp(aware, "auto") == 0;
    tti_mpi_library.cuda_aware = ask ? library_says(SUPPORT_CUDA) : strcasecmp(aware, "yes") == 0;
    tti_mpi_library.rocm_aware = ask && library_says(SUPPORT_HIP);
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

/* MPI's own function, type and operation on the tensor as it is. */
static bool is_native(const struct tti_mpi_group *g, const tutti_op *op)
{
    struct tti_mpi_fold fold;
    tti_mpi_fold_of(op, g->size, &fold);
    return !fold.wide && !fold.scaled && fold.is_native;
}

bool tti_mpi_takes_device_memory(const struct tti_mpi_group *g, const tutti_op *op)
{
    /* The non-blocking functions take no device memory in Open MPI. */
    if (!g->device || g->size == 1 || !g->blocking) {
        return false;
    }
    switch (op->kind) {
    case TUTTI_OP_ALL_REDUCE:
        return is_native(g, op);
    case TUTTI_OP_BROADCAST:
    case TUTTI_OP_BARRIER:
        return true;
    case TUTTI_OP_ALL_GATHER:
        return tti_mpi_is_plain(g, op, &op->recv_parts);
    case TUTTI_OP_ALL_TO_ALL:
        return tti_mpi_is_plain(g, op, &op->send_parts);
    default:
        return false;
    }
}
