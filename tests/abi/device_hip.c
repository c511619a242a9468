/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/device/hip_api.h against hip_runtime_api.h of ROCm 5, 6 or 7, at compile time, as device_cuda.c does it for CUDA.
 * What differs between the versions is compared with the ones that the header is of.
 */
#ifndef __HIP_PLATFORM_AMD__
#define __HIP_PLATFORM_AMD__
#endif
#include <hip/hip_runtime_api.h>
#include <hip/hip_version.h>
#include <stddef.h>

#include "device/hip_api.h"

#define SAME_KIND(ours, theirs)                                                                                        \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs) &&                             \
                       __builtin_classify_type(*(ours *)0) == __builtin_classify_type(*(theirs *)0),                   \
                   #ours " is not of the kind of " #theirs)

SAME_KIND(tti_gpu_result, hipError_t);
SAME_KIND(tti_gpu_device, hipDevice_t);
SAME_KIND(tti_gpu_attribute, hipPointer_attribute);
SAME_KIND(tti_hip_copy_kind, hipMemcpyKind);
SAME_KIND(tti_gpu_stream, hipStream_t);
SAME_KIND(tti_gpu_event, hipEvent_t);
SAME_KIND(tti_gpu_uuid, hipUUID);
SAME_KIND(tti_gpu_ipc_handle, hipIpcMemHandle_t);
_Static_assert(__builtin_types_compatible_p(hipDeviceptr_t, void *), "addresses of devices are pointers");

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)

SAME_NUMBER(TTI_GPU_SUCCESS, hipSuccess);
SAME_NUMBER(TTI_GPU_INVALID_VALUE, hipErrorInvalidValue);
SAME_NUMBER(TTI_GPU_OUT_OF_MEMORY, hipErrorOutOfMemory);
SAME_NUMBER(TTI_GPU_NOT_READY, hipErrorNotReady);
SAME_NUMBER(TTI_GPU_POINTER_MEMORY_TYPE, HIP_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_NUMBER(TTI_GPU_POINTER_IS_MANAGED, HIP_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_NUMBER(TTI_GPU_POINTER_DEVICE_ORDINAL, HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_NUMBER(TTI_HIP_COPY_DEFAULT, hipMemcpyDefault);
SAME_NUMBER(TTI_GPU_HOST_PORTABLE, hipHostMallocPortable);
SAME_NUMBER(TTI_GPU_HOST_MAPPED, hipHostMallocMapped);
SAME_NUMBER(TTI_GPU_STREAM_NON_BLOCKING, hipStreamNonBlocking);
SAME_NUMBER(TTI_GPU_EVENT_DISABLE_TIMING, hipEventDisableTiming);
#if HIP_VERSION_MAJOR < 6
SAME_NUMBER(TTI_HIP5_MEMORY_HOST, hipMemoryTypeHost);
SAME_NUMBER(TTI_HIP5_MEMORY_DEVICE, hipMemoryTypeDevice);
SAME_NUMBER(TTI_HIP5_IPC_LAZY_PEER_ACCESS, hipIpcMemLazyEnablePeerAccess);
_Static_assert(HIP_VERSION < TTI_HIP_VERSION_6, "versions are counted in another way");
#else
SAME_NUMBER(TTI_HIP6_MEMORY_UNREGISTERED, hipMemoryTypeUnregistered);
SAME_NUMBER(TTI_HIP6_MEMORY_HOST, hipMemoryTypeHost);
SAME_NUMBER(TTI_HIP6_MEMORY_DEVICE, hipMemoryTypeDevice);
SAME_NUMBER(TTI_HIP6_IPC_LAZY_PEER_ACCESS, hipIpcMemLazyEnablePeerAccess);
_Static_assert(HIP_VERSION >= TTI_HIP_VERSION_6, "versions are counted in another way");
#endif

/* From here on our names mean the vendor's types, also in the list of functions, which is expanded below. */
#define tti_gpu_result     hipError_t
#define tti_gpu_device     hipDevice_t
#define tti_gpu_attribute  hipPointer_attribute
#define tti_hip_copy_kind  hipMemcpyKind
#define tti_gpu_stream     hipStream_t
#define tti_gpu_event      hipEvent_t
#define tti_gpu_uuid       hipUUID
#define tti_gpu_ipc_handle hipIpcMemHandle_t

#define SAME_FUNCTION(name, symbol, older, needed, result, arguments)                                                  \
    _Static_assert(__builtin_types_compatible_p(result(*) arguments, __typeof__(&symbol)),                             \
                   #symbol " has other arguments in hip_runtime_api.h");
TTI_GPU_FUNCTIONS(SAME_FUNCTION)
