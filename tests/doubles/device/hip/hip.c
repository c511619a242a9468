/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libamdhip64.so: starting, devices, errors. HIP starts with the first call, and every thread has a current device, at
 * first device 0. Functions on a stream that does not exist return the error that the context is destroyed.
 */
#include <stdio.h>
#include <string.h>

#include "interface.h"

/* Major times 10^7, minor times 10^5, and a build. */
enum { VERSION = TTI_DOUBLE_HIP == 5 ? 50221153 : TTI_DOUBLE_HIP == 6 ? 60443483 : 70051831 };

const struct tti_double_vendor tti_double_vendor = {.variable = "TUTTI_DOUBLE_HIP",
                                                    .visible = "HIP_VISIBLE_DEVICES",
                                                    .version = VERSION,
                                                    .stages = false,
                                                    .host_waits = false};

static _Thread_local int current;
static _Thread_local hipError_t last;

/* Before version 7 it returns the result of the last call, since then the last error. */
hipError_t tti_double_hip_result(int code)
{
    if (TTI_DOUBLE_HIP < 7 || (code && code != TTI_DOUBLE_NOT_READY)) {
        last = (hipError_t)code;
    }
    return (hipError_t)code;
}

int tti_double_current(int *code)
{
    *code = tti_double_sticky(current);
    return *code ? -1 : current;
}

/* Works in every state of the devices. */
static int enter(const char *function)
{
    const int code = tti_double_enter_early(function);
    tti_double_hip_result(TTI_DOUBLE_OK);
    return code ? code : tti_double_init();
}

hipError_t tti_double_hip_enter(const char *function, int *device)
{
    int code = enter(function);
    if (!code) {
        *device = tti_double_current(&code);
    }
    return tti_double_hip_result(code);
}

hipError_t hipInit(unsigned int flags)
{
    const int code = enter(__func__);
    return tti_double_hip_result(code ? code : flags ? hipErrorInvalidValue : hipSuccess);
}

static hipError_t get_version(const char *function, int *version)
{
    const int code = tti_double_enter_early(function);
    if (code || !version) {
        return tti_double_hip_result(code ? code : hipErrorInvalidValue);
    }
    *version = tti_double_version();
    return hipSuccess;
}

hipError_t hipRuntimeGetVersion(int *version)
{
    return get_version(__func__, version);
}

/* The same number: there is no other driver. Fails without a device. */
hipError_t hipDriverGetVersion(int *version)
{
    const int code = tti_double_init();
    return code ? tti_double_hip_result(code) : get_version(__func__, version);
}

hipError_t hipGetDeviceCount(int *count)
{
    const int code = enter(__func__);
    if (!count) {
        return tti_double_hip_result(hipErrorInvalidValue);
    }
    *count = code ? 0 : tti_double_count();
    return tti_double_hip_result(code);
}

hipError_t hipSetDevice(int device)
{
    const int code = enter(__func__);
    if (code || device < 0 || device >= tti_double_count()) {
        return tti_double_hip_result(code ? code : hipErrorInvalidDevice);
    }
    current = device;
    return hipSuccess;
}

hipError_t hipGetDevice(int *device)
{
    const int code = enter(__func__);
    if (code || !device) {
        return tti_double_hip_result(code ? code : hipErrorInvalidValue);
    }
    *device = current;
    return hipSuccess;
}

hipError_t hipDeviceSynchronize(void)
{
    int device = 0;
    const hipError_t code = tti_double_hip_enter(__func__, &device);
    return code ? code : tti_double_hip_result(tti_double_synchronize(device));
}

static int enter_device(const char *function, int device)
{
    const int code = enter(function);
    return code ? code : device < 0 || device >= tti_double_count() ? hipErrorInvalidDevice : hipSuccess;
}

hipError_t hipDeviceGetName(char *name, int capacity, hipDevice_t device)
{
    const int code = enter_device(__func__, device);
    if (code || !name || capacity <= 0) {
        return tti_double_hip_result(code ? code : hipErrorInvalidValue);
    }
    snprintf(name, (size_t)capacity, "Tutti double of an AMD GPU %d", tti_double_physical(device));
    return hipSuccess;
}

/* 16 hexadecimal digits, not 16 octets. */
hipError_t hipDeviceGetUuid(hipUUID *uuid, hipDevice_t device)
{
    unsigned char bytes[TTI_DOUBLE_UUID];
    const int code = enter_device(__func__, device);
    if (code || !uuid) {
        return tti_double_hip_result(code ? code : hipErrorInvalidValue);
    }
    tti_double_uuid(device, bytes);
    for (int i = 0; i < TTI_DOUBLE_UUID; i++) {
        uuid->bytes[i] = "0123456789abcdef"[bytes[i] & 15];
    }
    return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    const int code = enter_device(__func__, device);
    if (code || !value) {
        return tti_double_hip_result(code ? code : hipErrorInvalidValue);
    }
    switch ((int)attribute) {
    case hipDeviceAttributeMaxPitch:
        *value = INT32_MAX;
        return hipSuccess;
    case hipDeviceAttributeManagedMemory:
    case hipDeviceAttributeCanUseStreamWaitValue:
        *value = 1;
        return hipSuccess;
    default:
        return tti_double_hip_result(hipErrorInvalidValue);
    }
}

hipError_t hipGetLastError(void)
{
    const hipError_t code = last;
    last = hipSuccess;
    return code;
}

static const struct {
    int code;
    const char *name;
    const char *text;
} errors[] = {
    {0, "hipSuccess", "no error"},
    {1, "hipErrorInvalidValue", "invalid argument"},
    {2, "hipErrorOutOfMemory", "out of memory"},
    {3, "hipErrorNotInitialized", "initialization error"},
    {4, "hipErrorDeinitialized", "driver shutting down"},
    {12, "hipErrorInvalidPitchValue", "invalid pitch argument"},
    {17, "hipErrorInvalidDevicePointer", "invalid device pointer"},
    {21, "hipErrorInvalidMemcpyDirection", "invalid copy direction for memcpy"},
    {100, "hipErrorNoDevice", "no ROCm-capable device is detected"},
    {101, "hipErrorInvalidDevice", "invalid device ordinal"},
    {201, "hipErrorInvalidContext", "invalid device context"},
    {205, "hipErrorMapFailed", "mapping of buffer object failed"},
    {214, "hipErrorECCNotCorrectable", "uncorrectable ECC error encountered"},
    {304, "hipErrorOperatingSystem", "OS call failed or operation not supported on this OS"},
    {400, "hipErrorInvalidHandle", "invalid resource handle"},
    {500, "hipErrorNotFound", "named symbol not found"},
    {600, "hipErrorNotReady", "device not ready"},
    {700, "hipErrorIllegalAddress", "an illegal memory access was encountered"},
    {709, "hipErrorContextIsDestroyed", "context is destroyed"},
    {712, "hipErrorHostMemoryAlreadyRegistered", "memory is already registered"},
    {713, "hipErrorHostMemoryNotRegistered", "memory is not registered"},
    {719, "hipErrorLaunchFailure", "unspecified launch failure"},
    {801, "hipErrorNotSupported", "operation not supported"},
    {999, "hipErrorUnknown", "unknown error"},
};

enum { ERRORS = sizeof(errors) / sizeof(errors[0]) };

/* An unknown error has the last name. */
static int find(hipError_t error)
{
    int index = 0;
    while (index < ERRORS - 1 && errors[index].code != (int)error) {
        index++;
    }
    return index;
}

const char *hipGetErrorName(hipError_t error)
{
    return errors[find(error)].name;
}

const char *hipGetErrorString(hipError_t error)
{
    return errors[find(error)].text;
}
