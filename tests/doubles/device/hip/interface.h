/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * HIP's runtime interface in versions 5, 6 and 7 (TTI_DOUBLE_HIP). The parts that Tutti's drivers and
 * applications use are declared here after hip_runtime_api.h; the numbers of memory types changed with version 6.
 */
#ifndef TESTS_DOUBLES_DEVICE_HIP_INTERFACE_H
#define TESTS_DOUBLES_DEVICE_HIP_INTERFACE_H

#include "../device.h"

/* Where the vendor's header is installed, the files are also compiled against it, and the compiler compares the two. */
#ifdef TTI_DOUBLE_VENDOR_HEADER
#include <hip/hip_runtime_api.h>
#else

typedef enum {
    hipSuccess = 0,
    hipErrorInvalidValue = 1,
    hipErrorInvalidPitchValue = 12,
    hipErrorInvalidDevicePointer = 17,
    hipErrorInvalidMemcpyDirection = 21,
    hipErrorNoDevice = 100,
    hipErrorInvalidDevice = 101,
    hipErrorInvalidContext = 201,
    hipErrorInvalidHandle = 400,
    hipErrorNotFound = 500,
    hipErrorContextIsDestroyed = 709,
    hipErrorNotSupported = 801
} hipError_t;

typedef struct ihipStream_t *hipStream_t;
typedef struct ihipEvent_t *hipEvent_t;
typedef int hipDevice_t;
typedef void *hipDeviceptr_t;
typedef void (*hipHostFn_t)(void *data);

typedef enum {
    hipMemcpyHostToHost = 0,
    hipMemcpyHostToDevice = 1,
    hipMemcpyDeviceToHost = 2,
    hipMemcpyDeviceToDevice = 3,
    hipMemcpyDefault = 4
} hipMemcpyKind;

typedef enum {
#if TTI_DOUBLE_HIP >= 6
    hipMemoryTypeUnregistered = 0,
    hipMemoryTypeHost = 1,
    hipMemoryTypeDevice = 2,
    hipMemoryTypeManaged = 3
#else
    hipMemoryTypeHost = 0,
    hipMemoryTypeDevice = 1
#endif
} hipMemoryType;

typedef struct {
#if TTI_DOUBLE_HIP >= 6
    hipMemoryType type;
#else
    hipMemoryType memoryType;
#endif
    int device;
    void *devicePointer;
    void *hostPointer;
    int isManaged;
    unsigned allocationFlags;
} hipPointerAttribute_t;

typedef enum {
    HIP_POINTER_ATTRIBUTE_CONTEXT = 1,
    HIP_POINTER_ATTRIBUTE_MEMORY_TYPE,
    HIP_POINTER_ATTRIBUTE_DEVICE_POINTER,
    HIP_POINTER_ATTRIBUTE_HOST_POINTER,
    HIP_POINTER_ATTRIBUTE_P2P_TOKENS,
    HIP_POINTER_ATTRIBUTE_SYNC_MEMOPS,
    HIP_POINTER_ATTRIBUTE_BUFFER_ID,
    HIP_POINTER_ATTRIBUTE_IS_MANAGED,
    HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    HIP_POINTER_ATTRIBUTE_IS_LEGACY_HIP_IPC_CAPABLE,
    HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    HIP_POINTER_ATTRIBUTE_RANGE_SIZE,
    HIP_POINTER_ATTRIBUTE_MAPPED
} hipPointer_attribute;

typedef enum {
    hipDeviceAttributeManagedMemory = 24,
    hipDeviceAttributeMaxPitch = 58,
    hipDeviceAttributeCanUseStreamWaitValue = 10013
} hipDeviceAttribute_t;

typedef struct {
    char bytes[16];
} hipUUID;

typedef struct {
    char reserved[64];
} hipIpcMemHandle_t;

enum { hipStreamDefault = 0, hipStreamNonBlocking = 1 };
enum { hipEventBlockingSync = 1, hipEventDisableTiming = 2, hipEventInterprocess = 4 };
enum { hipEventReleaseToDevice = 0x40000000 };
#define hipEventReleaseToSystem  0x80000000
enum { hipHostMallocPortable = 1, hipHostMallocMapped = 2, hipHostMallocWriteCombined = 4 };
enum { hipHostMallocNumaUser = 0x20000000, hipHostMallocCoherent = 0x40000000 };
#define hipHostMallocNonCoherent 0x80000000
enum { hipMemAttachGlobal = 1, hipMemAttachHost = 2 };
enum { hipIpcMemLazyEnablePeerAccess = TTI_DOUBLE_HIP >= 6 }; /* 0 before */
enum { hipStreamWaitValueGte = 0, hipStreamWaitValueEq = 1, hipStreamWaitValueAnd = 2, hipStreamWaitValueNor = 3 };

hipError_t hipInit(unsigned int flags);
hipError_t hipRuntimeGetVersion(int *version);
hipError_t hipDriverGetVersion(int *version);
hipError_t hipGetDeviceCount(int *count);
hipError_t hipSetDevice(int device);
hipError_t hipGetDevice(int *device);
hipError_t hipDeviceSynchronize(void);
hipError_t hipDeviceGetName(char *name, int capacity, hipDevice_t device);
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device);
hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device);
hipError_t hipGetLastError(void);
const char *hipGetErrorName(hipError_t error);
const char *hipGetErrorString(hipError_t error);
hipError_t hipMalloc(void **memory, size_t bytes);
hipError_t hipFree(void *memory);
hipError_t hipMallocManaged(void **memory, size_t bytes, unsigned int flags);
hipError_t hipHostMalloc(void **memory, size_t bytes, unsigned int flags);
hipError_t hipHostFree(void *memory);
hipError_t hipHostRegister(void *memory, size_t bytes, unsigned int flags);
hipError_t hipHostUnregister(void *memory);
hipError_t hipMemGetInfo(size_t *free, size_t *total);
hipError_t hipMemGetAddressRange(hipDeviceptr_t *base, size_t *bytes, hipDeviceptr_t memory);
hipError_t hipPointerGetAttributes(hipPointerAttribute_t *attributes, const void *memory);
hipError_t hipPointerGetAttribute(void *data, hipPointer_attribute attribute, hipDeviceptr_t memory);
hipError_t hipIpcGetMemHandle(hipIpcMemHandle_t *handle, void *memory);
hipError_t hipIpcOpenMemHandle(void **memory, hipIpcMemHandle_t handle, unsigned int flags);
hipError_t hipIpcCloseMemHandle(void *memory);
hipError_t hipStreamCreateWithFlags(hipStream_t *stream, unsigned int flags);
hipError_t hipStreamDestroy(hipStream_t stream);
hipError_t hipStreamQuery(hipStream_t stream);
hipError_t hipStreamSynchronize(hipStream_t stream);
hipError_t hipStreamWaitEvent(hipStream_t stream, hipEvent_t event, unsigned int flags);
hipError_t hipStreamWaitValue32(hipStream_t stream, void *address, uint32_t value, unsigned int flags, uint32_t mask);
hipError_t hipEventCreateWithFlags(hipEvent_t *event, unsigned flags);
hipError_t hipEventDestroy(hipEvent_t event);
hipError_t hipEventRecord(hipEvent_t event, hipStream_t stream);
hipError_t hipEventQuery(hipEvent_t event);
hipError_t hipEventSynchronize(hipEvent_t event);
hipError_t hipMemcpyAsync(void *dst, const void *src, size_t bytes, hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width, size_t rows,
                            hipMemcpyKind kind, hipStream_t stream);
hipError_t hipMemsetAsync(void *memory, int byte, size_t bytes, hipStream_t stream);
hipError_t hipLaunchHostFunc(hipStream_t stream, hipHostFn_t function, void *data);

#endif

/* Begins a function: starts HIP if necessary. Returns the current device, or the code to return at once. */
hipError_t tti_double_hip_enter(const char *function, int *device);
/* Remembers what a function returns, for hipGetLastError, and returns it. */
hipError_t tti_double_hip_result(int code);

#endif
