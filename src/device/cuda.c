/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CUDA by the driver's interface, which every NVIDIA driver installs: no toolkit is needed. The contexts are the
 * devices' primary ones. The CUDA runtime uses them, too, so memory, streams and events of an application (or PyTorch)
 * are valid here, and the other way round. Each context is retained when its device is first entered. It is never
 * released: the last release would destroy what the application still uses.
 *
 * Addresses are unified: the driver finds the source and the destination of a copy by their addresses.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "device/cuda_api.h"
#include "device/library.h"

#define GPU_DEVICE           tti_device_cuda
#define GPU_NAME             "cuda"
#define GPU_TYPE             kDLCUDA
#define GPU_HOST_TYPE        kDLCUDAHost
#define GPU_MANAGED_TYPE     kDLCUDAManaged
#define GPU_STREAM_WAIT_WORD stream_wait_word

static tutti_status stream_wait_word(void *stream, const uint32_t *word, uint32_t value, tutti_error *error);

static const char library_variable[] = "TUTTI_CUDA_LIBRARY";
static const char *const library_names[] = {"libcuda.so.1", NULL};
static struct tti_driver driver = {.display_name = "CUDA", .prefix = GPU_NAME, .mask_variable = "CUDA_VISIBLE_DEVICES"};

#include "device/gpu_functions.h"

struct one_device {
    tti_gpu_device handle;
    _Atomic tti_cu_context context; /* NULL before the first enter; release after the retain, acquire in context_of */
};

/* Written once, by prepare; later only the contexts change. */
static struct one_device *devices;

static pthread_mutex_t retaining = PTHREAD_MUTEX_INITIALIZER;

static tutti_status initialize(tutti_error *error)
{
    return check(api.Init(0), error, names.Init);
}

static tutti_status prepare(int count, tutti_error *error)
{
    tutti_status status = TUTTI_OK;
    devices = calloc((size_t)count, sizeof(*devices));
    if (!devices) {
        return tti_error_set(error, TUTTI_NO_MEMORY, "no memory for the list of %d devices", count);
    }
    for (int i = 0; status == TUTTI_OK && i < count; i++) {
        status = check_of(api.DeviceGet(&devices[i].handle, i), error, names.DeviceGet, " of device %d", i);
    }
    return status;
}

static const struct numbers *numbers(void)
{
    static const struct numbers all = {.memory_unknown = -1, /* an error instead */
                                       .memory_host = TTI_CU_MEMORY_HOST,
                                       .memory_device = TTI_CU_MEMORY_DEVICE,
                                       .ipc_flags = TTI_CU_IPC_LAZY_PEER_ACCESS};
    return &all;
}

static tti_gpu_device handle_of(int32_t index)
{
    return devices[index].handle;
}

static int32_t current_device(void)
{
    tti_gpu_device current;
    int32_t i = api.CtxGetDevice(&current) == TTI_GPU_SUCCESS ? driver.count - 1 : -1;
    while (i >= 0 && devices[i].handle != current) {
        i--;
    }
    return i;
}

static const char *error_name(tti_gpu_result code)
{
    const char *name = NULL;
    return api.GetErrorName(code, &name) == TTI_GPU_SUCCESS ? name : NULL;
}

static const char *error_text(tti_gpu_result code)
{
    const char *text = NULL;
    return api.GetErrorString(code, &text) == TTI_GPU_SUCCESS ? text : NULL;
}

static void clear_last_error(void)
{
    /* the driver keeps none */
}

/* The primary context of a device, retained at most once. */
static tutti_status context_of(int32_t index, tti_cu_context *context, tutti_error *error)
{
    struct one_device *device = &devices[index];
    tutti_status status = TUTTI_OK;
    *context = atomic_load_explicit(&device->context, memory_order_acquire); /* partner: the store below */
    if (*context) {
        return TUTTI_OK;
    }
    pthread_mutex_lock(&retaining);
    *context = atomic_load_explicit(&device->context, memory_order_relaxed); /* stored under this lock only */
    if (!*context) {
        status = check_of(api.PrimaryCtxRetain(context, device->handle), error, names.PrimaryCtxRetain, " of cuda:%d",
                          index);
        if (status == TUTTI_OK) {
            atomic_store_explicit(&device->context, *context, memory_order_release);
        }
    }
    pthread_mutex_unlock(&retaining);
    return status;
}

static tutti_status enter(int32_t index, struct tti_device_scope *scope, tutti_error *error)
{
    tti_cu_context context = NULL;
    tutti_status status = tti_driver_has(started_driver(), index, error);
    if (status == TUTTI_OK) {
        status = context_of(index, &context, error);
    }
    if (status == TUTTI_OK) {
        status = check_of(api.CtxPushCurrent(context), error, names.CtxPushCurrent, " of cuda:%d", index);
    }
    *scope = (struct tti_device_scope){.context = context, .previous = -1};
    return status;
}

static void leave(const struct tti_device_scope *scope)
{
    tti_cu_context popped;
    (void)scope;
    (void)api.CtxPopCurrent(&popped); /* fails only while the driver shuts down */
}

static tti_gpu_result start_copy(void *dst, const void *src, size_t bytes, void *stream)
{
    return api.MemcpyAsync(pointer_of(dst), pointer_of(src), bytes, stream);
}

static tti_gpu_result start_copy_rows(const struct tti_device_rows *rows, void *stream)
{
    const tti_cu_copy_2d copy_2d = {.src_type = TTI_CU_MEMORY_UNIFIED,
                                    .src = pointer_of(rows->src),
                                    .src_pitch = rows->src_pitch,
                                    .dst_type = TTI_CU_MEMORY_UNIFIED,
                                    .dst = pointer_of(rows->dst),
                                    .dst_pitch = rows->dst_pitch,
                                    .width = rows->width,
                                    .height = rows->rows};
    return api.Memcpy2DAsync(&copy_2d, stream);
}

static tutti_status stream_wait_word(void *stream, const uint32_t *word, uint32_t value, tutti_error *error)
{
    const tti_gpu_result code = api.StreamWaitValue32
                                    ? api.StreamWaitValue32(stream, pointer_of(word), value, TTI_CU_WAIT_VALUE_GEQ)
                                    : TTI_CU_NOT_SUPPORTED;
    if (code == TTI_CU_NOT_SUPPORTED) {
        return tti_error_set(error, TUTTI_UNSUPPORTED,
                             "this driver or device has no stream operation that waits for a word in memory");
    }
    return check_of(code, error, names.StreamWaitValue32, " of %p", (const void *)word);
}
