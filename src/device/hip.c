/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ROCm by HIP's run-time interface, the only one that every installation has. Each thread has a current device, which
 * enter saves and leave restores. The contexts are HIP's, shared with the application.
 *
 * HIP keeps a thread's last error until it is read. An application that reads it after its own call must not get an
 * error of Tutti. So each failed or not-ready call here is followed by hipGetLastError, which clears it.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "device/hip_api.h"
#include "device/library.h"
#include "device/text.h"

_Static_assert(sizeof(tti_hip_uuid) == TTI_DEVICE_UUID && sizeof(tti_hip_ipc_handle) == TTI_DEVICE_IPC,
               "the sizes of HIP's structures");

enum { LONGEST_PITCH = INT32_MAX }; /* hipDeviceAttributeMaxPitch */

/* Written once, by start. */
static struct {
    struct {
#define MEMBER(name, result, arguments) result(*name) arguments;
        TTI_HIP_FUNCTIONS(MEMBER)
#undef MEMBER
    } api;
    struct tti_driver driver;
    int version; /* HIP_VERSION of the library */
} hip = {.driver = {
             .display_name = "ROCm", .prefix = "rocm", .mask_variable = "HIP_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES"}};

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* Without a version: the name in Python's packages of ROCm. */
static const char *const names[] = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so", NULL};

static const struct tti_symbol symbols[] = {
#define SYMBOL(name, result, arguments) {__builtin_offsetof(__typeof__(hip.api), name), "hip" #name, NULL, true},
    TTI_HIP_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* OK, or the error of the function that the format names. */
__attribute__((format(printf, 3, 4))) static tutti_status check(tti_hip_result code, tutti_error *error,
                                                                const char *format, ...)
{
    char where[24] = "";
    int current = 0;
    if (code == TTI_HIP_SUCCESS) {
        return TUTTI_OK;
    }
    (void)hip.api.GetLastError(); /* clears it */
    if (hip.driver.count > 0 && hip.api.GetDevice(&current) == TTI_HIP_SUCCESS) {
        tti_device_text((DLDevice){kDLROCM, current}, where);
    }
    const struct tti_vendor_failure failure = {.status =
                                                   code == TTI_HIP_OUT_OF_MEMORY ? TUTTI_NO_MEMORY : TUTTI_BACKEND,
                                               .code = code,
                                               .name = hip.api.GetErrorName(code),
                                               .text = hip.api.GetErrorString(code),
                                               .where = where};
    va_list arguments;
    va_start(arguments, format);
    tti_vendor_error(error, &failure, format, arguments);
    va_end(arguments);
    return failure.status;
}

static tutti_status find_devices(tutti_error *error)
{
    int count = 0;
    tutti_status status = check(hip.api.GetDeviceCount(&count), error, "hipGetDeviceCount");
    if (status == TUTTI_OK && count <= 0) {
        status = tti_error_set(error, TUTTI_NOT_AVAILABLE, "the driver sees no device (%s may hide it)",
                               hip.driver.mask_variable);
    }
    if (status == TUTTI_OK) {
        status = check(hip.api.RuntimeGetVersion(&hip.version), error, "hipRuntimeGetVersion");
    }
    if (status == TUTTI_OK) {
        hip.driver.count = count;
    }
    return status;
}

static void start(void)
{
    static const struct tti_library library = {.display_name = "driver",
                                               .variable = "TUTTI_HIP_LIBRARY",
                                               .names = names,
                                               .symbols = symbols,
                                               .count = sizeof(symbols) / sizeof(symbols[0])};
    struct tti_driver *driver = &hip.driver;
    tutti_error error;
    driver->owner = getpid();
    if (tti_library_open(&library, &hip.api, driver->why, sizeof(driver->why)) && find_devices(&error) != TUTTI_OK) {
        snprintf(driver->why, sizeof(driver->why), "%.*s", (int)sizeof(driver->why) - 1, error.message);
    }
}

static const struct tti_driver *driver(void)
{
    pthread_once(&started, start);
    return &hip.driver;
}

static int32_t hip_available(char *why, size_t capacity)
{
    return tti_driver_available(driver(), why, capacity);
}

static int32_t hip_count(void)
{
    return tti_driver_ready(driver(), NULL) == TUTTI_OK ? hip.driver.count : 0;
}

static tutti_status hip_version(int32_t *number, tutti_error *error)
{
    int version = 0;
    tutti_status status = tti_driver_ready(driver(), error);
    if (status == TUTTI_OK) {
        status = check(hip.api.DriverGetVersion(&version), error, "hipDriverGetVersion");
    }
    if (status == TUTTI_OK) {
        *number = version;
    }
    return status;
}

static tutti_status hip_name_of(int32_t index, char *name, size_t capacity, tutti_error *error)
{
    tutti_status status = tti_driver_has(driver(), index, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const int room = capacity > INT32_MAX ? INT32_MAX : (int)capacity;
    return check(hip.api.DeviceGetName(name, room, index), error, "hipDeviceGetName of rocm:%d", index);
}

static tutti_status hip_uuid_of(int32_t index, unsigned char uuid[TTI_DEVICE_UUID], tutti_error *error)
{
    tti_hip_uuid got;
    tutti_status status = tti_driver_has(driver(), index, error);
    if (status == TUTTI_OK) {
        status = check(hip.api.DeviceGetUuid(&got, index), error, "hipDeviceGetUuid of rocm:%d", index);
    }
    if (status == TUTTI_OK) {
        memcpy(uuid, got.bytes, sizeof(got.bytes));
    }
    return status;
}

static bool before_6(void)
{
    return hip.version < TTI_HIP_VERSION_6;
}

/* HIP writes an attribute as a byte or as 32 bits. *value begins as 0, and these processors are little-endian. */
static tutti_status attribute_of(const void *memory, tti_hip_attribute attribute, const char *what, int *value,
                                 tutti_error *error)
{
    *value = 0;
    return check(hip.api.PointerGetAttribute(value, attribute, (void *)memory), error,
                 "hipPointerGetAttribute (%s) of %p", what, memory);
}

/* DLPack has no type for managed memory of ROCm. The host can read and write it, so it is kDLCPU. */
static tutti_status hip_lookup(const void *memory, DLDevice *device, tutti_error *error)
{
    int type = 0;
    int managed = 0;
    int ordinal = 0;
    tutti_status status = tti_driver_ready(driver(), error);
    if (status != TUTTI_OK) {
        return status;
    }
    const tti_hip_result code = hip.api.PointerGetAttribute(&type, TTI_HIP_POINTER_MEMORY_TYPE, (void *)memory);
    const bool unknown = code == TTI_HIP_INVALID_VALUE; /* later versions succeed, with an unknown type */
    if (unknown || (code == TTI_HIP_SUCCESS && !before_6() && type == TTI_HIP6_MEMORY_UNREGISTERED)) {
        if (unknown) {
            (void)hip.api.GetLastError(); /* clears it */
        }
        *device = (DLDevice){kDLCPU, 0};
        return TUTTI_OK;
    }
    status = check(code, error, "hipPointerGetAttribute (memory type) of %p", memory);
    if (status == TUTTI_OK) {
        status = attribute_of(memory, TTI_HIP_POINTER_IS_MANAGED, "managed", &managed, error);
    }
    if (status == TUTTI_OK) {
        status = attribute_of(memory, TTI_HIP_POINTER_DEVICE_ORDINAL, "device", &ordinal, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    const bool on_host = type == (before_6() ? TTI_HIP5_MEMORY_HOST : TTI_HIP6_MEMORY_HOST);
    const bool on_device = type == (before_6() ? TTI_HIP5_MEMORY_DEVICE : TTI_HIP6_MEMORY_DEVICE);
    if (managed) {
        *device = (DLDevice){kDLCPU, 0};
    } else if (on_host) {
        *device = (DLDevice){kDLROCMHost, ordinal < 0 ? 0 : ordinal};
    } else if (on_device && ordinal >= 0 && ordinal < hip.driver.count) {
        *device = (DLDevice){kDLROCM, ordinal};
    } else {
        status = tti_error_set(error, TUTTI_BACKEND, "ROCm says of %p that its memory type is %d, on device %d of %d",
                               memory, type, ordinal, hip.driver.count);
    }
    return status;
}

static tutti_status hip_enter(int32_t index, struct tti_device_scope *scope, tutti_error *error)
{
    int current = 0;
    *scope = (struct tti_device_scope){.previous = -1}; /* leave then does nothing */
    tutti_status status = tti_driver_has(driver(), index, error);
    if (status == TUTTI_OK) {
        status = check(hip.api.GetDevice(&current), error, "hipGetDevice");
    }
    if (status == TUTTI_OK && current != index) {
        status = check(hip.api.SetDevice(index), error, "hipSetDevice to rocm:%d", index);
        scope->previous = status == TUTTI_OK ? current : -1;
    }
    return status;
}

static void hip_leave(const struct tti_device_scope *scope)
{
    if (scope->previous >= 0) {
        (void)check(hip.api.SetDevice(scope->previous), NULL, "hipSetDevice"); /* it exists: it was current */
    }
}

static tutti_status hip_alloc(size_t bytes, void **memory, tutti_error *error)
{
    void *pointer = NULL;
    tutti_status status = TUTTI_OK;
    if (bytes > 0) {
        status = check(hip.api.Malloc(&pointer, bytes), error, "hipMalloc of %zu bytes", bytes);
    }
    if (status == TUTTI_OK) {
        *memory = pointer;
    }
    return status;
}

static tutti_status hip_free(void *memory, tutti_error *error)
{
    return memory ? check(hip.api.Free(memory), error, "hipFree of %p", memory) : TUTTI_OK;
}

static tutti_status hip_alloc_host(size_t bytes, void **memory, tutti_error *error)
{
    void *pointer = NULL;
    tutti_status status = TUTTI_OK;
    if (bytes > 0) {
        status = check(hip.api.HostMalloc(&pointer, bytes, TTI_HIP_HOST_PORTABLE | TTI_HIP_HOST_MAPPED), error,
                       "hipHostMalloc of %zu bytes", bytes);
    }
    if (status == TUTTI_OK) {
        *memory = pointer;
    }
    return status;
}

static tutti_status hip_free_host(void *memory, tutti_error *error)
{
    return memory ? check(hip.api.HostFree(memory), error, "hipHostFree of %p", memory) : TUTTI_OK;
}

static tutti_status hip_copy(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error)
{
    return bytes == 0 ? TUTTI_OK
                      : check(hip.api.MemcpyAsync(dst, src, bytes, TTI_HIP_COPY_DEFAULT, stream), error,
                              "hipMemcpyAsync of %zu bytes from %p to %p", bytes, src, dst);
}

static tutti_status hip_copy_rows(const struct tti_device_rows *rows, void *stream, tutti_error *error)
{
    if (rows->width == 0 || rows->rows == 0) {
        return TUTTI_OK;
    }
    if (rows->dst_pitch > LONGEST_PITCH || rows->src_pitch > LONGEST_PITCH) {
        return tti_copy_each_row(&tti_device_rocm, rows, stream, error);
    }
    return check(hip.api.Memcpy2DAsync(rows->dst, rows->dst_pitch, rows->src, rows->src_pitch, rows->width, rows->rows,
                                       TTI_HIP_COPY_DEFAULT, stream),
                 error, "hipMemcpy2DAsync of %zu rows of %zu bytes (pitches %zu to %zu) from %p to %p", rows->rows,
                 rows->width, rows->src_pitch, rows->dst_pitch, rows->src, rows->dst);
}

static tutti_status hip_stream_create(void **stream, tutti_error *error)
{
    tti_hip_stream created = NULL;
    tutti_status status =
        check(hip.api.StreamCreateWithFlags(&created, TTI_HIP_STREAM_NON_BLOCKING), error, "hipStreamCreateWithFlags");
    if (status == TUTTI_OK) {
        *stream = created;
    }
    return status;
}

static tutti_status hip_stream_destroy(void *stream, tutti_error *error)
{
    return check(hip.api.StreamDestroy(stream), error, "hipStreamDestroy");
}

static tutti_status hip_stream_wait_event(void *stream, void *event, tutti_error *error)
{
    return check(hip.api.StreamWaitEvent(stream, event, 0), error, "hipStreamWaitEvent");
}

static tutti_status hip_event_create(void **event, tutti_error *error)
{
    tti_hip_event created = NULL;
    tutti_status status =
        check(hip.api.EventCreateWithFlags(&created, TTI_HIP_EVENT_DISABLE_TIMING), error, "hipEventCreateWithFlags");
    if (status == TUTTI_OK) {
        *event = created;
    }
    return status;
}

static tutti_status hip_event_destroy(void *event, tutti_error *error)
{
    return check(hip.api.EventDestroy(event), error, "hipEventDestroy");
}

static tutti_status hip_event_record(void *event, void *stream, tutti_error *error)
{
    return check(hip.api.EventRecord(event, stream), error, "hipEventRecord");
}

static tutti_status hip_event_query(void *event, int32_t *done, tutti_error *error)
{
    const tti_hip_result code = hip.api.EventQuery(event);
    if (code == TTI_HIP_NOT_READY) {
        (void)hip.api.GetLastError(); /* clears it */
        *done = 0;
        return TUTTI_OK;
    }
    *done = 1;
    return check(code, error, "hipEventQuery, or the work before the event,");
}

/* A handle names a whole allocation. */
static tutti_status hip_ipc_export(const void *memory, unsigned char handle[TTI_DEVICE_IPC], size_t *offset,
                                   tutti_error *error)
{
    void *base = NULL;
    size_t bytes = 0;
    tti_hip_ipc_handle got;
    tutti_status status =
        check(hip.api.MemGetAddressRange(&base, &bytes, (void *)memory), error, "hipMemGetAddressRange of %p", memory);
    if (status == TUTTI_OK) {
        status = check(hip.api.IpcGetMemHandle(&got, base), error, "hipIpcGetMemHandle of %p", memory);
    }
    if (status == TUTTI_OK) {
        memcpy(handle, got.reserved, sizeof(got.reserved));
        *offset = (size_t)((const char *)memory - (const char *)base);
    }
    return status;
}

static tutti_status hip_ipc_open(const unsigned char handle[TTI_DEVICE_IPC], void **allocation, tutti_error *error)
{
    const unsigned int flags = before_6() ? TTI_HIP5_IPC_LAZY_PEER_ACCESS : TTI_HIP6_IPC_LAZY_PEER_ACCESS;
    void *pointer = NULL;
    tti_hip_ipc_handle given;
    memcpy(given.reserved, handle, sizeof(given.reserved));
    tutti_status status = check(hip.api.IpcOpenMemHandle(&pointer, given, flags), error, "hipIpcOpenMemHandle");
    if (status == TUTTI_OK) {
        *allocation = pointer;
    }
    return status;
}

static tutti_status hip_ipc_close(void *allocation, tutti_error *error)
{
    return check(hip.api.IpcCloseMemHandle(allocation), error, "hipIpcCloseMemHandle of %p", allocation);
}

/* No stream_wait_word: hipStreamWaitValue32 compares without regard to wrapping, and only in special memory. */
const struct tti_device tti_device_rocm = {
    .name = "rocm",
    .type = kDLROCM,
    .host_type = kDLROCMHost,
    .managed_type = kDLCPU,
    .available = hip_available,
    .count = hip_count,
    .version = hip_version,
    .name_of = hip_name_of,
    .uuid_of = hip_uuid_of,
    .lookup = hip_lookup,
    .enter = hip_enter,
    .leave = hip_leave,
    .alloc = hip_alloc,
    .free = hip_free,
    .alloc_host = hip_alloc_host,
    .free_host = hip_free_host,
    .copy = hip_copy,
    .copy_rows = hip_copy_rows,
    .stream_create = hip_stream_create,
    .stream_destroy = hip_stream_destroy,
    .stream_wait_event = hip_stream_wait_event,
    .stream_wait_word = NULL,
    .event_create = hip_event_create,
    .event_destroy = hip_event_destroy,
    .event_record = hip_event_record,
    .event_query = hip_event_query,
    .ipc_export = hip_ipc_export,
    .ipc_open = hip_ipc_open,
    .ipc_close = hip_ipc_close,
};
