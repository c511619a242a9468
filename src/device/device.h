/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices: the place of memory, copies, and completion of queued work.
 *
 * How to use one:
 *     const struct tti_device *d = tti_device_of(kDLCUDA);           (never NULL for kDLCPU, kDLCUDA, kDLROCM)
 *     if (!d->available(why, sizeof(why))) ...
 *     struct tti_device_scope scope;
 *     tutti_status status = d->enter(index, &scope, error);          (on each thread)
 *     if (status == TUTTI_OK) {
 *         status = d->copy(dst, src, bytes, stream, error);
 *         d->leave(&scope);
 *     }
 */
#ifndef TTI_DEVICE_DEVICE_H
#define TTI_DEVICE_DEVICE_H

#include "device/text.h"
#include "device/types.h"

/* By a DLPack device type: kDLCPU, kDLCUDA, kDLROCM, and the host and managed types of the last two; else NULL. */
const struct tti_device *tti_device_of(DLDeviceType type);
/* By name; NULL if there is none. */
const struct tti_device *tti_device_named(const char *name);

/* Waits until the event is done: polls, yields, then sleeps in steps. TIMEOUT at deadline_ns (CLOCK_MONOTONIC;
 * INT64_MAX = never). Inside. */
tutti_status tti_device_await(const struct tti_device *device, void *event, int64_t deadline_ns, tutti_error *error);

/* Copies a strided tensor into compact row-major memory, or back; each may lie anywhere. On devices by as few
 * two-dimensional copies as the strides allow, queued on `stream`. Inside. */
tutti_status tti_device_pack(const struct tti_device *device, void *compact, const DLTensor *tensor, void *stream,
                             tutti_error *error);
tutti_status tti_device_unpack(const struct tti_device *device, const DLTensor *tensor, const void *compact,
                               void *stream, tutti_error *error);

/*
 * Work on a stream of its own, for which the caller waits. Between begin (which queues a wait for the event `after`, if
 * that is not NULL) and end the caller is inside, and queues on x->stream. end waits for all of it, also after the
 * failure `status`; TIMEOUT at deadline_ns. The caller of begin is outside.
 */
struct tti_device_session {
    const struct tti_device *device;
    int32_t index;
    struct tti_device_scope scope;
    void *stream;
    void *event;
    bool done; /* after end: none of the work still runs. After TIMEOUT it is noted as late */
};
tutti_status tti_device_session_begin(DLDevice device, void *after, struct tti_device_session *x, tutti_error *error);
tutti_status tti_device_session_end(struct tti_device_session *x, tutti_status status, int64_t deadline_ns,
                                    tutti_error *error);

/* Copies, in any order, that are complete on return. Outside. */
struct tti_device_copy {
    void *dst;
    const void *src;
    size_t bytes;
};
tutti_status tti_device_copy_sync(DLDevice device, const struct tti_device_copy *copies, size_t count,
                                  tutti_error *error);

/* The caller stops waiting for work that still runs. `event` was recorded behind it. The event, and `stream` (may be
 * NULL), are destroyed when the work has ended. Inside. */
void tti_device_note_late(const struct tti_device *device, int32_t index, void *event, void *stream);

/* tti_device_await for an event behind the caller's own work. After TIMEOUT the work is noted as late, and *event and
 * *stream (`stream` may be NULL) are NULL. Inside. */
tutti_status tti_device_await_or_note(const struct tti_device *device, int32_t index, void **event, void **stream,
                                      int64_t deadline_ns, tutti_error *error);

/* Frees memory of the device, or pinned memory of the host; while late work runs, it stays allocated. NULL: does
 * nothing. Inside. */
void tti_device_release(const struct tti_device *device, int32_t index, void *memory, bool pinned);

/* The same for memory of another library, which free_memory(owner, memory) frees. */
void tti_device_release_by(const struct tti_device *device, int32_t index, void *memory,
                           void (*free_memory)(const void *owner, void *memory), const void *owner);

/* Memory of a device; freed as by release. Outside. */
tutti_status tti_device_alloc(DLDevice device, size_t bytes, void **memory, tutti_error *error);
void tti_device_free(DLDevice device, void *memory);

#endif
