/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The functions of a GPU's memory, streams and events: a template, compiled by cuda.c and by hip.c with
 *
 *     tti_gpu_..., TTI_GPU_...                        the library's interface, of cuda_api.h or hip_api.h
 *     GPU_DEVICE, GPU_NAME                            the table that is defined here, and its name
 *     GPU_TYPE, GPU_HOST_TYPE, GPU_MANAGED_TYPE       DLPack's types of its memory
 *     GPU_STREAM_WAIT_WORD                            its function that waits for a word, or NULL
 *     driver, library_variable, library_names         the driver's state, and where its library is found
 *
 * The functions that differ are declared first. cuda.c and hip.c define them after this file.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "device/library.h"
#include "device/text.h"

_Static_assert(sizeof(tti_gpu_uuid) == TTI_DEVICE_UUID && sizeof(tti_gpu_ipc_handle) == TTI_DEVICE_IPC,
               "the sizes of the library's structures");

enum { LONGEST_PITCH = INT32_MAX }; /* the largest pitch of every device so far */

/* Numbers that differ between the libraries, and between versions of one. */
struct numbers {
    int memory_unknown; /* types of memory */
    int memory_host;
    int memory_device;
    unsigned int ipc_flags;
};

/* Before the devices are counted, and after. */
static tutti_status initialize(tutti_error *error);
static tutti_status prepare(int count, tutti_error *error);
static const struct numbers *numbers(void);
static tti_gpu_device handle_of(int32_t index);
/* The device that is current on this thread, or -1. */
static int32_t current_device(void);
/* NULL if the library does not know the code. */
static const char *error_name(tti_gpu_result code);
static const char *error_text(tti_gpu_result code);
/* Called after each call that did not succeed. */
static void clear_last_error(void);
static tti_gpu_result start_copy(void *dst, const void *src, size_t bytes, void *stream);
static tti_gpu_result start_copy_rows(const struct tti_device_rows *rows, void *stream);
static tutti_status enter(int32_t index, struct tti_device_scope *scope, tutti_error *error);
static void leave(const struct tti_device_scope *scope);

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* Written once, by start. */
static struct functions {
#define MEMBER(name, symbol, older, needed, result, arguments) result(*name) arguments;
    TTI_GPU_FUNCTIONS(MEMBER)
#undef MEMBER
} api;

/* For sentences. */
static const struct {
#define MEMBER(name, symbol, older, needed, result, arguments) const char *name;
    TTI_GPU_FUNCTIONS(MEMBER)
#undef MEMBER
} names = {
#define NAME(name, symbol, older, needed, result, arguments) #symbol,
    TTI_GPU_FUNCTIONS(NAME)
#undef NAME
};

static const struct tti_symbol symbols[] = {
#define SYMBOL(name, symbol, older, needed, result, arguments)                                                         \
    {__builtin_offsetof(struct functions, name), #symbol, older, needed},
    TTI_GPU_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* OK, or the error of the function, with what the format says of the call. */
__attribute__((format(printf, 4, 5))) static tutti_status check_of(tti_gpu_result code, tutti_error *error,
                                                                   const char *function, const char *format, ...)
{
    char where[24] = "";
    if (code == TTI_GPU_SUCCESS) {
        return TUTTI_OK;
    }
    clear_last_error();
    const int32_t current = driver.count > 0 ? current_device() : -1;
    if (current >= 0) {
        tti_device_text((DLDevice){GPU_TYPE, current}, where);
    }
    const struct tti_vendor_failure failure = {.status =
                                                   code == TTI_GPU_OUT_OF_MEMORY ? TUTTI_NO_MEMORY : TUTTI_BACKEND,
                                               .code = code,
                                               .function = function,
                                               .name = error_name(code),
                                               .text = error_text(code),
                                               .where = where};
    va_list arguments;
    va_start(arguments, format);
    tti_vendor_error(error, &failure, format, arguments);
    va_end(arguments);
    return failure.status;
}

static tutti_status check(tti_gpu_result code, tutti_error *error, const char *function)
{
    return check_of(code, error, function, "%s", "");
}

static tutti_status find_devices(tutti_error *error)
{
    int count = 0;
    tutti_status status = initialize(error);
    if (status == TUTTI_OK) {
        status = check(api.DeviceGetCount(&count), error, names.DeviceGetCount);
    }
    if (status == TUTTI_OK && count <= 0) {
        status = tti_error_set(error, TUTTI_NOT_AVAILABLE, "the driver sees no device (%s may hide it)",
                               driver.mask_variable);
    }
    if (status == TUTTI_OK) {
        status = prepare(count, error);
    }
    if (status == TUTTI_OK) {
        driver.count = count;
    }
    return status;
}

static void start(void)
{
    static const struct tti_library library = {.display_name = "driver",
                                               .variable = library_variable,
                                               .names = library_names,
                                               .symbols = symbols,
                                               .count = sizeof(symbols) / sizeof(symbols[0])};
    tutti_error error;
    driver.owner = getpid();
    if (tti_library_open(&library, &api, driver.why, sizeof(driver.why)) && find_devices(&error) != TUTTI_OK) {
        snprintf(driver.why, sizeof(driver.why), "%.*s", (int)sizeof(driver.why) - 1, error.message);
    }
}

static const struct tti_driver *started_driver(void)
{
    pthread_once(&started, start);
    return &driver;
}

static int32_t available(char *why, size_t capacity)
{
    return tti_driver_available(started_driver(), why, capacity);
}

static int32_t count_devices(void)
{
    return tti_driver_ready(started_driver(), NULL) == TUTTI_OK ? driver.count : 0;
}

static tutti_status version(int32_t *number, tutti_error *error)
{
    int found = 0;
    tutti_status status = tti_driver_ready(started_driver(), error);
    if (status == TUTTI_OK) {
        status = check(api.DriverGetVersion(&found), error, names.DriverGetVersion);
    }
    if (status == TUTTI_OK) {
        *number = found;
    }
    return status;
}

static tutti_status name_of(int32_t index, char *name, size_t capacity, tutti_error *error)
{
    tutti_status status = tti_driver_has(started_driver(), index, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const int room = capacity > INT32_MAX ? INT32_MAX : (int)capacity;
    return check_of(api.DeviceGetName(name, room, handle_of(index)), error, names.DeviceGetName, " of %s:%d", GPU_NAME,
                    index);
}

static tutti_status uuid_of(int32_t index, unsigned char uuid[TTI_DEVICE_UUID], tutti_error *error)
{
    tti_gpu_uuid got;
    tutti_status status = tti_driver_has(started_driver(), index, error);
    if (status == TUTTI_OK) {
        status = check_of(api.DeviceGetUuid(&got, handle_of(index)), error, names.DeviceGetUuid, " of %s:%d", GPU_NAME,
                          index);
    }
    if (status == TUTTI_OK) {
        memcpy(uuid, got.bytes, sizeof(got.bytes));
    }
    return status;
}

static tti_gpu_pointer pointer_of(const void *memory)
{
    return (tti_gpu_pointer)(uintptr_t)memory;
}

/* HIP writes an attribute as a byte or as 32 bits. So *value begins as 0, and these processors are little-endian. */
static tutti_status attribute_of(const void *memory, tti_gpu_attribute attribute, const char *what, int *value,
                                 tutti_error *error)
{
    *value = 0;
    return check_of(api.PointerGetAttribute(value, attribute, pointer_of(memory)), error, names.PointerGetAttribute,
                    " (%s) of %p", what, memory);
}

static tutti_status lookup(const void *memory, DLDevice *device, tutti_error *error)
{
    int type = 0;
    int managed = 0;
    int ordinal = 0;
    tutti_status status = tti_driver_ready(started_driver(), error);
    if (status != TUTTI_OK) {
        return status;
    }
    const tti_gpu_result code = api.PointerGetAttribute(&type, TTI_GPU_POINTER_MEMORY_TYPE, pointer_of(memory));
    if (code == TTI_GPU_INVALID_VALUE || (code == TTI_GPU_SUCCESS && type == numbers()->memory_unknown)) {
        clear_last_error();
        *device = (DLDevice){kDLCPU, 0};
        return TUTTI_OK;
    }
    status = check_of(code, error, names.PointerGetAttribute, " (memory type) of %p", memory);
    if (status == TUTTI_OK) {
        status = attribute_of(memory, TTI_GPU_POINTER_IS_MANAGED, "managed", &managed, error);
    }
    if (status == TUTTI_OK) {
        status = attribute_of(memory, TTI_GPU_POINTER_DEVICE_ORDINAL, "device", &ordinal, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    /* The number is negative for host and managed memory without a device. */
    const DLDeviceType kind = managed ? GPU_MANAGED_TYPE : type == numbers()->memory_host ? GPU_HOST_TYPE : GPU_TYPE;
    if (kind == GPU_TYPE && (type != numbers()->memory_device || ordinal < 0 || ordinal >= driver.count)) {
        return tti_error_set(error, TUTTI_BACKEND,
                             "the driver reports for %p the impossible memory type %d, on device %d of %d", memory,
                             type, ordinal, driver.count);
    }
    *device = (DLDevice){kind, kind == kDLCPU || ordinal < 0 ? 0 : ordinal};
    return TUTTI_OK;
}

static tutti_status alloc_memory(size_t bytes, void **memory, tutti_error *error)
{
    tti_gpu_pointer pointer = pointer_of(NULL);
    tutti_status status = TUTTI_OK;
    if (bytes > 0) {
        status = check_of(api.MemAlloc(&pointer, bytes), error, names.MemAlloc, " of %zu bytes", bytes);
    }
    if (status == TUTTI_OK) {
        *memory = (void *)(uintptr_t)pointer;
    }
    return status;
}

static tutti_status free_memory(void *memory, tutti_error *error)
{
    return memory ? check_of(api.MemFree(pointer_of(memory)), error, names.MemFree, " of %p", memory) : TUTTI_OK;
}

static tutti_status alloc_host(size_t bytes, void **memory, tutti_error *error)
{
    void *pointer = NULL;
    tutti_status status = TUTTI_OK;
    if (bytes > 0) {
        status = check_of(api.MemHostAlloc(&pointer, bytes, TTI_GPU_HOST_PORTABLE | TTI_GPU_HOST_MAPPED), error,
                          names.MemHostAlloc, " of %zu bytes", bytes);
    }
    if (status == TUTTI_OK) {
        *memory = pointer;
    }
    return status;
}

static tutti_status free_host(void *memory, tutti_error *error)
{
    return memory ? check_of(api.MemFreeHost(memory), error, names.MemFreeHost, " of %p", memory) : TUTTI_OK;
}

static tutti_status copy(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error)
{
    return bytes == 0 ? TUTTI_OK
                      : check_of(start_copy(dst, src, bytes, stream), error, names.MemcpyAsync,
                                 " of %zu bytes from %p to %p", bytes, src, dst);
}

static tutti_status copy_rows(const struct tti_device_rows *rows, void *stream, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    if (rows->width == 0 || rows->rows == 0) {
        return TUTTI_OK;
    }
    if (rows->dst_pitch <= LONGEST_PITCH && rows->src_pitch <= LONGEST_PITCH) {
        return check_of(start_copy_rows(rows, stream), error, names.Memcpy2DAsync,
                        " of %zu rows of %zu bytes (pitches %zu to %zu) from %p to %p", rows->rows, rows->width,
                        rows->src_pitch, rows->dst_pitch, rows->src, rows->dst);
    }
    for (size_t i = 0; status == TUTTI_OK && i < rows->rows; i++) {
        status = copy((char *)rows->dst + i * rows->dst_pitch, (const char *)rows->src + i * rows->src_pitch,
                      rows->width, stream, error);
    }
    return status;
}

static tutti_status stream_create(void **stream, tutti_error *error)
{
    tti_gpu_stream created = NULL;
    tutti_status status = check(api.StreamCreate(&created, TTI_GPU_STREAM_NON_BLOCKING), error, names.StreamCreate);
    if (status == TUTTI_OK) {
        *stream = created;
    }
    return status;
}

static tutti_status stream_destroy(void *stream, tutti_error *error)
{
    return check(api.StreamDestroy(stream), error, names.StreamDestroy);
}

static tutti_status stream_wait_event(void *stream, void *event, tutti_error *error)
{
    return check(api.StreamWaitEvent(stream, event, 0), error, names.StreamWaitEvent);
}

static tutti_status event_create(void **event, tutti_error *error)
{
    tti_gpu_event created = NULL;
    tutti_status status = check(api.EventCreate(&created, TTI_GPU_EVENT_DISABLE_TIMING), error, names.EventCreate);
    if (status == TUTTI_OK) {
        *event = created;
    }
    return status;
}

static tutti_status event_destroy(void *event, tutti_error *error)
{
    return check(api.EventDestroy(event), error, names.EventDestroy);
}

static tutti_status event_record(void *event, void *stream, tutti_error *error)
{
    return check(api.EventRecord(event, stream), error, names.EventRecord);
}

static tutti_status event_query(void *event, int32_t *done, tutti_error *error)
{
    const tti_gpu_result code = api.EventQuery(event);
    *done = code != TTI_GPU_NOT_READY;
    if (*done) {
        return check_of(code, error, names.EventQuery, ", or the work before the event,");
    }
    clear_last_error();
    return TUTTI_OK;
}

/* A handle names a whole allocation. */
static tutti_status ipc_export(const void *memory, unsigned char handle[TTI_DEVICE_IPC], size_t *offset,
                               tutti_error *error)
{
    tti_gpu_pointer base = pointer_of(NULL);
    size_t bytes = 0;
    tti_gpu_ipc_handle got;
    tutti_status status = check_of(api.MemGetAddressRange(&base, &bytes, pointer_of(memory)), error,
                                   names.MemGetAddressRange, " of %p", memory);
    if (status == TUTTI_OK) {
        status = check_of(api.IpcGetMemHandle(&got, base), error, names.IpcGetMemHandle, " of %p", memory);
    }
    if (status == TUTTI_OK) {
        memcpy(handle, got.reserved, sizeof(got.reserved));
        *offset = (size_t)((uintptr_t)memory - (uintptr_t)base);
    }
    return status;
}

static tutti_status ipc_open(const unsigned char handle[TTI_DEVICE_IPC], void **allocation, tutti_error *error)
{
    tti_gpu_pointer pointer = pointer_of(NULL);
    tti_gpu_ipc_handle given;
    memcpy(given.reserved, handle, sizeof(given.reserved));
    tutti_status status =
        check(api.IpcOpenMemHandle(&pointer, given, numbers()->ipc_flags), error, names.IpcOpenMemHandle);
    if (status == TUTTI_OK) {
        *allocation = (void *)(uintptr_t)pointer;
    }
    return status;
}

static tutti_status ipc_close(void *allocation, tutti_error *error)
{
    return check_of(api.IpcCloseMemHandle(pointer_of(allocation)), error, names.IpcCloseMemHandle, " of %p",
                    allocation);
}

const struct tti_device GPU_DEVICE = {
    .name = GPU_NAME,
    .type = GPU_TYPE,
    .host_type = GPU_HOST_TYPE,
    .managed_type = GPU_MANAGED_TYPE,
    .available = available,
    .count = count_devices,
    .version = version,
    .name_of = name_of,
    .uuid_of = uuid_of,
    .lookup = lookup,
    .enter = enter,
    .leave = leave,
    .alloc = alloc_memory,
    .free = free_memory,
    .alloc_host = alloc_host,
    .free_host = free_host,
    .copy = copy,
    .copy_rows = copy_rows,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_wait_event = stream_wait_event,
    .stream_wait_word = GPU_STREAM_WAIT_WORD,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .ipc_export = ipc_export,
    .ipc_open = ipc_open,
    .ipc_close = ipc_close,
};
