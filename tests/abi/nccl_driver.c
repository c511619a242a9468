/* SPDX-License-Identifier: BSD-3-Clause */
/* A libcuda.so.1 that has one device and does nothing, so that the backend nccl goes on to open its library. */
#include "device/cuda_api.h"

#define cuDeviceGetCount unused_count
#define DO_NOTHING(name, symbol, older, needed, result, arguments)                                                     \
    int symbol arguments;                                                                                              \
    int symbol arguments                                                                                               \
    {                                                                                                                  \
        return TTI_GPU_SUCCESS;                                                                                        \
    }
TTI_GPU_FUNCTIONS(DO_NOTHING)
#undef cuDeviceGetCount

int cuDeviceGetCount(int *count);
int cuDeviceGetCount(int *count)
{
    *count = 1;
    return TTI_GPU_SUCCESS;
}
