/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of CUDA's driver interface that Tutti uses (cuda.h, https://docs.nvidia.com/cuda/cuda-driver-api/). Tutti
 * builds without the toolkit. Where cuda.h is installed, tests/abi/device_cuda.c compares every prototype, type and
 * number with it.
 */
#ifndef TTI_DEVICE_CUDA_API_H
#define TTI_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int tti_cu_result;
typedef int tti_cu_device;
typedef unsigned long long tti_cu_pointer; /* to any memory: addresses are unified */
typedef void *tti_cu_context;
typedef void *tti_cu_stream;
typedef void *tti_cu_event;
typedef int tti_cu_attribute;
typedef int tti_cu_memory;

typedef struct {
    char bytes[16];
} tti_cu_uuid;

typedef struct {
    char reserved[64];
} tti_cu_ipc_handle;

/* CUDA_MEMCPY2D_v2 */
typedef struct {
    size_t src_x;
    size_t src_y;
    tti_cu_memory src_type;
    const void *src_host;
    tti_cu_pointer src;
    void *src_array;
    size_t src_pitch;
    size_t dst_x;
    size_t dst_y;
    tti_cu_memory dst_type;
    void *dst_host;
    tti_cu_pointer dst;
    void *dst_array;
    size_t dst_pitch;
    size_t width;
    size_t height;
} tti_cu_copy_2d;

/* CUresult: the codes that Tutti distinguishes. */
enum {
    TTI_CU_SUCCESS = 0,
    TTI_CU_INVALID_VALUE = 1,
    TTI_CU_OUT_OF_MEMORY = 2,
    TTI_CU_NOT_READY = 600,
    TTI_CU_NOT_SUPPORTED = 801
};

/* CUmemorytype */
enum { TTI_CU_MEMORY_HOST = 1, TTI_CU_MEMORY_DEVICE = 2, TTI_CU_MEMORY_UNIFIED = 4 };

/* CUpointer_attribute */
enum { TTI_CU_POINTER_MEMORY_TYPE = 2, TTI_CU_POINTER_IS_MANAGED = 8, TTI_CU_POINTER_DEVICE_ORDINAL = 9 };

/* Flags */
enum {
    TTI_CU_HOST_PORTABLE = 1,
    TTI_CU_HOST_DEVICEMAP = 2,
    TTI_CU_STREAM_NON_BLOCKING = 1,
    TTI_CU_EVENT_DISABLE_TIMING = 2,
    TTI_CU_WAIT_VALUE_GEQ = 0, /* (int32_t)(*address - value) >= 0 */
    TTI_CU_IPC_LAZY_PEER_ACCESS = 1
};

/*
 * The functions: X(name, symbol, older symbol, needed, arguments). All return a tti_cu_result. A symbol with a version
 * is the one that cuda.h's macros select; the older one has the same arguments. A function that is not needed may be
 * NULL.
 */
#define TTI_CUDA_FUNCTIONS(X)                                                                                          \
    X(Init, cuInit, NULL, 1, (unsigned int flags))                                                                     \
    X(DriverGetVersion, cuDriverGetVersion, NULL, 1, (int *version))                                                   \
    X(GetErrorName, cuGetErrorName, NULL, 1, (tti_cu_result code, const char **name))                                  \
    X(GetErrorString, cuGetErrorString, NULL, 1, (tti_cu_result code, const char **text))                              \
    X(DeviceGetCount, cuDeviceGetCount, NULL, 1, (int *count))                                                         \
    X(DeviceGet, cuDeviceGet, NULL, 1, (tti_cu_device * device, int ordinal))                                          \
    X(DeviceGetName, cuDeviceGetName, NULL, 1, (char *name, int capacity, tti_cu_device device))                       \
    X(DeviceGetUuid, cuDeviceGetUuid_v2, "cuDeviceGetUuid", 1, (tti_cu_uuid * uuid, tti_cu_device device))             \
    X(PrimaryCtxRetain, cuDevicePrimaryCtxRetain, NULL, 1, (tti_cu_context * context, tti_cu_device device))           \
    X(CtxPushCurrent, cuCtxPushCurrent_v2, NULL, 1, (tti_cu_context context))                                          \
    X(CtxPopCurrent, cuCtxPopCurrent_v2, NULL, 1, (tti_cu_context * context))                                          \
    X(CtxGetDevice, cuCtxGetDevice, NULL, 1, (tti_cu_device * device))                                                 \
    X(PointerGetAttribute, cuPointerGetAttribute, NULL, 1,                                                             \
      (void *value, tti_cu_attribute attribute, tti_cu_pointer pointer))                                               \
    X(MemAlloc, cuMemAlloc_v2, NULL, 1, (tti_cu_pointer * pointer, size_t bytes))                                      \
    X(MemFree, cuMemFree_v2, NULL, 1, (tti_cu_pointer pointer))                                                        \
    X(MemHostAlloc, cuMemHostAlloc, NULL, 1, (void **pointer, size_t bytes, unsigned int flags))                       \
    X(MemFreeHost, cuMemFreeHost, NULL, 1, (void *pointer))                                                            \
    X(MemGetAddressRange, cuMemGetAddressRange_v2, NULL, 1,                                                            \
      (tti_cu_pointer * base, size_t * bytes, tti_cu_pointer pointer))                                                 \
    X(MemcpyAsync, cuMemcpyAsync, NULL, 1,                                                                             \
      (tti_cu_pointer dst, tti_cu_pointer src, size_t bytes, tti_cu_stream stream))                                    \
    X(Memcpy2DAsync, cuMemcpy2DAsync_v2, NULL, 1, (const tti_cu_copy_2d *copy, tti_cu_stream stream))                  \
    X(StreamCreate, cuStreamCreate, NULL, 1, (tti_cu_stream * stream, unsigned int flags))                             \
    X(StreamDestroy, cuStreamDestroy_v2, NULL, 1, (tti_cu_stream stream))                                              \
    X(StreamWaitEvent, cuStreamWaitEvent, NULL, 1, (tti_cu_stream stream, tti_cu_event event, unsigned int flags))     \
    X(StreamWaitValue32, cuStreamWaitValue32_v2, "cuStreamWaitValue32", 0,                                             \
      (tti_cu_stream stream, tti_cu_pointer address, uint32_t value, unsigned int flags))                              \
    X(EventCreate, cuEventCreate, NULL, 1, (tti_cu_event * event, unsigned int flags))                                 \
    X(EventDestroy, cuEventDestroy_v2, NULL, 1, (tti_cu_event event))                                                  \
    X(EventRecord, cuEventRecord, NULL, 1, (tti_cu_event event, tti_cu_stream stream))                                 \
    X(EventQuery, cuEventQuery, NULL, 1, (tti_cu_event event))                                                         \
    X(IpcGetMemHandle, cuIpcGetMemHandle, NULL, 1, (tti_cu_ipc_handle * handle, tti_cu_pointer pointer))               \
    X(IpcOpenMemHandle, cuIpcOpenMemHandle_v2, NULL, 1,                                                                \
      (tti_cu_pointer * pointer, tti_cu_ipc_handle handle, unsigned int flags))                                        \
    X(IpcCloseMemHandle, cuIpcCloseMemHandle, NULL, 1, (tti_cu_pointer pointer))

#endif
