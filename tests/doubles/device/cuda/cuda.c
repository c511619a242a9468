/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libcuda.so.1: starting, devices, contexts. There are primary contexts only. A thread has a stack of contexts; what
 * needs one that is current refuses without it. When a primary context is released for the last time, everything in it
 * ends, and threads that still have it on their stack find it destroyed.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "interface.h"

const struct tti_double_vendor tti_double_vendor = {.variable = "TUTTI_DOUBLE_CUDA",
                                                    .visible = "CUDA_VISIBLE_DEVICES",
                                                    .version = 13000,
                                                    .stages = true,
                                                    .host_waits = true};

enum { STACK = 64 };

static _Thread_local int stack[STACK]; /* of devices */
static _Thread_local int depth;

/* Guards how often the primary context of each device is retained. Taken before the core's lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int retained[TTI_DOUBLE_DEVICES];

/* As with streams, a number that no program can dereference. */
static const uintptr_t context_base = 0x4358000000000000u;

CUcontext tti_double_cuda_context(int device)
{
    const uintptr_t value = context_base + 16 * (uintptr_t)(device + 1);
    CUcontext context = NULL;
    memcpy(&context, &value, sizeof(context));
    return context;
}

/* -1: no such context. */
static int device_of(CUcontext context)
{
    const uintptr_t number = (uintptr_t)context - context_base;
    const uintptr_t device = number / 16 - 1;
    return number % 16 == 0 && device < (uintptr_t)tti_double_count() ? (int)device : -1;
}

static bool is_active(int device)
{
    pthread_mutex_lock(&lock);
    const bool active = retained[device] > 0;
    pthread_mutex_unlock(&lock);
    return active;
}

void *tti_double_cuda_pointer(CUdeviceptr address)
{
    void *pointer = NULL;
    memcpy(&pointer, &address, sizeof(pointer));
    return pointer;
}

int tti_double_current(int *code)
{
    if (depth == 0) {
        *code = CUDA_ERROR_INVALID_CONTEXT;
        return -1;
    }
    const int device = stack[depth - 1];
    *code = is_active(device) ? tti_double_sticky(device) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return *code ? -1 : device;
}

CUresult tti_double_cuda_enter(const char *function, int *device)
{
    int code = tti_double_enter(function);
    if (!code) {
        *device = tti_double_current(&code);
    }
    return (CUresult)code;
}

/* Begins a function about a device, current or not. */
static CUresult enter_device(const char *function, CUdevice device)
{
    const int code = tti_double_enter(function);
    return code                                         ? (CUresult)code
           : device < 0 || device >= tti_double_count() ? CUDA_ERROR_INVALID_DEVICE
                                                        : CUDA_SUCCESS;
}

CUresult cuInit(unsigned int flags)
{
    const int code = tti_double_enter_early(__func__);
    return code ? (CUresult)code : flags ? CUDA_ERROR_INVALID_VALUE : (CUresult)tti_double_init();
}

CUresult cuDriverGetVersion(int *version)
{
    const int code = tti_double_enter_early(__func__);
    if (code || !version) {
        return code ? (CUresult)code : CUDA_ERROR_INVALID_VALUE;
    }
    *version = tti_double_version();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    const int code = tti_double_enter(__func__);
    if (code || !count) {
        return code ? (CUresult)code : CUDA_ERROR_INVALID_VALUE;
    }
    *count = tti_double_count();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    const CUresult code = enter_device(__func__, ordinal);
    if (code || !device) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int capacity, CUdevice device)
{
    const CUresult code = enter_device(__func__, device);
    if (code || !name || capacity <= 0) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    snprintf(name, (size_t)capacity, "Tutti double of an NVIDIA GPU %d", tti_double_physical(device));
    return CUDA_SUCCESS;
}

static CUresult get_uuid(const char *function, CUuuid *uuid, CUdevice device)
{
    unsigned char bytes[TTI_DOUBLE_UUID];
    const CUresult code = enter_device(function, device);
    if (code || !uuid) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    tti_double_uuid(device, bytes);
    memcpy(uuid->bytes, bytes, sizeof(bytes));
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device)
{
    return get_uuid(__func__, uuid, device);
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device)
{
    return get_uuid(__func__, uuid, device);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device)
{
    size_t left = 0;
    const CUresult code = enter_device(__func__, device);
    if (code || !bytes) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    tti_double_memory_info(device, &left, bytes);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    const CUresult code = enter_device(__func__, device);
    if (code || !value) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    switch ((int)attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
        *value = INT32_MAX;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
        *value = 1;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = 9;
        return CUDA_SUCCESS;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice device, CUdevice peer)
{
    const CUresult code = enter_device(__func__, device);
    if (code || !can) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    if (peer < 0 || peer >= tti_double_count()) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    *can = peer != device;
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    const CUresult code = enter_device(__func__, device);
    if (code || !context) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    retained[device]++;
    pthread_mutex_unlock(&lock);
    *context = tti_double_cuda_context(device);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device)
{
    const CUresult code = enter_device(__func__, device);
    if (code) {
        return code;
    }
    pthread_mutex_lock(&lock);
    const bool was_active = retained[device] > 0;
    retained[device] -= was_active;
    if (was_active && retained[device] == 0) {
        tti_double_reset(device);
    }
    pthread_mutex_unlock(&lock);
    return was_active ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    const CUresult code = enter_device(__func__, device);
    if (code || !flags || !active) {
        return code ? code : CUDA_ERROR_INVALID_VALUE;
    }
    *flags = 0;
    *active = is_active(device);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    const int code = tti_double_enter(__func__);
    if (code) {
        return (CUresult)code;
    }
    const int device = device_of(context);
    if (device < 0 || depth == STACK) {
        return device < 0 ? CUDA_ERROR_INVALID_CONTEXT : CUDA_ERROR_UNKNOWN;
    }
    if (!is_active(device)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    stack[depth++] = device;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *context)
{
    const int code = tti_double_enter(__func__);
    if (code || depth == 0) {
        return code ? (CUresult)code : CUDA_ERROR_INVALID_CONTEXT;
    }
    depth--;
    if (context) {
        *context = tti_double_cuda_context(stack[depth]);
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext context)
{
    const int code = tti_double_enter(__func__);
    if (code) {
        return (CUresult)code;
    }
    const int device = context ? device_of(context) : 0;
    if (device < 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context && !is_active(device)) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    depth -= depth > 0;
    if (context) {
        stack[depth++] = device;
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *context)
{
    const int code = tti_double_enter(__func__);
    if (code || !context) {
        return code ? (CUresult)code : CUDA_ERROR_INVALID_VALUE;
    }
    *context = depth ? tti_double_cuda_context(stack[depth - 1]) : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    const int code = tti_double_enter(__func__);
    if (code || !device || depth == 0) {
        return code ? (CUresult)code : !device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_CONTEXT;
    }
    *device = stack[depth - 1];
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    int device = 0;
    const CUresult code = tti_double_cuda_enter(__func__, &device);
    return code ? code : (CUresult)tti_double_synchronize(device);
}
