/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of HIP's run-time interface that Tutti uses (hip_runtime_api.h, https://rocm.docs.amd.com/projects/HIP/).
 * Tutti builds without ROCm. Where the header is installed, tests/abi/device_hip.c compares every prototype, type and
 * number with it.
 *
 * ROCm 5 and 6 differ under the same names: in the numbers of hipMemoryType, and in the one flag that
 * hipIpcOpenMemHandle accepts. Functions that fill structures of properties are avoided: those changed, too.
 */
#ifndef TTI_DEVICE_HIP_API_H
#define TTI_DEVICE_HIP_API_H

#include <stddef.h>

typedef int tti_hip_result;
typedef int tti_hip_device;
typedef int tti_hip_attribute;
typedef int tti_hip_copy_kind;
typedef void *tti_hip_stream;
typedef void *tti_hip_event;

typedef struct {
    char bytes[16];
} tti_hip_uuid;

typedef struct {
    char reserved[64];
} tti_hip_ipc_handle;

/* hipError_t: the codes that Tutti distinguishes. */
enum { TTI_HIP_SUCCESS = 0, TTI_HIP_INVALID_VALUE = 1, TTI_HIP_OUT_OF_MEMORY = 2, TTI_HIP_NOT_READY = 600 };

/* hipPointer_attribute, which has the same numbers in all versions. */
enum { TTI_HIP_POINTER_MEMORY_TYPE = 2, TTI_HIP_POINTER_IS_MANAGED = 8, TTI_HIP_POINTER_DEVICE_ORDINAL = 9 };

/* HIP_VERSION: 5.2 is 50221153. */
enum { TTI_HIP_VERSION_6 = 60000000 };

/* hipMemoryType */
enum { TTI_HIP5_MEMORY_HOST = 0, TTI_HIP5_MEMORY_DEVICE = 1 };
enum { TTI_HIP6_MEMORY_UNREGISTERED = 0, TTI_HIP6_MEMORY_HOST = 1, TTI_HIP6_MEMORY_DEVICE = 2 };

/* Flags */
enum {
    TTI_HIP_COPY_DEFAULT = 4, /* hipMemcpyKind: by the addresses */
    TTI_HIP_HOST_PORTABLE = 1,
    TTI_HIP_HOST_MAPPED = 2,
    TTI_HIP_STREAM_NON_BLOCKING = 1,
    TTI_HIP_EVENT_DISABLE_TIMING = 2,
    TTI_HIP5_IPC_LAZY_PEER_ACCESS = 0,
    TTI_HIP6_IPC_LAZY_PEER_ACCESS = 1
};

/* The functions: X(name, result, arguments); each is exported with "hip" before its name, and needed. */
#define TTI_HIP_FUNCTIONS(X)                                                                                           \
    X(RuntimeGetVersion, tti_hip_result, (int *version))                                                               \
    X(DriverGetVersion, tti_hip_result, (int *version))                                                                \
    X(GetErrorName, const char *, (tti_hip_result code))                                                               \
    X(GetErrorString, const char *, (tti_hip_result code))                                                             \
    X(GetLastError, tti_hip_result, (void))                                                                            \
    X(GetDeviceCount, tti_hip_result, (int *count))                                                                    \
    X(DeviceGetName, tti_hip_result, (char *name, int capacity, tti_hip_device device))                                \
    X(DeviceGetUuid, tti_hip_result, (tti_hip_uuid * uuid, tti_hip_device device))                                     \
    X(GetDevice, tti_hip_result, (int *device))                                                                        \
    X(SetDevice, tti_hip_result, (int device))                                                                         \
    X(PointerGetAttribute, tti_hip_result, (void *value, tti_hip_attribute attribute, void *pointer))                  \
    X(Malloc, tti_hip_result, (void **pointer, size_t bytes))                                                          \
    X(Free, tti_hip_result, (void *pointer))                                                                           \
    X(HostMalloc, tti_hip_result, (void **pointer, size_t bytes, unsigned int flags))                                  \
    X(HostFree, tti_hip_result, (void *pointer))                                                                       \
    X(MemGetAddressRange, tti_hip_result, (void **base, size_t *bytes, void *pointer))                                 \
    X(MemcpyAsync, tti_hip_result,                                                                                     \
      (void *dst, const void *src, size_t bytes, tti_hip_copy_kind kind, tti_hip_stream stream))                       \
    X(Memcpy2DAsync, tti_hip_result,                                                                                   \
      (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t height,                    \
       tti_hip_copy_kind kind, tti_hip_stream stream))                                                                 \
    X(StreamCreateWithFlags, tti_hip_result, (tti_hip_stream * stream, unsigned int flags))                            \
    X(StreamDestroy, tti_hip_result, (tti_hip_stream stream))                                                          \
    X(StreamWaitEvent, tti_hip_result, (tti_hip_stream stream, tti_hip_event event, unsigned int flags))               \
    X(EventCreateWithFlags, tti_hip_result, (tti_hip_event * event, unsigned int flags))                               \
    X(EventDestroy, tti_hip_result, (tti_hip_event event))                                                             \
    X(EventRecord, tti_hip_result, (tti_hip_event event, tti_hip_stream stream))                                       \
    X(EventQuery, tti_hip_result, (tti_hip_event event))                                                               \
    X(IpcGetMemHandle, tti_hip_result, (tti_hip_ipc_handle * handle, void *pointer))                                   \
    X(IpcOpenMemHandle, tti_hip_result, (void **pointer, tti_hip_ipc_handle handle, unsigned int flags))               \
    X(IpcCloseMemHandle, tti_hip_result, (void *pointer))

#endif
