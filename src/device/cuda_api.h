/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The part of CUDA's driver interface that Tutti uses (cuda.h, https://docs.nvidia.com/cuda/cuda-driver-api/). Tutti
 * builds without the toolkit. Where cuda.h is installed, tests/abi/device_cuda.c compares every prototype, type and
 * number with it. What HIP has, too, is named tti_gpu_..., for gpu_functions.h.
 */
#ifndef TTI_DEVICE_CUDA_API_H
#define TTI_DEVICE_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

typedef int tti_gpu_result;
typedef int tti_gpu_device;
typedef unsigned long long tti_gpu_pointer; /* to any memory: addresses are unified */
typedef void *tti_cu_context;
typedef void *tti_gpu_stream;
typedef void *tti_gpu_event;
typedef int tti_gpu_attribute;
typedef int tti_cu_memory;

typedef struct {
    char bytes[16];
} tti_gpu_uuid;

typedef struct {
    char reserved[64];
} tti_gpu_ipc_handle;

/* CUDA_MEMCPY2D_v2 */
typedef struct {
    size_t src_x;
    size_t src_y;
    tti_cu_memory src_type;
    const void *src_host;
    tti_gpu_pointer src;
    void *src_array;
    size_t src_pitch;
    size_t dst_x;
    size_t dst_y;
    tti_cu_memory dst_type;
    void *dst_host;
    tti_gpu_pointer dst;
    void *dst_array;
    size_t dst_pitch;
    size_t width;
    size_t height;
} tti_cu_copy_2d;

/* CUresult: the codes that Tutti distinguishes. */
enum {
    TTI_GPU_SUCCESS = 0,
    TTI_GPU_INVALID_VALUE = 1,
    TTI_GPU_OUT_OF_MEMORY = 2,
    TTI_GPU_NOT_READY = 600,
    TTI_CU_NOT_SUPPORTED = 801
};

/* CUmemorytype */
enum { TTI_CU_MEMORY_HOST = 1, TTI_CU_MEMORY_DEVICE = 2, TTI_CU_MEMORY_UNIFIED = 4 };

/* CUpointer_attribute */
enum { TTI_GPU_POINTER_MEMORY_TYPE = 2, TTI_GPU_POINTER_IS_MANAGED = 8, TTI_GPU_POINTER_DEVICE_ORDINAL = 9 };

/* Flags */
enum {
    TTI_GPU_HOST_PORTABLE = 1,
    TTI_GPU_HOST_MAPPED = 2,
    TTI_GPU_STREAM_NON_BLOCKING = 1,
    TTI_GPU_EVENT_DISABLE_TIMING = 2,
    TTI_CU_WAIT_VALUE_GEQ = 0, /* (int32_t)(*address - value) >= 0 */
    TTI_CU_IPC_LAZY_PEER_ACCESS = 1
};

/*
 * The functions: X(name, symbol, older symbol, needed, result, arguments). A symbol with a version is the one that
 * cuda.h's macros select; the older one has the same arguments. A function that is not needed may be NULL.
 */
#define TTI_GPU_FUNCTIONS(X)                                                                                           \
    X(Init, cuInit, NULL, 1, tti_gpu_result, (unsigned int flags))                                                     \
    X(DriverGetVersion, cuDriverGetVersion, NULL, 1, tti_gpu_result, (int *version))                                   \
    X(GetErrorName, cuGetErrorName, NULL, 1, tti_gpu_result, (tti_gpu_result code, const char **name))                 \
    X(GetErrorString, cuGetErrorString, NULL, 1, tti_gpu_result, (tti_gpu_result code, const char **text))             \
    X(DeviceGetCount, cuDeviceGetCount, NULL, 1, tti_gpu_result, (int *count))                                         \
    X(DeviceGet, cuDeviceGet, NULL, 1, tti_gpu_result, (tti_gpu_device * device, int ordinal))                         \
    X(DeviceGetName, cuDeviceGetName, NULL, 1, tti_gpu_result, (char *name, int capacity, tti_gpu_device device))      \
    X(DeviceGetUuid, cuDeviceGetUuid_v2, "cuDeviceGetUuid", 1, tti_gpu_result,                                         \
      (tti_gpu_uuid * uuid, tti_gpu_device device))                                                                    \
    X(PrimaryCtxRetain, cuDevicePrimaryCtxRetain, NULL, 1, tti_gpu_result,                                             \
      (tti_cu_context * context, tti_gpu_device device))                                                               \
    X(CtxPushCurrent, cuCtxPushCurrent_v2, NULL, 1, tti_gpu_result, (tti_cu_context context))                          \
    X(CtxPopCurrent, cuCtxPopCurrent_v2, NULL, 1, tti_gpu_result, (tti_cu_context * context))                          \
    X(CtxGetDevice, cuCtxGetDevice, NULL, 1, tti_gpu_result, (tti_gpu_device * device))                                \
    X(PointerGetAttribute, cuPointerGetAttribute, NULL, 1, tti_gpu_result,                                             \
      (void *value, tti_gpu_attribute attribute, tti_gpu_pointer pointer))                                             \
    X(MemAlloc, cuMemAlloc_v2, NULL, 1, tti_gpu_result, (tti_gpu_pointer * pointer, size_t bytes))                     \
    X(MemFree, cuMemFree_v2, NULL, 1, tti_gpu_result, (tti_gpu_pointer pointer))                                       \
    X(MemHostAlloc, cuMemHostAlloc, NULL, 1, tti_gpu_result, (void **pointer, size_t bytes, unsigned int flags))       \
    X(MemFreeHost, cuMemFreeHost, NULL, 1, tti_gpu_result, (void *pointer))                                            \
    X(MemGetAddressRange, cuMemGetAddressRange_v2, NULL, 1, tti_gpu_result,                                            \
      (tti_gpu_pointer * base, size_t * bytes, tti_gpu_pointer pointer))                                               \
    X(MemcpyAsync, cuMemcpyAsync, NULL, 1, tti_gpu_result,                                                             \
      (tti_gpu_pointer dst, tti_gpu_pointer src, size_t bytes, tti_gpu_stream stream))                                 \
    X(Memcpy2DAsync, cuMemcpy2DAsync_v2, NULL, 1, tti_gpu_result, (const tti_cu_copy_2d *copy, tti_gpu_stream stream)) \
    X(StreamCreate, cuStreamCreate, NULL, 1, tti_gpu_result, (tti_gpu_stream * stream, unsigned int flags))            \
    X(StreamDestroy, cuStreamDestroy_v2, NULL, 1, tti_gpu_result, (tti_gpu_stream stream))                             \
    X(StreamWaitEvent, cuStreamWaitEvent, NULL, 1, tti_gpu_result,                                                     \
      (tti_gpu_stream stream, tti_gpu_event event, unsigned int flags))                                                \
    X(StreamWaitValue32, cuStreamWaitValue32_v2, "cuStreamWaitValue32", 0, tti_gpu_result,                             \
      (tti_gpu_stream stream, tti_gpu_pointer address, uint32_t value, unsigned int flags))                            \
    X(EventCreate, cuEventCreate, NULL, 1, tti_gpu_result, (tti_gpu_event * event, unsigned int flags))                \
    X(EventDestroy, cuEventDestroy_v2, NULL, 1, tti_gpu_result, (tti_gpu_event event))                                 \
    X(EventRecord, cuEventRecord, NULL, 1, tti_gpu_result, (tti_gpu_event event, tti_gpu_stream stream))               \
    X(EventQuery, cuEventQuery, NULL, 1, tti_gpu_result, (tti_gpu_event event))                                        \
    X(IpcGetMemHandle, cuIpcGetMemHandle, NULL, 1, tti_gpu_result,                                                     \
      (tti_gpu_ipc_handle * handle, tti_gpu_pointer pointer))                                                          \
    X(IpcOpenMemHandle, cuIpcOpenMemHandle_v2, NULL, 1, tti_gpu_result,                                                \
      (tti_gpu_pointer * pointer, tti_gpu_ipc_handle handle, unsigned int flags))                                      \
    X(IpcCloseMemHandle, cuIpcCloseMemHandle, NULL, 1, tti_gpu_result, (tti_gpu_pointer pointer))

#endif
