/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * src/device/cuda_api.h against cuda.h, at compile time; there is nothing to run. Each of our types is as wide and of
 * the same class (pointer, integer, structure) as the vendor's; and with the vendor's types in the place of ours, each
 * prototype is the vendor's, argument by argument. device_headers.sh compiles it, and checks that it can fail.
 */
#include <cuda.h>
#include <stddef.h>

#include "device/cuda_api.h"

#define SAME_KIND(ours, theirs)                                                                                        \
    _Static_assert(sizeof(ours) == sizeof(theirs) && _Alignof(ours) == _Alignof(theirs) &&                             \
                       __builtin_classify_type(*(ours *)0) == __builtin_classify_type(*(theirs *)0),                   \
                   #ours " is not of the kind of " #theirs)

SAME_KIND(tti_gpu_result, CUresult);
SAME_KIND(tti_gpu_device, CUdevice);
SAME_KIND(tti_gpu_pointer, CUdeviceptr);
SAME_KIND(tti_cu_context, CUcontext);
SAME_KIND(tti_gpu_stream, CUstream);
SAME_KIND(tti_gpu_event, CUevent);
SAME_KIND(tti_gpu_attribute, CUpointer_attribute);
SAME_KIND(tti_cu_memory, CUmemorytype);
SAME_KIND(tti_gpu_uuid, CUuuid);
SAME_KIND(tti_gpu_ipc_handle, CUipcMemHandle);
SAME_KIND(tti_cu_copy_2d, CUDA_MEMCPY2D);
_Static_assert(__builtin_types_compatible_p(tti_gpu_pointer, CUdeviceptr), "passed as the same integer");
_Static_assert(__builtin_types_compatible_p(uint32_t, cuuint32_t), "passed as the same integer");

#define SAME_MEMBER(ours, theirs)                                                                                      \
    _Static_assert(offsetof(tti_cu_copy_2d, ours) == offsetof(CUDA_MEMCPY2D, theirs),                                  \
                   #ours " is not where " #theirs " is");                                                              \
    SAME_KIND(__typeof__(((tti_cu_copy_2d *)0)->ours), __typeof__(((CUDA_MEMCPY2D *)0)->theirs))

SAME_MEMBER(src_x, srcXInBytes);
SAME_MEMBER(src_y, srcY);
SAME_MEMBER(src_type, srcMemoryType);
SAME_MEMBER(src_host, srcHost);
SAME_MEMBER(src, srcDevice);
SAME_MEMBER(src_array, srcArray);
SAME_MEMBER(src_pitch, srcPitch);
SAME_MEMBER(dst_x, dstXInBytes);
SAME_MEMBER(dst_y, dstY);
SAME_MEMBER(dst_type, dstMemoryType);
SAME_MEMBER(dst_host, dstHost);
SAME_MEMBER(dst, dstDevice);
SAME_MEMBER(dst_array, dstArray);
SAME_MEMBER(dst_pitch, dstPitch);
SAME_MEMBER(width, WidthInBytes);
SAME_MEMBER(height, Height);

#define SAME_NUMBER(ours, theirs) _Static_assert((int)(ours) == (int)(theirs), #ours " is not " #theirs)

SAME_NUMBER(TTI_GPU_SUCCESS, CUDA_SUCCESS);
SAME_NUMBER(TTI_GPU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE);
SAME_NUMBER(TTI_GPU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY);
SAME_NUMBER(TTI_GPU_NOT_READY, CUDA_ERROR_NOT_READY);
SAME_NUMBER(TTI_CU_NOT_SUPPORTED, CUDA_ERROR_NOT_SUPPORTED);
SAME_NUMBER(TTI_CU_MEMORY_HOST, CU_MEMORYTYPE_HOST);
SAME_NUMBER(TTI_CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE);
SAME_NUMBER(TTI_CU_MEMORY_UNIFIED, CU_MEMORYTYPE_UNIFIED);
SAME_NUMBER(TTI_GPU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
SAME_NUMBER(TTI_GPU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED);
SAME_NUMBER(TTI_GPU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
SAME_NUMBER(TTI_GPU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME_NUMBER(TTI_GPU_HOST_MAPPED, CU_MEMHOSTALLOC_DEVICEMAP);
SAME_NUMBER(TTI_GPU_STREAM_NON_BLOCKING, CU_STREAM_NON_BLOCKING);
SAME_NUMBER(TTI_GPU_EVENT_DISABLE_TIMING, CU_EVENT_DISABLE_TIMING);
SAME_NUMBER(TTI_CU_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_GEQ);
SAME_NUMBER(TTI_CU_IPC_LAZY_PEER_ACCESS, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);

/* From here on our names mean the vendor's types, also in the list of functions, which is expanded below. */
#define tti_gpu_result     CUresult
#define tti_gpu_device     CUdevice
#define tti_gpu_pointer    CUdeviceptr
#define tti_cu_context     CUcontext
#define tti_gpu_stream     CUstream
#define tti_gpu_event      CUevent
#define tti_gpu_attribute  CUpointer_attribute
#define tti_gpu_uuid       CUuuid
#define tti_gpu_ipc_handle CUipcMemHandle
#define tti_cu_copy_2d     CUDA_MEMCPY2D

#define SAME_FUNCTION(name, symbol, older, needed, result, arguments)                                                  \
    _Static_assert(__builtin_types_compatible_p(result(*) arguments, __typeof__(&symbol)),                             \
                   #symbol " has other arguments in cuda.h");
TTI_GPU_FUNCTIONS(SAME_FUNCTION)
