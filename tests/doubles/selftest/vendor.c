/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls the doubles of both vendors in one way. */
#include "vendor.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hip;
bool old;
static void *library;

void vendor_load(const char *path)
{
    const char *name = strstr(path, "libamdhip64.so.");
    hip = name ? atoi(name + strlen("libamdhip64.so.")) : 0;
    old = strstr(path, "_old/");
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
}

bool vendor_has(const char *function)
{
    return dlsym(library, function);
}

/* Stores a function into a pointer of its type. */
static void find(const char *function, void *place)
{
    void *found = dlsym(library, function);
    if (!found) {
        fprintf(stderr, "the double has no %s\n", function);
        exit(2);
    }
    memcpy(place, &found, sizeof(found));
}

static const char *either(const char *cuda, const char *amd)
{
    return hip ? amd : cuda;
}

/* The functions of one or two arguments that are pointers, which are most. */
static int call_1(const char *function, const void *a)
{
    int (*call)(const void *) = NULL;
    find(function, &call);
    return call(a);
}

static int call_2(const char *function, const void *a, const void *b)
{
    int (*call)(const void *, const void *) = NULL;
    find(function, &call);
    return call(a, b);
}

static int call_flags(const char *function, const void *a, unsigned flags)
{
    int (*call)(const void *, unsigned) = NULL;
    find(function, &call);
    return call(a, flags);
}

static int call_bytes(const char *function, const void *a, size_t bytes)
{
    int (*call)(const void *, size_t) = NULL;
    find(function, &call);
    return call(a, bytes);
}

static int call_bytes_flags(const char *function, const void *a, size_t bytes, unsigned flags)
{
    int (*call)(const void *, size_t, unsigned) = NULL;
    find(function, &call);
    return call(a, bytes, flags);
}

int vendor_init(void)
{
    int (*call)(unsigned) = NULL;
    find(either("cuInit", "hipInit"), &call);
    return call(0);
}

int vendor_count(int *count)
{
    return call_1(either("cuDeviceGetCount", "hipGetDeviceCount"), count);
}

int cuda_push(int device)
{
    int (*retain)(void **, int) = NULL;
    void *context = NULL;
    find("cuDevicePrimaryCtxRetain", &retain);
    const int code = retain(&context, device);
    return code ? code : call_1("cuCtxPushCurrent_v2", context);
}

int cuda_pop(void)
{
    return call_1("cuCtxPopCurrent_v2", NULL);
}

int cuda_release(int device)
{
    int (*call)(int) = NULL;
    find("cuDevicePrimaryCtxRelease_v2", &call);
    return call(device);
}

int vendor_begin(int device)
{
    const int code = vendor_init();
    if (code || !hip) {
        return code ? code : cuda_push(device);
    }
    int (*call)(int) = NULL;
    find("hipSetDevice", &call);
    return call(device);
}

int vendor_alloc(void **memory, size_t bytes)
{
    return call_bytes(either("cuMemAlloc_v2", "hipMalloc"), memory, bytes);
}

int vendor_free(void *memory)
{
    return call_1(either("cuMemFree_v2", "hipFree"), memory);
}

int vendor_managed(void **memory, size_t bytes)
{
    return call_bytes_flags(either("cuMemAllocManaged", "hipMallocManaged"), memory, bytes, 1);
}

int vendor_host_alloc(void **memory, size_t bytes)
{
    return call_bytes_flags(either("cuMemHostAlloc", "hipHostMalloc"), memory, bytes, 0);
}

int vendor_host_free(void *memory)
{
    return call_1(either("cuMemFreeHost", "hipHostFree"), memory);
}

int vendor_register(void *memory, size_t bytes)
{
    return call_bytes_flags(either("cuMemHostRegister_v2", "hipHostRegister"), memory, bytes, 0);
}

int vendor_unregister(void *memory)
{
    return call_1(either("cuMemHostUnregister", "hipHostUnregister"), memory);
}

int vendor_range(void **base, size_t *bytes, void *memory)
{
    int (*call)(void **, size_t *, void *) = NULL;
    find(either("cuMemGetAddressRange_v2", "hipMemGetAddressRange"), &call);
    return call(base, bytes, memory);
}

static int cuda_place(const void *memory, enum place *place, int *device)
{
    int (*call)(void *, int, const void *) = NULL;
    unsigned type = 0;
    int managed = 0;
    find("cuPointerGetAttribute", &call);
    const int code = call(&type, 2, memory); /* MEMORY_TYPE */
    *place = ELSEWHERE;
    if (!code && !call(&managed, 8, memory) && !call(device, 9, memory)) { /* IS_MANAGED, DEVICE_ORDINAL */
        *place = managed ? MANAGED : type == 2 ? DEVICE : HOST;
    }
    return code;
}

static int hip_place(const void *memory, enum place *place, int *device)
{
    struct {
        int type;
        int device;
        void *of_device;
        void *of_host;
        int managed;
        unsigned flags;
    } found = {0};
    int (*call)(void *, const void *) = NULL;
    static const enum place since_6[] = {ELSEWHERE, HOST, DEVICE, MANAGED};
    find("hipPointerGetAttributes", &call);
    const int code = call(&found, memory);
    *place = code            ? ELSEWHERE
             : hip >= 6      ? since_6[found.type & 3]
             : found.managed ? MANAGED
             : found.type    ? DEVICE
                             : HOST;
    *device = found.device;
    return code;
}

int vendor_place(const void *memory, enum place *place, int *device)
{
    return hip ? hip_place(memory, place, device) : cuda_place(memory, place, device);
}

int vendor_copy(void *dst, const void *src, size_t bytes, void *stream)
{
    int (*cuda)(void *, const void *, size_t, void *) = NULL;
    int (*amd)(void *, const void *, size_t, int, void *) = NULL;
    if (hip) {
        find("hipMemcpyAsync", &amd);
        return amd(dst, src, bytes, 4, stream);
    }
    find("cuMemcpyAsync", &cuda);
    return cuda(dst, src, bytes, stream);
}

int cuda_copy_as(int type, const struct rows *rows, void *stream)
{
    struct side {
        size_t x;
        size_t y;
        int type;
        const void *host;
        const void *device;
        void *array;
        size_t pitch;
    };
    struct {
        struct side src;
        struct side dst;
        size_t width;
        size_t height;
    } copy = {.src = {.type = type, .host = rows->src, .device = rows->src, .pitch = rows->src_pitch},
              .dst = {.type = type, .host = rows->dst, .device = rows->dst, .pitch = rows->dst_pitch},
              .width = rows->width,
              .height = rows->rows};
    return call_2("cuMemcpy2DAsync_v2", &copy, stream);
}

int vendor_copy_rows(const struct rows *rows, void *stream)
{
    int (*amd)(void *, size_t, const void *, size_t, size_t, size_t, int, void *) = NULL;
    if (!hip) {
        return cuda_copy_as(4, rows, stream); /* unified */
    }
    find("hipMemcpy2DAsync", &amd);
    return amd(rows->dst, rows->dst_pitch, rows->src, rows->src_pitch, rows->width, rows->rows, 4, stream);
}

int vendor_fill(void *dst, int byte, size_t bytes, void *stream)
{
    int (*cuda)(void *, unsigned char, size_t, void *) = NULL;
    int (*amd)(void *, int, size_t, void *) = NULL;
    if (hip) {
        find("hipMemsetAsync", &amd);
        return amd(dst, byte, bytes, stream);
    }
    find("cuMemsetD8Async", &cuda);
    return cuda(dst, (unsigned char)byte, bytes, stream);
}

int vendor_stream(void **stream, bool blocking)
{
    return call_flags(either("cuStreamCreate", "hipStreamCreateWithFlags"), stream, !blocking);
}

int vendor_stream_destroy(void *stream)
{
    return call_1(either("cuStreamDestroy_v2", "hipStreamDestroy"), stream);
}

int vendor_stream_query(void *stream)
{
    return call_1(either("cuStreamQuery", "hipStreamQuery"), stream);
}

int vendor_stream_synchronize(void *stream)
{
    return call_1(either("cuStreamSynchronize", "hipStreamSynchronize"), stream);
}

int vendor_stream_wait(void *stream, void *event)
{
    int (*call)(void *, void *, unsigned) = NULL;
    find(either("cuStreamWaitEvent", "hipStreamWaitEvent"), &call);
    return call(stream, event, 0);
}

int vendor_stream_wait_word(void *stream, const uint32_t *word, uint32_t value)
{
    int (*call)(void *, const void *, uint32_t, unsigned, uint32_t) = NULL;
    find(either("cuStreamWaitValue32_v2", "hipStreamWaitValue32"), &call);
    return call(stream, word, value, 0, UINT32_MAX); /* CUDA has no mask and ignores it */
}

int vendor_host_function(void *stream, void (*function)(void *), void *data)
{
    int (*call)(void *, void (*)(void *), void *) = NULL;
    find(either("cuLaunchHostFunc", "hipLaunchHostFunc"), &call);
    return call(stream, function, data);
}

int vendor_event(void **event)
{
    return call_flags(either("cuEventCreate", "hipEventCreateWithFlags"), event, 2);
}

int vendor_event_destroy(void *event)
{
    return call_1(either("cuEventDestroy_v2", "hipEventDestroy"), event);
}

int vendor_event_record(void *event, void *stream)
{
    return call_2(either("cuEventRecord", "hipEventRecord"), event, stream);
}

int vendor_event_query(void *event)
{
    return call_1(either("cuEventQuery", "hipEventQuery"), event);
}

int vendor_event_synchronize(void *event)
{
    return call_1(either("cuEventSynchronize", "hipEventSynchronize"), event);
}

int vendor_ipc_export(struct ipc *handle, void *memory)
{
    return call_2(either("cuIpcGetMemHandle", "hipIpcGetMemHandle"), handle, memory);
}

int vendor_ipc_open(void **memory, const struct ipc *handle)
{
    int (*call)(void **, struct ipc, unsigned) = NULL;
    find(either("cuIpcOpenMemHandle_v2", "hipIpcOpenMemHandle"), &call);
    return call(memory, *handle, hip != 5); /* lazy access to peers, which was 0 before version 6 */
}

int vendor_ipc_close(void *memory)
{
    return call_1(either("cuIpcCloseMemHandle", "hipIpcCloseMemHandle"), memory);
}

void *double_shadow(const void *memory, size_t bytes, int *device)
{
    void *(*call)(const void *, size_t, int *) = NULL;
    find("tti_double_shadow", &call);
    return call(memory, bytes, device);
}

int double_launch(void *stream, int (*run)(void *, int), void *data)
{
    int (*call)(void *, int (*)(void *, int), void *) = NULL;
    find("tti_double_launch", &call);
    return call(stream, run, data);
}
