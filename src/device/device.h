/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: where memory lies, how it is copied, and what has been done of what was queued. One table of functions for
 * each kind of memory: the host's own, CUDA's (libcuda.so.1, the driver's interface) and ROCm's (libamdhip64.so). The
 * vendors' libraries are opened when they are first asked for; nothing of them is needed to build Tutti, or to run it
 * on a CPU.
 *
 * How to use one:
 *     const struct tti_device *d = tti_device_of(kDLCUDA);           (never NULL for kDLCPU, kDLCUDA, kDLROCM)
 *     if (!d->available(why, sizeof(why))) ...
 *     struct tti_device_scope scope;
 *     tutti_status status = d->enter(index, &scope, error);          (on every thread that goes on)
 *     if (status == TUTTI_OK) {
 *         status = d->copy(dst, src, bytes, stream, error);
 *         d->leave(&scope);
 *     }
 * What stands below "inside" is called between enter and leave on the same thread, and belongs to that device. Every
 * function may be called from any thread. Errors are TUTTI_BACKEND with the vendor's function, code (vendor_code) and
 * name; NO_MEMORY if that is what the vendor says. `error` may be NULL everywhere.
 *
 * Streams and events are the vendor's own (CUstream, CUevent, hipStream_t, hipEvent_t), so those of an application can
 * be handed in. On the host everything is done when a function returns, streams and events are NULL.
 */
#ifndef TTI_DEVICE_DEVICE_H
#define TTI_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tutti/dlpack.h>
#include <tutti/status.h>

enum { TTI_DEVICE_UUID = 16, TTI_DEVICE_IPC = 64 };

/* What enter changed on this thread. */
struct tti_device_scope {
    void *context;    /* CUDA: pushed */
    int32_t previous; /* HIP: the device that was current */
};

/* A two-dimensional copy: `rows` rows of `width` bytes, whose beginnings are `*_pitch` >= width bytes apart. */
struct tti_device_rows {
    void *dst;
    size_t dst_pitch;
    const void *src;
    size_t src_pitch;
    size_t width;
    size_t rows;
};

struct tti_device {
    const char *name;          /* "cpu", "cuda", "rocm" */
    DLDeviceType type;         /* kDLCPU, kDLCUDA, kDLROCM: of memory that alloc gives */
    DLDeviceType host_type;    /* of pinned host memory: kDLCUDAHost, ... */
    DLDeviceType managed_type; /* of memory that moves by itself: kDLCUDAManaged; kDLCPU if there is none */

    /* 1 if there is a device of this kind; else 0 and why not. Asked once, then remembered. Never crashes. */
    int32_t (*available)(char *why, size_t capacity);
    /* The next ones: only if available. */
    int32_t (*count)(void);
    tutti_status (*version)(int32_t *driver, tutti_error *error); /* 13000: of the driver, in the vendor's counting */
    tutti_status (*name_of)(int32_t index, char *name, size_t capacity, tutti_error *error);
    tutti_status (*uuid_of)(int32_t index, unsigned char uuid[TTI_DEVICE_UUID], tutti_error *error);
    /* Where memory lies: what `type`, `host_type` or `managed_type` say and the index, or {kDLCPU, 0} for what the
     * vendor does not know. Needs no scope. */
    tutti_status (*lookup)(const void *memory, DLDevice *device, tutti_error *error);
    tutti_status (*enter)(int32_t index, struct tti_device_scope *scope, tutti_error *error);
    void (*leave)(const struct tti_device_scope *scope);

    /* ---- inside ---- */

    /* No bytes: NULL, which may be freed. */
    tutti_status (*alloc)(size_t bytes, void **memory, tutti_error *error);
    tutti_status (*free)(void *memory, tutti_error *error);
    /* Host memory that the device copies from and to without help: pinned, for every device of the process. */
    tutti_status (*alloc_host)(size_t bytes, void **memory, tutti_error *error);
    tutti_status (*free_host)(void *memory, tutti_error *error);
    /* Queue a copy between any two places. bytes, width and rows may be 0. If one of them is pageable host memory, or
     * both are the host's, it may have been done when the function returns, which then has waited for its turn. */
    tutti_status (*copy)(void *dst, const void *src, size_t bytes, void *stream, tutti_error *error);
    tutti_status (*copy_rows)(const struct tti_device_rows *rows, void *stream, tutti_error *error);
    /* A stream that does not wait for the default stream, nor it for this one. */
    tutti_status (*stream_create)(void **stream, tutti_error *error);
    tutti_status (*stream_destroy)(void *stream, tutti_error *error);
    tutti_status (*stream_wait_event)(void *stream, void *event, tutti_error *error);
    /* What is queued on the stream from now on waits until *word (4 bytes of alloc_host) is at least `value`, as signed
     * difference. NULL, or UNSUPPORTED: the device cannot. */
    tutti_status (*stream_wait_word)(void *stream, const uint32_t *word, uint32_t value, tutti_error *error);
    tutti_status (*event_create)(void **event, tutti_error *error);
    tutti_status (*event_destroy)(void *event, tutti_error *error);
    tutti_status (*event_record)(void *event, void *stream, tutti_error *error);
    /* *done = 1 if everything before the last record is done; an event that was never recorded is done. An error of the
     * work on the stream is reported here. */
    tutti_status (*event_query)(void *event, int32_t *done, tutti_error *error);
    /* Memory of alloc for another process of this host: `handle` names the allocation, `offset` is where `memory` lies
     * in it. */
    tutti_status (*ipc_export)(const void *memory, unsigned char handle[TTI_DEVICE_IPC], size_t *offset,
                               tutti_error *error);
    tutti_status (*ipc_open)(const unsigned char handle[TTI_DEVICE_IPC], void **allocation, tutti_error *error);
    tutti_status (*ipc_close)(void *allocation, tutti_error *error);
};

/* By a DLPack device type: kDLCPU, kDLCUDA, kDLROCM, and the host and managed types of the last two; NULL for
 * others. */
const struct tti_device *tti_device_of(DLDeviceType type);
/* By name; NULL if there is none. */
const struct tti_device *tti_device_named(const char *name);

/* The drivers; use tti_device_of. */
extern const struct tti_device tti_device_host;
extern const struct tti_device tti_device_cuda;
extern const struct tti_device tti_device_rocm;

/* ---- built on the table ---- */

/* Waits until the event is done, without burning the CPU for long: spins, yields, then sleeps in steps. TIMEOUT at
 * deadline_ns (CLOCK_MONOTONIC; INT64_MAX = never). Inside. */
tutti_status tti_device_await(const struct tti_device *device, void *event, int64_t deadline_ns, tutti_error *error);

/* Copies a strided tensor into compact memory, or the other way round, in row-major order. Either may lie anywhere. On
 * devices as few two-dimensional copies as the strides allow, queued on `stream`. Inside. */
tutti_status tti_device_pack(const struct tti_device *device, void *compact, const DLTensor *tensor, void *stream,
                             tutti_error *error);
tutti_status tti_device_unpack(const struct tti_device *device, const DLTensor *tensor, const void *compact,
                               void *stream, tutti_error *error);

/*
 * Work that somebody waits for, on a stream of its own; from outside. Between begin (behind the event `after`; NULL: at once)
 * and end the caller is inside, and queues on x->stream. end waits for all of it, also after a failure, which it is told as
 * `status`; TIMEOUT at deadline_ns.
 */
struct tti_device_session {
    const struct tti_device *device;
    struct tti_device_scope scope;
    void *stream;
    void *event;
    bool done; /* behind its end: nothing of it is under way any more */
};
tutti_status tti_device_session_begin(DLDevice device, void *after, struct tti_device_session *x, tutti_error *error);
tutti_status tti_device_session_end(struct tti_device_session *x, tutti_status status, int64_t deadline_ns,
                                    tutti_error *error);

/* Copies that are made when this returns, in any order. From outside. */
struct tti_device_copy {
    void *dst;
    const void *src;
    size_t bytes;
};
tutti_status tti_device_copy_sync(DLDevice device, const struct tti_device_copy *copies, size_t count,
                                  tutti_error *error);

/* Memory of a device, from outside. */
tutti_status tti_device_alloc(DLDevice device, size_t bytes, void **memory, tutti_error *error);
void tti_device_free(DLDevice device, void *memory);

/* "cuda:1", for sentences; of any DLPack device. */
const char *tti_device_text(DLDevice device, char text[24]);

#endif
