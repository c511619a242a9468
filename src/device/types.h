/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of functions that each kind of memory has: the host's, CUDA's (libcuda.so.1, the driver's interface) and
 * ROCm's (libamdhip64.so). The vendors' libraries are opened at their first use, so Tutti builds and runs without them.
 *
 * Streams and events are the vendor's own (CUstream, CUevent, hipStream_t, hipEvent_t): an application's can be passed
 * in. On the host they are NULL, and each function completes before it returns.
 */
#ifndef TTI_DEVICE_TYPES_H
#define TTI_DEVICE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/dlpack.h>
#include <tutti/status.h>

enum { TTI_DEVICE_UUID = 16, TTI_DEVICE_IPC = 64 };

/* The state of this thread that enter saves and leave restores. */
struct tti_device_scope {
    void *context;    /* CUDA: pushed */
    int32_t previous; /* HIP: the device that was current */
};

/* A two-dimensional copy: `rows` rows of `width` bytes, which begin `*_pitch` >= width bytes apart. */
struct tti_device_rows {
    void *dst;
    size_t dst_pitch;
    const void *src;
    size_t src_pitch;
    size_t width;
    size_t rows;
};

/*
 * Any thread may call any function. The functions below "inside" need a call of enter on the same thread, and belong to
 * that device. An error is TUTTI_BACKEND with the vendor's function, code (vendor_code) and name, or NO_MEMORY. `error`
 * may be NULL.
 */
struct tti_device {
    const char *name;          /* "cpu", "cuda", "rocm" */
    DLDeviceType type;         /* of memory of alloc: kDLCPU, kDLCUDA, kDLROCM */
    DLDeviceType host_type;    /* of pinned host memory: kDLCUDAHost, ... */
    DLDeviceType managed_type; /* of memory that migrates: kDLCUDAManaged; kDLCPU if there is none */

    /* 1 if there is a device of this kind; else 0 and the reason. Detected once. Never crashes. */
    int32_t (*available)(char *why, size_t capacity);
    /* The next ones: only if available. */
    int32_t (*count)(void);
    tutti_status (*version)(int32_t *driver, tutti_error *error); /* of the driver, as the vendor counts: 13000 */
    tutti_status (*name_of)(int32_t index, char *name, size_t capacity, tutti_error *error);
    tutti_status (*uuid_of)(int32_t index, unsigned char uuid[TTI_DEVICE_UUID], tutti_error *error);
    /* The place of memory: `type`, `host_type` or `managed_type` and the index; {kDLCPU, 0} if the vendor does not know
     * it. Needs no scope. */
    tutti_status (*lookup)(const void *memory, DLDevice *device, tutti_error *error);
    tutti_status (*enter)(int32_t index, struct tti_device_scope *scope, tutti_error *error);
    void (*leave)(const struct tti_device_scope *scope);

    /* ---- inside ---- */

    /* 0 bytes: NULL, which may be freed. */
    tutti_status (*alloc)(size_t bytes, void **memory, tutti_error *error);
    tutti_status (*free)(void *memory, tutti_error *error);
    /* Pinned host memory, for every device of the process. */
    tutti_status (*alloc_host)(size_t bytes, void **memory, tutti_error *error);
    tutti_status (*free_host)(void *memory, tutti_error *error);
    /* Queues a copy between any two places. bytes, width and rows may be 0. If one place is pageable host memory, or
     * both are host memory, the copy may be complete on return; then the function has waited for the stream. */
    tutti_status (*copy)(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error);
    tutti_status (*copy_rows)(const struct tti_device_rows *rows, void *stream, tutti_error *error);
    /* The stream and the default stream do not wait for each other. */
    tutti_status (*stream_create)(void **stream, tutti_error *error);
    tutti_status (*stream_destroy)(void *stream, tutti_error *error);
    tutti_status (*stream_wait_event)(void *stream, void *event, tutti_error *error);
    /* Work that is queued later waits until *word (4 bytes of alloc_host) is at least `value`, by signed difference.
     * NULL, or UNSUPPORTED: the device cannot. */
    tutti_status (*stream_wait_word)(void *stream, const uint32_t *word, uint32_t value, tutti_error *error);
    tutti_status (*event_create)(void **event, tutti_error *error);
    tutti_status (*event_destroy)(void *event, tutti_error *error);
    tutti_status (*event_record)(void *event, void *stream, tutti_error *error);
    /* *done = 1 if all work before the last record is complete, or the event was never recorded. Reports errors of that
     * work. */
    tutti_status (*event_query)(void *event, int32_t *done, tutti_error *error);
    /* Memory of alloc for another process of this host: `handle` names the allocation, `memory` lies `offset` bytes in
     * it. */
    tutti_status (*ipc_export)(const void *memory, unsigned char handle[TTI_DEVICE_IPC], size_t *offset,
                               tutti_error *error);
    tutti_status (*ipc_open)(const unsigned char handle[TTI_DEVICE_IPC], void **allocation, tutti_error *error);
    tutti_status (*ipc_close)(void *allocation, tutti_error *error);
};

/* Found by tti_device_of. */
extern const struct tti_device tti_device_host;
extern const struct tti_device tti_device_cuda;
extern const struct tti_device tti_device_rocm;

#endif
