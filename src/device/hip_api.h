/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of HIP's run-time interface that Tutti uses (hip_runtime_api.h, https://rocm.docs.amd.com/projects/HIP/).
 * Tutti builds without ROCm. Where the header is installed, tests/abi/device_hip.c compares every prototype, type and
 * number with it.
 *
 * ROCm 5 and 6 differ under the same names: in the numbers of hipMemoryType, and in the one flag that
 * hipIpcOpenMemHandle accepts. Functions that fill structures of properties are avoided: those changed, too.
 *
 * What CUDA has, too, has the same names (tti_gpu_...) here as in cuda_api.h, for gpu_functions.h. Both headers list
 * it, since each is compared with its own vendor's header.
 */
#ifndef TTI_DEVICE_HIP_API_H
#define TTI_DEVICE_HIP_API_H

#include <stddef.h>

typedef int tti_gpu_result;
typedef int tti_gpu_device;
typedef void *tti_gpu_pointer; /* to the memory of a device */
typedef int tti_gpu_attribute;
typedef int tti_hip_copy_kind;
typedef void *tti_gpu_stream;
typedef void *tti_gpu_event;

typedef struct {
    char bytes[16];
} tti_gpu_uuid;

typedef struct {
    char reserved[64];
} tti_gpu_ipc_handle;

/* hipError_t: the codes that Tutti distinguishes. */
enum { TTI_GPU_SUCCESS = 0, TTI_GPU_INVALID_VALUE = 1, TTI_GPU_OUT_OF_MEMORY = 2, TTI_GPU_NOT_READY = 600 };

/* hipPointer_attribute, which has the same numbers in all versions. */
enum { TTI_GPU_POINTER_MEMORY_TYPE = 2, TTI_GPU_POINTER_IS_MANAGED = 8, TTI_GPU_POINTER_DEVICE_ORDINAL = 9 };

/* HIP_VERSION: 5.2 is 50221153. */
enum { TTI_HIP_VERSION_6 = 60000000 };

/* hipMemoryType */
enum { TTI_HIP5_MEMORY_HOST = 0, TTI_HIP5_MEMORY_DEVICE = 1 };
enum { TTI_HIP6_MEMORY_UNREGISTERED = 0, TTI_HIP6_MEMORY_HOST = 1, TTI_HIP6_MEMORY_DEVICE = 2 };

/* Flags */
enum {
    TTI_HIP_COPY_DEFAULT = 4, /* hipMemcpyKind: by the addresses */
    TTI_GPU_HOST_PORTABLE = 1,
    TTI_GPU_HOST_MAPPED = 2,
    TTI_GPU_STREAM_NON_BLOCKING = 1,
    TTI_GPU_EVENT_DISABLE_TIMING = 2,
    TTI_HIP5_IPC_LAZY_PEER_ACCESS = 0,
    TTI_HIP6_IPC_LAZY_PEER_ACCESS = 1
};

/* The functions, as in cuda_api.h: X(name, symbol, older symbol, needed, result, arguments). */
#define TTI_GPU_FUNCTIONS(X)                                                                                           \
    X(RuntimeGetVersion, hipRuntimeGetVersion, NULL, 1, tti_gpu_result, (int *version))                                \
    X(DriverGetVersion, hipDriverGetVersion, NULL, 1, tti_gpu_result, (int *version))                                  \
    X(GetErrorName, hipGetErrorName, NULL, 1, const char *, (tti_gpu_result code))                                     \
    X(GetErrorString, hipGetErrorString, NULL, 1, const char *, (tti_gpu_result code))                                 \
    X(GetLastError, hipGetLastError, NULL, 1, tti_gpu_result, (void))                                                  \
    X(DeviceGetCount, hipGetDeviceCount, NULL, 1, tti_gpu_result, (int *count))                                        \
    X(DeviceGetName, hipDeviceGetName, NULL, 1, tti_gpu_result, (char *name, int capacity, tti_gpu_device device))     \
    X(DeviceGetUuid, hipDeviceGetUuid, NULL, 1, tti_gpu_result, (tti_gpu_uuid * uuid, tti_gpu_device device))          \
    X(GetDevice, hipGetDevice, NULL, 1, tti_gpu_result, (int *device))                                                 \
    X(SetDevice, hipSetDevice, NULL, 1, tti_gpu_result, (int device))                                                  \
    X(PointerGetAttribute, hipPointerGetAttribute, NULL, 1, tti_gpu_result,                                            \
      (void *value, tti_gpu_attribute attribute, void *pointer))                                                       \
    X(MemAlloc, hipMalloc, NULL, 1, tti_gpu_result, (void **pointer, size_t bytes))                                    \
    X(MemFree, hipFree, NULL, 1, tti_gpu_result, (void *pointer))                                                      \
    X(MemHostAlloc, hipHostMalloc, NULL, 1, tti_gpu_result, (void **pointer, size_t bytes, unsigned int flags))        \
    X(MemFreeHost, hipHostFree, NULL, 1, tti_gpu_result, (void *pointer))                                              \
    X(MemGetAddressRange, hipMemGetAddressRange, NULL, 1, tti_gpu_result, (void **base, size_t *bytes, void *pointer)) \
    X(MemcpyAsync, hipMemcpyAsync, NULL, 1, tti_gpu_result,                                                            \
      (void *dst, const void *src, size_t bytes, tti_hip_copy_kind kind, tti_gpu_stream stream))                       \
    X(Memcpy2DAsync, hipMemcpy2DAsync, NULL, 1, tti_gpu_result,                                                        \
      (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,                    \
       tti_hip_copy_kind kind, tti_gpu_stream stream))                                                                 \
    X(StreamCreate, hipStreamCreateWithFlags, NULL, 1, tti_gpu_result, (tti_gpu_stream * stream, unsigned int flags))  \
    X(StreamDestroy, hipStreamDestroy, NULL, 1, tti_gpu_result, (tti_gpu_stream stream))                               \
    X(StreamWaitEvent, hipStreamWaitEvent, NULL, 1, tti_gpu_result,                                                    \
      (tti_gpu_stream stream, tti_gpu_event event, unsigned int flags))                                                \
    X(EventCreate, hipEventCreateWithFlags, NULL, 1, tti_gpu_result, (tti_gpu_event * event, unsigned int flags))      \
    X(EventDestroy, hipEventDestroy, NULL, 1, tti_gpu_result, (tti_gpu_event event))                                   \
    X(EventRecord, hipEventRecord, NULL, 1, tti_gpu_result, (tti_gpu_event event, tti_gpu_stream stream))              \
    X(EventQuery, hipEventQuery, NULL, 1, tti_gpu_result, (tti_gpu_event event))                                       \
    X(IpcGetMemHandle, hipIpcGetMemHandle, NULL, 1, tti_gpu_result, (tti_gpu_ipc_handle * handle, void *pointer))      \
    X(IpcOpenMemHandle, hipIpcOpenMemHandle, NULL, 1, tti_gpu_result,                                                  \
      (void **pointer, tti_gpu_ipc_handle handle, unsigned int flags))                                                 \
    X(IpcCloseMemHandle, hipIpcCloseMemHandle, NULL, 1, tti_gpu_result, (void *pointer))

#endif
