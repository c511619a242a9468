/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA by the driver's interface, which every NVIDIA driver installs: no toolkit is needed. The contexts are the
 * devices' primary ones. The CUDA runtime uses them, too, so memory, streams and events of an application (or PyTorch)
 * are valid here, and the other way round. Each context is retained when its device is first entered. It is never
 * released: the last release would destroy what the application still uses.
 *
 * Addresses are unified: the driver finds the source and the destination of a copy by their addresses.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "device/cuda_api.h"
#include "device/library.h"
#include "device/text.h"

_Static_assert(sizeof(tti_cu_uuid) == TTI_DEVICE_UUID && sizeof(tti_cu_ipc_handle) == TTI_DEVICE_IPC,
               "the sizes of CUDA's structures");

enum { LONGEST_PITCH = INT32_MAX }; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH of every device so far */

struct one_device {
    tti_cu_device handle;
    _Atomic tti_cu_context context; /* NULL before the first enter; release after the retain, acquire in context_of */
};

/* Written once, by start; later only the contexts change. */
static struct {
    struct {
#define MEMBER(name, symbol, older, needed, arguments) tti_cu_result(*name) arguments;
        TTI_CUDA_FUNCTIONS(MEMBER)
#undef MEMBER
    } api;
    struct one_device *devices;
    struct tti_driver driver;
} cuda = {.driver = {.display_name = "CUDA", .prefix = "cuda", .mask_variable = "CUDA_VISIBLE_DEVICES"}};

static pthread_once_t started = PTHREAD_ONCE_INIT;
static pthread_mutex_t retaining = PTHREAD_MUTEX_INITIALIZER;

static const char *const names[] = {"libcuda.so.1", NULL};

static const struct tti_symbol symbols[] = {
#define SYMBOL(name, symbol, older, needed, arguments)                                                                 \
    {__builtin_offsetof(__typeof__(cuda.api), name), #symbol, older, needed},
    TTI_CUDA_FUNCTIONS(SYMBOL)
#undef SYMBOL
};

/* The device whose context is current on this thread; "" if none is. */
static const char *current_text(char text[24])
{
    tti_cu_device current;
    text[0] = '\0';
    if (cuda.driver.count > 0 && cuda.api.CtxGetDevice(&current) == TTI_CU_SUCCESS) {
        for (int32_t i = 0; i < cuda.driver.count; i++) {
            if (cuda.devices[i].handle == current) {
                return tti_device_text((DLDevice){kDLCUDA, i}, text);
            }
        }
    }
    return text;
}

/* OK, or the error of the function that the format names. */
__attribute__((format(printf, 3, 4))) static tutti_status check(tti_cu_result code, tutti_error *error,
                                                                const char *format, ...)
{
    char where[24];
    if (code == TTI_CU_SUCCESS) {
        return TUTTI_OK;
    }
    struct tti_vendor_failure failure = {.status = code == TTI_CU_OUT_OF_MEMORY ? TUTTI_NO_MEMORY : TUTTI_BACKEND,
                                         .code = code,
                                         .where = current_text(where)};
    if (cuda.api.GetErrorName(code, &failure.name) != TTI_CU_SUCCESS) {
        failure.name = NULL;
    }
    if (cuda.api.GetErrorString(code, &failure.text) != TTI_CU_SUCCESS) {
        failure.text = NULL;
    }
    va_list arguments;
    va_start(arguments, format);
    tti_vendor_error(error, &failure, format, arguments);
    va_end(arguments);
    return failure.status;
}

static tutti_status find_devices(tutti_error *error)
{
    int count = 0;
    tutti_status status = check(cuda.api.Init(0), error, "cuInit");
    if (status == TUTTI_OK) {
        status = check(cuda.api.DeviceGetCount(&count), error, "cuDeviceGetCount");
    }
    if (status == TUTTI_OK && count <= 0) {
        status = tti_error_set(error, TUTTI_NOT_AVAILABLE, "the driver sees no device (%s may hide it)",
                               cuda.driver.mask_variable);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    cuda.devices = calloc((size_t)count, sizeof(*cuda.devices));
    if (!cuda.devices) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for the list of %d devices", count);
    }
    for (int i = 0; status == TUTTI_OK && i < count; i++) {
        status = check(cuda.api.DeviceGet(&cuda.devices[i].handle, i), error, "cuDeviceGet of device %d", i);
    }
    cuda.driver.count = count;
    return status;
}

static void start(void)
{
    static const struct tti_library library = {.display_name = "driver",
                                               .variable = "TUTTI_CUDA_LIBRARY",
                                               .names = names,
                                               .symbols = symbols,
                                               .count = sizeof(symbols) / sizeof(symbols[0])};
    struct tti_driver *driver = &cuda.driver;
    tutti_error error;
    driver->owner = getpid();
    if (tti_library_open(&library, &cuda.api, driver->why, sizeof(driver->why)) && find_devices(&error) != TUTTI_OK) {
        snprintf(driver->why, sizeof(driver->why), "%.*s", (int)sizeof(driver->why) - 1, error.message);
    }
}

static const struct tti_driver *driver(void)
{
    pthread_once(&started, start);
    return &cuda.driver;
}

static int32_t cuda_available(char *why, size_t capacity)
{
    return tti_driver_available(driver(), why, capacity);
}

static int32_t cuda_count(void)
{
    return tti_driver_ready(driver(), NULL) == TUTTI_OK ? cuda.driver.count : 0;
}

static tutti_status cuda_version(int32_t *number, tutti_error *error)
{
    int version = 0;
    tutti_status status = tti_driver_ready(driver(), error);
    if (status == TUTTI_OK) {
        status = check(cuda.api.DriverGetVersion(&version), error, "cuDriverGetVersion");
    }
    if (status == TUTTI_OK) {
        *number = version;
    }
    return status;
}

static tutti_status cuda_name_of(int32_t index, char *name, size_t capacity, tutti_error *error)
{
    tutti_status status = tti_driver_has(driver(), index, error);
    if (status != TUTTI_OK) {
        return status;
    }
    const int room = capacity > INT32_MAX ? INT32_MAX : (int)capacity;
    return check(cuda.api.DeviceGetName(name, room, cuda.devices[index].handle), error, "cuDeviceGetName of cuda:%d",
                 index);
}

static tutti_status cuda_uuid_of(int32_t index, unsigned char uuid[TTI_DEVICE_UUID], tutti_error *error)
{
    tti_cu_uuid got;
    tutti_status status = tti_driver_has(driver(), index, error);
    if (status == TUTTI_OK) {
        status =
            check(cuda.api.DeviceGetUuid(&got, cuda.devices[index].handle), error, "cuDeviceGetUuid of cuda:%d", index);
    }
    if (status == TUTTI_OK) {
        memcpy(uuid, got.bytes, sizeof(got.bytes));
    }
    return status;
}

static tti_cu_pointer pointer_of(const void *memory)
{
    return (tti_cu_pointer)(uintptr_t)memory;
}

static tutti_status attribute_of(const void *memory, tti_cu_attribute attribute, const char *what, int *value,
                                 tutti_error *error)
{
    return check(cuda.api.PointerGetAttribute(value, attribute, pointer_of(memory)), error,
                 "cuPointerGetAttribute (%s) of %p", what, memory);
}

static tutti_status cuda_lookup(const void *memory, DLDevice *device, tutti_error *error)
{
    int type = 0;
    int managed = 0;
    int ordinal = 0;
    tutti_status status = tti_driver_ready(driver(), error);
    if (status != TUTTI_OK) {
        return status;
    }
    const tti_cu_result code = cuda.api.PointerGetAttribute(&type, TTI_CU_POINTER_MEMORY_TYPE, pointer_of(memory));
    if (code == TTI_CU_INVALID_VALUE) { /* not CUDA's memory */
        *device = (DLDevice){kDLCPU, 0};
        return TUTTI_OK;
    }
    status = check(code, error, "cuPointerGetAttribute (memory type) of %p", memory);
    if (status == TUTTI_OK) {
        status = attribute_of(memory, TTI_CU_POINTER_IS_MANAGED, "managed", &managed, error);
    }
    if (status == TUTTI_OK) {
        status = attribute_of(memory, TTI_CU_POINTER_DEVICE_ORDINAL, "device", &ordinal, error);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    /* The number is negative for host and managed memory without a device. */
    const DLDeviceType kind = managed ? kDLCUDAManaged : type == TTI_CU_MEMORY_HOST ? kDLCUDAHost : kDLCUDA;
    if (kind == kDLCUDA && (type != TTI_CU_MEMORY_DEVICE || ordinal < 0 || ordinal >= cuda.driver.count)) {
        return tti_error_set(error, TUTTI_BACKEND,
                             "the driver reports for %p the impossible memory type %d, on device %d of %d", memory,
                             type, ordinal, cuda.driver.count);
    }
    *device = (DLDevice){kind, ordinal < 0 ? 0 : ordinal};
    return TUTTI_OK;
}

/* The primary context of a device, retained at most once. */
static tutti_status context_of(int32_t index, tti_cu_context *context, tutti_error *error)
{
    struct one_device *device = &cuda.devices[index];
    tutti_status status = TUTTI_OK;
    *context = atomic_load_explicit(&device->context, memory_order_acquire); /* partner: the store below */
    if (*context) {
        return TUTTI_OK;
    }
    pthread_mutex_lock(&retaining);
    *context = atomic_load_explicit(&device->context, memory_order_relaxed); /* stored under this lock only */
    if (!*context) {
        status = check(cuda.api.PrimaryCtxRetain(context, device->handle), error, "cuDevicePrimaryCtxRetain of cuda:%d",
                       index);
        if (status == TUTTI_OK) {
            atomic_store_explicit(&device->context, *context, memory_order_release);
        }
    }
    pthread_mutex_unlock(&retaining);
    return status;
}

static tutti_status cuda_enter(int32_t index, struct tti_device_scope *scope, tutti_error *error)
{
    tti_cu_context context = NULL;
    tutti_status status = tti_driver_has(driver(), index, error);
    if (status == TUTTI_OK) {
        status = context_of(index, &context, error);
    }
    if (status == TUTTI_OK) {
        status = check(cuda.api.CtxPushCurrent(context), error, "cuCtxPushCurrent of cuda:%d", index);
    }
    *scope = (struct tti_device_scope){.context = context, .previous = -1};
    return status;
}

static void cuda_leave(const struct tti_device_scope *scope)
{
    tti_cu_context popped;
    (void)scope;
    (void)cuda.api.CtxPopCurrent(&popped); /* fails only while the driver shuts down */
}

static tutti_status cuda_alloc(size_t bytes, void **memory, tutti_error *error)
{
    tti_cu_pointer pointer = 0;
    tutti_status status = TUTTI_OK;
    if (bytes > 0) {
        status = check(cuda.api.MemAlloc(&pointer, bytes), error, "cuMemAlloc of %zu bytes", bytes);
    }
    if (status == TUTTI_OK) {
        *memory = (void *)(uintptr_t)pointer;
    }
    return status;
}

static tutti_status cuda_free(void *memory, tutti_error *error)
{
    return memory ? check(cuda.api.MemFree(pointer_of(memory)), error, "cuMemFree of %p", memory) : TUTTI_OK;
}

static tutti_status cuda_alloc_host(size_t bytes, void **memory, tutti_error *error)
{
    void *pointer = NULL;
    tutti_status status = TUTTI_OK;
    if (bytes > 0) {
        status = check(cuda.api.MemHostAlloc(&pointer, bytes, TTI_CU_HOST_PORTABLE | TTI_CU_HOST_DEVICEMAP), error,
                       "cuMemHostAlloc of %zu bytes", bytes);
    }
    if (status == TUTTI_OK) {
        *memory = pointer;
    }
    return status;
}

static tutti_status cuda_free_host(void *memory, tutti_error *error)
{
    return memory ? check(cuda.api.MemFreeHost(memory), error, "cuMemFreeHost of %p", memory) : TUTTI_OK;
}

static tutti_status cuda_copy(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error)
{
    return bytes == 0 ? TUTTI_OK
                      : check(cuda.api.MemcpyAsync(pointer_of(dst), pointer_of(src), bytes, stream), error,
                              "cuMemcpyAsync of %zu bytes from %p to %p", bytes, src, dst);
}

static tutti_status cuda_copy_rows(const struct tti_device_rows *rows, void *stream, tutti_error *error)
{
    if (rows->width == 0 || rows->rows == 0) {
        return TUTTI_OK;
    }
    if (rows->dst_pitch > LONGEST_PITCH || rows->src_pitch > LONGEST_PITCH) {
        return tti_copy_each_row(&tti_device_cuda, rows, stream, error);
    }
    const tti_cu_copy_2d copy = {.src_type = TTI_CU_MEMORY_UNIFIED,
                                 .src = pointer_of(rows->src),
                                 .src_pitch = rows->src_pitch,
                                 .dst_type = TTI_CU_MEMORY_UNIFIED,
                                 .dst = pointer_of(rows->dst),
                                 .dst_pitch = rows->dst_pitch,
                                 .width = rows->width,
                                 .height = rows->rows};
    return check(cuda.api.Memcpy2DAsync(&copy, stream), error,
                 "cuMemcpy2DAsync of %zu rows of %zu bytes (pitches %zu to %zu) from %p to %p", rows->rows, rows->width,
                 rows->src_pitch, rows->dst_pitch, rows->src, rows->dst);
}

static tutti_status cuda_stream_create(void **stream, tutti_error *error)
{
    tti_cu_stream created = NULL;
    tutti_status status = check(cuda.api.StreamCreate(&created, TTI_CU_STREAM_NON_BLOCKING), error, "cuStreamCreate");
    if (status == TUTTI_OK) {
        *stream = created;
    }
    return status;
}

static tutti_status cuda_stream_destroy(void *stream, tutti_error *error)
{
    return check(cuda.api.StreamDestroy(stream), error, "cuStreamDestroy");
}

static tutti_status cuda_stream_wait_event(void *stream, void *event, tutti_error *error)
{
    return check(cuda.api.StreamWaitEvent(stream, event, 0), error, "cuStreamWaitEvent");
}

static tutti_status cuda_stream_wait_word(void *stream, const uint32_t *word, uint32_t value, tutti_error *error)
{
    const tti_cu_result code = cuda.api.StreamWaitValue32
                                   ? cuda.api.StreamWaitValue32(stream, pointer_of(word), value, TTI_CU_WAIT_VALUE_GEQ)
                                   : TTI_CU_NOT_SUPPORTED;
    if (code == TTI_CU_NOT_SUPPORTED) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "this driver or device has no stream operation that waits for a word in memory");
    }
    return check(code, error, "cuStreamWaitValue32 of %p", (const void *)word);
}

static tutti_status cuda_event_create(void **event, tutti_error *error)
{
    tti_cu_event created = NULL;
    tutti_status status = check(cuda.api.EventCreate(&created, TTI_CU_EVENT_DISABLE_TIMING), error, "cuEventCreate");
    if (status == TUTTI_OK) {
        *event = created;
    }
    return status;
}

static tutti_status cuda_event_destroy(void *event, tutti_error *error)
{
    return check(cuda.api.EventDestroy(event), error, "cuEventDestroy");
}

static tutti_status cuda_event_record(void *event, void *stream, tutti_error *error)
{
    return check(cuda.api.EventRecord(event, stream), error, "cuEventRecord");
}

static tutti_status cuda_event_query(void *event, int32_t *done, tutti_error *error)
{
    const tti_cu_result code = cuda.api.EventQuery(event);
    if (code == TTI_CU_NOT_READY) {
        *done = 0;
        return TUTTI_OK;
    }
    *done = 1;
    return check(code, error, "cuEventQuery, or the work before the event,");
}

/* A handle names a whole allocation. */
static tutti_status cuda_ipc_export(const void *memory, unsigned char handle[TTI_DEVICE_IPC], size_t *offset,
                                    tutti_error *error)
{
    tti_cu_pointer base = 0;
    size_t bytes = 0;
    tti_cu_ipc_handle got;
    tutti_status status = check(cuda.api.MemGetAddressRange(&base, &bytes, pointer_of(memory)), error,
                                "cuMemGetAddressRange of %p", memory);
    if (status == TUTTI_OK) {
        status = check(cuda.api.IpcGetMemHandle(&got, base), error, "cuIpcGetMemHandle of %p", memory);
    }
    if (status == TUTTI_OK) {
        memcpy(handle, got.reserved, sizeof(got.reserved));
        *offset = (size_t)(pointer_of(memory) - base);
    }
    return status;
}

static tutti_status cuda_ipc_open(const unsigned char handle[TTI_DEVICE_IPC], void **allocation, tutti_error *error)
{
    tti_cu_pointer pointer = 0;
    tti_cu_ipc_handle given;
    memcpy(given.reserved, handle, sizeof(given.reserved));
    tutti_status status =
        check(cuda.api.IpcOpenMemHandle(&pointer, given, TTI_CU_IPC_LAZY_PEER_ACCESS), error, "cuIpcOpenMemHandle");
    if (status == TUTTI_OK) {
        *allocation = (void *)(uintptr_t)pointer;
    }
    return status;
}

static tutti_status cuda_ipc_close(void *allocation, tutti_error *error)
{
    return check(cuda.api.IpcCloseMemHandle(pointer_of(allocation)), error, "cuIpcCloseMemHandle of %p", allocation);
}

const struct tti_device tti_device_cuda = {
    .name = "cuda",
    .type = kDLCUDA,
    .host_type = kDLCUDAHost,
    .managed_type = kDLCUDAManaged,
    .available = cuda_available,
    .count = cuda_count,
    .version = cuda_version,
    .name_of = cuda_name_of,
    .uuid_of = cuda_uuid_of,
    .lookup = cuda_lookup,
    .enter = cuda_enter,
    .leave = cuda_leave,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .copy = cuda_copy,
    .copy_rows = cuda_copy_rows,
    .stream_create = cuda_stream_create,
    .stream_destroy = cuda_stream_destroy,
    .stream_wait_event = cuda_stream_wait_event,
    .stream_wait_word = cuda_stream_wait_word,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .event_record = cuda_event_record,
    .event_query = cuda_event_query,
    .ipc_export = cuda_ipc_export,
    .ipc_open = cuda_ipc_open,
    .ipc_close = cuda_ipc_close,
};
