/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The double of the driver, found at run time as the real library finds the real driver: a copy in the process, else by
 * name. Besides the vendor's functions it exports those of doubles/device/device.h: the shadow address of device
 * memory, and how to queue the stand-in of a kernel.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why[256]; /* it cannot be used; "" if it can */
static void *(*shadow)(const void *memory, size_t bytes, int *device);
static int (*launch)(void *stream, int (*run)(void *data, int code), void *data);

#ifdef TTI_DOUBLE_RCCL
static struct {
    int (*get_device)(int *device);
    int (*set_device)(int device);
    int (*get_uuid)(void *uuid, int device);
    int (*alloc)(void **memory, size_t bytes);
    int (*release)(void *memory);
} driver;

static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"};
static const struct {
    const char *name;
    void *place;
} symbols[] = {
    {"hipGetDevice", &driver.get_device}, {"hipSetDevice", &driver.set_device}, {"hipDeviceGetUuid", &driver.get_uuid},
    {"hipMalloc", &driver.alloc},         {"hipFree", &driver.release},         {"tti_double_shadow", &shadow},
    {"tti_double_launch", &launch},
};
#else
static struct {
    int (*context_current)(void **context);
    int (*context_device)(int *device);
    int (*context_push)(void *context);
    int (*context_pop)(void **context);
    int (*device_get)(int *device, int index);
    int (*primary_retain)(void **context, int device);
    int (*get_uuid)(void *uuid, int device);
    int (*alloc)(uint64_t *memory, size_t bytes);
    int (*release)(uint64_t memory);
} driver;

static const char *const names[] = {"libcuda.so.1"};
static const struct {
    const char *name;
    void *place;
} symbols[] = {
    {"cuCtxGetCurrent", &driver.context_current},
    {"cuCtxGetDevice", &driver.context_device},
    {"cuCtxPushCurrent_v2", &driver.context_push},
    {"cuCtxPopCurrent_v2", &driver.context_pop},
    {"cuDeviceGet", &driver.device_get},
    {"cuDevicePrimaryCtxRetain", &driver.primary_retain},
    {"cuDeviceGetUuid_v2", &driver.get_uuid},
    {"cuMemAlloc_v2", &driver.alloc},
    {"cuMemFree_v2", &driver.release},
    {"tti_double_shadow", &shadow},
    {"tti_double_launch", &launch},
};
#endif

static void *open_driver(void)
{
    const size_t count = sizeof(names) / sizeof(names[0]);
    for (size_t i = 0; i < count; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
        if (library) {
            return library;
        }
    }
    for (size_t i = 0; i < count; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (library) {
            return library;
        }
    }
    return NULL;
}

static void find_driver(void)
{
    void *library = open_driver();
    if (!library) {
        snprintf(why, sizeof(why), "Cuda failure : no driver (%s cannot be loaded)", names[0]);
        return;
    }
    for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
        void *found = dlsym(library, symbols[i].name);
        if (!found && symbols[i].place == &driver.get_uuid) {
            continue; /* older drivers have none */
        }
        if (!found) {
            snprintf(why, sizeof(why), "Cuda failure : the driver lacks %s (is it the double?)", symbols[i].name);
            return;
        }
        memcpy(symbols[i].place, &found, sizeof(found));
    }
}

ncclResult_t tti_driver_open(void)
{
    pthread_once(&once, find_driver);
    return why[0] ? tti_refuse(ncclUnhandledCudaError, "%s", why) : ncclSuccess;
}

static ncclResult_t check(int code, const char *function)
{
    if (code == 0) {
        return ncclSuccess;
    }
    return tti_refuse(code == 2 ? ncclSystemError : ncclUnhandledCudaError, "Cuda failure %d of %s", code, function);
}

ncclResult_t tti_driver_launch(void *stream, int (*run)(void *data, int code), void *data)
{
    return check(launch(stream, run, data), "a kernel's launch");
}

void *tti_driver_shadow(const void *memory, size_t bytes, int *device)
{
    return shadow(memory, bytes, device);
}

/* Identifies devices unless a process sees only some of them. */
static ncclResult_t number_as_uuid(int device, unsigned char uuid[TTI_UUID])
{
    memset(uuid, 0, TTI_UUID);
    memcpy(uuid, &device, sizeof(device));
    return ncclSuccess;
}

#ifdef TTI_DOUBLE_RCCL
ncclResult_t tti_driver_current(int *device, void **context)
{
    *context = NULL;
    return check(driver.get_device(device), "hipGetDevice");
}

ncclResult_t tti_driver_uuid(int device, unsigned char uuid[TTI_UUID])
{
    return driver.get_uuid ? check(driver.get_uuid(uuid, device), "hipDeviceGetUuid") : number_as_uuid(device, uuid);
}

/* `before` carries the number of the device that was current. */
ncclResult_t tti_driver_enter(const struct ncclComm *comm, void **before)
{
    int previous;
    ncclResult_t result = check(driver.get_device(&previous), "hipGetDevice");
    if (result == ncclSuccess) {
        result = check(driver.set_device(comm->device), "hipSetDevice");
        *before = (void *)(intptr_t)previous;
    }
    return result;
}

void tti_driver_leave(const struct ncclComm *comm, void *before)
{
    (void)comm;
    if (driver.set_device((int)(intptr_t)before) != 0) {
        tti_misused("the device that was current before a call cannot be made current again.");
    }
}

ncclResult_t tti_driver_alloc(void **memory, size_t bytes)
{
    return check(driver.alloc(memory, bytes), "hipMalloc");
}

ncclResult_t tti_driver_free(void *memory)
{
    return check(driver.release(memory), "hipFree");
}
#else
ncclResult_t tti_driver_current(int *device, void **context)
{
    ncclResult_t result = check(driver.context_current(context), "cuCtxGetCurrent");
    if (result == ncclSuccess && *context) {
        return check(driver.context_device(device), "cuCtxGetDevice");
    }
    if (result == ncclSuccess) {
        result = check(driver.device_get(device, 0), "cuDeviceGet");
    }
    if (result == ncclSuccess) {
        result = check(driver.primary_retain(context, *device), "cuDevicePrimaryCtxRetain");
    }
    return result;
}

ncclResult_t tti_driver_uuid(int device, unsigned char uuid[TTI_UUID])
{
    return driver.get_uuid ? check(driver.get_uuid(uuid, device), "cuDeviceGetUuid") : number_as_uuid(device, uuid);
}

ncclResult_t tti_driver_enter(const struct ncclComm *comm, void **before)
{
    *before = NULL;
    return check(driver.context_push(comm->context), "cuCtxPushCurrent");
}

void tti_driver_leave(const struct ncclComm *comm, void *before)
{
    void *popped;
    (void)before;
    if (driver.context_pop(&popped) != 0 || popped != comm->context) {
        tti_misused("the context that a call had pushed was not the current one at its end.");
    }
}

ncclResult_t tti_driver_alloc(void **memory, size_t bytes)
{
    uint64_t address = 0;
    const ncclResult_t result = check(driver.alloc(&address, bytes), "cuMemAlloc");
    *memory = (void *)(uintptr_t)address;
    return result;
}

ncclResult_t tti_driver_free(void *memory)
{
    return check(driver.release((uintptr_t)memory), "cuMemFree");
}
#endif
